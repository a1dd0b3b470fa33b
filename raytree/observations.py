"""The store: every trial that was suggested or given, and what is known of it.

A trial is *running* from its suggestion on; it ends *finished* with a value, *invalid* (it reported something that is no
finite number) or *errored*. Reports are kept by their t, so that a repeated or late one does no harm, and a retry that
starts again replaces what it repeats. Values are kept as the user gave them; `sign` turns them into a loss.

Order is the order of suggestion: whatever is computed from the store depends on events, never on ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from raytree.errors import SettingError
from raytree.space import Path, Point, Space
from raytree.space.parameters import Array

MAX_REPORTS = 128  # a trial's; beyond, reports are thinned to a geometric grid in t


class Status(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    INVALID = "invalid"
    ERRORED = "errored"


@dataclass
class Trial:
    """One evaluation of one point. `reports` maps t to a value; None where the value was not a finite number."""

    id: str
    number: int
    point: Point
    row: Array
    path: Path
    status: Status = Status.RUNNING
    value: float | None = None
    t: float | None = None
    reports: dict[float, float | None] = field(default_factory=dict)


class Losses(NamedTuple):
    """What models are fitted to: rows (n, d), losses (n,) in the user's units with the sign of a loss."""

    rows: Array
    losses: Array
    paths: list[Path]
    trials: list[Trial]


def as_value(raw: Any) -> float | None:
    """A metric as a finite float; None for NaN, infinities, text, None and anything else."""
    if isinstance(raw, (bool, np.bool_)):
        return float(raw)
    try:
        value = float(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


class Observations:
    """The trials of one search.

    Args:
        space: the search space.
        mode: "min" or "max".
        on_error: what an errored trial means: "ignore" (its value is unknown) or "penalize" (it was bad).
    """

    def __init__(self, space: Space, mode: str = "min", on_error: str = "ignore") -> None:
        if mode not in ("min", "max"):
            raise SettingError("mode", f"must be 'min' or 'max', got {mode!r}.")
        if on_error not in ("ignore", "penalize"):
            raise SettingError("on_error", f"must be 'ignore' or 'penalize', got {on_error!r}.")
        self.space, self.mode, self.on_error = space, mode, on_error
        self.trials: dict[str, Trial] = {}
        self._used: set[Point] = set()

    @property
    def sign(self) -> float:
        return 1.0 if self.mode == "min" else -1.0

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials.values())

    def __contains__(self, trial_id: str) -> bool:
        return trial_id in self.trials

    # Events

    def add(self, trial_id: str, point: Point) -> Trial:
        """A new running trial."""
        if trial_id in self.trials:
            raise SettingError("trial_id", f"{trial_id!r} was suggested before.", "Use a new id for every ask.")
        trial = Trial(trial_id, len(self.trials), point, self.space.encode(point), self.space.path(point))
        self.trials[trial_id] = trial
        self._used.add(self.space.key(point))
        return trial

    def report(self, trial_id: str, raw: Any, t: float) -> None:
        """A value at t. A trial that had ended in error is running again; one that had finished takes a later value."""
        trial = self.trials[trial_id]
        value = as_value(raw)
        self._store(trial, t, value)
        if trial.status is Status.ERRORED:
            trial.status = Status.RUNNING
        elif trial.status is not Status.RUNNING and value is not None and t >= (trial.t or 0):
            trial.status, trial.value, trial.t = Status.FINISHED, value, t

    def finish(self, trial_id: str, raw: Any, t: float | None = None) -> None:
        """The end of a trial with a last value; a value that is no finite number makes it invalid."""
        trial = self.trials[trial_id]
        at = t if t is not None else max(trial.reports, default=1.0)
        value = as_value(raw)
        for later in [key for key in trial.reports if key > at]:
            del trial.reports[later]  # left over from an earlier attempt that went further
        self._store(trial, at, value)
        trial.status = Status.INVALID if value is None else Status.FINISHED
        trial.value, trial.t = value, at

    def end(self, trial_id: str) -> None:
        """The end of a trial without a last word: its value is the last finite one it reported."""
        trial = self.trials[trial_id]
        if trial.status is not Status.RUNNING:
            return
        finite = [t for t, value in trial.reports.items() if value is not None]
        if finite:
            trial.t = max(finite)
            trial.value, trial.status = trial.reports[trial.t], Status.FINISHED
        else:
            trial.status = Status.INVALID

    def fail(self, trial_id: str) -> None:
        """The end of a trial in error; a trial that had finished stays finished."""
        trial = self.trials[trial_id]
        if trial.status is Status.RUNNING:
            trial.status = Status.ERRORED

    def discard_value(self, trial_id: str) -> None:
        """Makes a trial an errored one, whatever it reported."""
        trial = self.trials[trial_id]
        trial.status, trial.value = Status.ERRORED, None

    def _store(self, trial: Trial, t: float, value: float | None) -> None:
        trial.reports[t] = value
        if len(trial.reports) > MAX_REPORTS:
            times = sorted(trial.reports)
            keep = {times[0], times[-1]}
            for at in times[1:]:
                if at >= 1.1 * max((k for k in keep if k < at), default=0.0):
                    keep.add(at)
            kept = sorted(keep)[-MAX_REPORTS // 2 :]
            trial.reports = {at: trial.reports[at] for at in kept}

    # Questions

    def used(self, point: Point) -> bool:
        """Whether some trial, whatever became of it, has this configuration."""
        return self.space.key(point) in self._used

    @property
    def n_used(self) -> int:
        """The number of different configurations that were tried."""
        return len(self._used)

    def with_status(self, *wanted: Status) -> list[Trial]:
        """Trials in one of the given states, in order of suggestion."""
        return [trial for trial in self if trial.status in wanted]

    def best(self) -> Trial | None:
        """The finished trial with the lowest loss; the first of equals."""
        finished = self.with_status(Status.FINISHED)
        return min(finished, key=lambda trial: self.sign * _value(trial), default=None)

    def losses(self) -> Losses:
        """What is known: finished trials, and bad ones at half the range worse than the worst (all, if none finished)."""
        bad = {Status.INVALID, Status.ERRORED} if self.on_error == "penalize" else {Status.INVALID}
        finished = self.with_status(Status.FINISHED)
        if not finished:
            return Losses(np.empty((0, self.space.d)), np.empty(0), [], [])
        known = np.array([self.sign * _value(trial) for trial in finished])
        worst, span = known.max(), known.max() - known.min()
        imputed = worst + (0.5 * span if math.isfinite(span) and span > 0 else max(1e-3, 1e-3 * abs(worst)))
        chosen = [trial for trial in self if trial.status is Status.FINISHED or trial.status in bad]
        values = [self.sign * _value(t) if t.status is Status.FINISHED else imputed for t in chosen]
        return Losses(np.array([t.row for t in chosen]), np.array(values), [t.path for t in chosen], chosen)

    def unknown(self) -> list[Trial]:
        """Trials whose place is taken but whose value is not known: running, and errored ones that are not penalised."""
        if self.on_error == "penalize":
            return self.with_status(Status.RUNNING)
        return self.with_status(Status.RUNNING, Status.ERRORED)


def _value(trial: Trial) -> float:
    assert trial.value is not None
    return trial.value
