"""The store: every trial that was suggested or given, and what is known of it.

A trial is *running* from its suggestion on; it ends *finished* with a value, *invalid* (it reported something that is no
finite number) or *errored*. Reports are kept by their t, so that a repeated or late one does no harm, and a retry that
starts again replaces what it repeats. Values are kept as the user gave them; `sign` turns them into a loss.

With `max_t` only a trial that got there is complete: `losses` has complete trials alone, `curves` what all trials have said
on their way, each at its fidelity. A fidelity here is a logarithm: 1 at max_t, 0 at the first step.

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
RUNGS = 3.0  # of a trial's curve models see reports this factor apart in t, and the last one
SHORTEST = 10.0  # the least that is told apart is at most this fraction of max_t


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
    cost: float | None = None


class Losses(NamedTuple):
    """What models are fitted to: rows (n, d), losses (n,) in the user's units with the sign of a loss.

    From `curves` rows are (n, d + 1), the fidelity last, and a trial may have several.
    """

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
        max_t: t of a complete trial, "auto" (the largest that was seen), or None: every trial that ended is complete.
    """

    def __init__(self, space: Space, mode: str = "min", on_error: str = "penalize", max_t: float | str | None = None) -> None:
        if mode not in ("min", "max"):
            raise SettingError("mode", f"must be 'min' or 'max', got {mode!r}.")
        if on_error not in ("ignore", "penalize"):
            raise SettingError("on_error", f"must be 'ignore' or 'penalize', got {on_error!r}.")
        number = isinstance(max_t, (int, float, np.number)) and not isinstance(max_t, bool)
        if not (max_t is None or max_t == "auto" or (number and 0 < float(max_t) < math.inf)):
            raise SettingError("max_t", f"must be a positive number, 'auto' or None, got {max_t!r}.")
        self.space, self.mode, self.on_error = space, mode, on_error
        self.max_t: float | str | None = max_t if max_t is None or max_t == "auto" else float(max_t)
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
        at = t if t is not None else max(trial.reports, default=self.full_t if self.max_t is not None else 1.0)
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

    @property
    def full_t(self) -> float:
        """t of a complete trial, where that means something."""
        return (
            self.max_t if isinstance(self.max_t, float) else max((max(trial.reports, default=1.0) for trial in self), default=1.0)
        )

    def complete(self) -> list[Trial]:
        """The finished trials that got to the end."""
        finished = self.with_status(Status.FINISHED)
        if self.max_t is None:
            return finished
        enough = self.full_t * (1.0 - 1e-9)
        return [trial for trial in finished if trial.t is None or trial.t >= enough]

    def best(self) -> Trial | None:
        """The finished trial with the lowest loss, of complete ones if there are any; the first of equals."""
        return min(
            self.complete() or self.with_status(Status.FINISHED), key=lambda trial: self.sign * _value(trial), default=None
        )

    def losses(self) -> Losses:
        """What is known: complete trials, and bad ones at half the range worse than the worst (all, if none finished)."""
        bad = {Status.INVALID, Status.ERRORED} if self.on_error == "penalize" else {Status.INVALID}
        finished = self.complete()
        if not finished:
            return Losses(np.empty((0, self.space.d)), np.empty(0), [], [])
        imputed = _imputed(np.array([self.sign * _value(trial) for trial in finished]))
        good = {trial.number for trial in finished}
        chosen = [trial for trial in self if trial.number in good or trial.status in bad]
        values = [self.sign * _value(t) if t.number in good else imputed for t in chosen]
        return Losses(np.array([t.row for t in chosen]), np.array(values), [t.path for t in chosen], chosen)

    def curves(self) -> Losses:
        """What all trials have said, running ones included: some reports of each, the last one among them."""
        bad = {Status.INVALID, Status.ERRORED} if self.on_error == "penalize" else {Status.INVALID}
        known = [(trial, t, self.sign * value) for trial in self for t, value in _thinned(trial)]
        if not known:
            return Losses(np.empty((0, self.space.d + 1)), np.empty(0), [], [])
        imputed = _imputed(np.array([loss for _, _, loss in known]))
        full = self.full_t
        known += [(trial, trial.t or full, imputed) for trial in self if trial.status in bad]
        known.sort(key=lambda entry: entry[0].number)  # stable: a trial's reports stay in their order
        rows = np.array([np.append(trial.row, fidelity(t, full)) for trial, t, _ in known])
        return Losses(rows, np.array([loss for _, _, loss in known]), [e[0].path for e in known], [e[0] for e in known])


def _value(trial: Trial) -> float:
    assert trial.value is not None
    return trial.value


def fidelity(t: float, full_t: float) -> float:
    """t on a logarithmic scale: 1 for a complete trial, 0 for one step, or for a tenth of all if that is less."""
    return float(np.clip(1.0 + math.log(max(t, 1e-300) / full_t) / math.log(max(full_t, SHORTEST)), 0.0, 1.0))


def _imputed(losses: Array) -> float:
    """A loss for what has failed, from losses (n,) that are known."""
    worst, span = losses.max(), losses.max() - losses.min()
    return float(worst + (0.5 * span if math.isfinite(span) and span > 0 else max(1e-3, 1e-3 * abs(worst))))


def _thinned(trial: Trial) -> list[tuple[float, float]]:
    """A trial's finite reports on a geometric grid in t, and the last."""
    finite = sorted((t, value) for t, value in trial.reports.items() if value is not None)
    kept: list[tuple[float, float]] = []
    for t, value in finite:
        if not kept or t >= RUNGS * kept[-1][0]:
            kept.append((t, value))
    return kept if not finite or kept[-1] == finite[-1] else [*kept, finite[-1]]
