"""The store: every trial that was suggested or given, and what is known of it.

A trial is *running* from its suggestion on; it ends *finished* with a value, *invalid* (it reported something that is no
finite number), *errored*, or *stopped* before it had said anything. Reports are kept by their t, so that a repeated or
late one does no harm, and a retry that starts again replaces what it repeats. Values are kept as the user gave them;
`sign` turns them into a loss.

A trial that was over and reports again is taken up again. Its reports count at once, *provisionally*: Tune's concurrency
limiter never delivers the end of such a trial. A proper end replaces what they say, an error takes it back.

With `max_t` only a trial that got there is complete, or, while none did, those that got furthest: `losses` has complete
trials alone, `curves` what all trials have said on their way, each at its fidelity. A fidelity here is a logarithm: 1 at
max_t, 0 at the first step.

Order is the order of suggestion: whatever is computed from the store depends on events, never on ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    STOPPED = "stopped"
    """Ended before it had said anything: nothing is known of it, and nothing is held against it."""


FAILED = (Status.INVALID, Status.ERRORED)
"""Trials that ended without a value."""


class Ending(StrEnum):
    """What the end of a trial says about who ended it."""

    BY_ITSELF = "by itself"
    AT_A_REPORT = "at a report"
    """Its last report came with its end: a scheduler, a stopping rule or the trainable itself ended it there."""
    WITHOUT_A_WORD = "without a word"
    """It had no last report: a scheduler ended it while it was paused or waiting."""


@dataclass
class Trial:
    """One evaluation of one point. `reports` maps t to a value; None where the value was not a finite number.

    `provisional`: what is known may be all that will ever be, or may be replaced; see the top of this file.
    """

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
    ending: Ending = Ending.BY_ITSELF
    provisional: bool = False


class Data(NamedTuple):
    """What models are fitted to: rows (n, d), losses (n,) in the user's units with the sign of a loss.

    From `curves` rows are (n, d + 1), the fidelity last, and a trial may have several.
    """

    rows: Array
    losses: Array
    paths: list[Path]
    trials: list[Trial]

    def at(self, index: Sequence[int]) -> Data:
        """Some of it, by number."""
        kept = list(index)
        return Data(self.rows[kept], self.losses[kept], [self.paths[k] for k in kept], [self.trials[k] for k in kept])


def as_value(raw: Any) -> float | None:
    """A metric as a finite float; None for NaN, infinities, text, None and anything else.

    An array or tensor with one element is its element.
    """
    if isinstance(raw, (str, bytes, bytearray, memoryview)):
        return None
    try:
        value = float(raw.item() if getattr(raw, "size", None) == 1 and hasattr(raw, "item") else raw)
    except Exception:  # noqa: BLE001  a foreign object may raise anything; whatever it is, it is no number
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

    def add(self, trial_id: str, point: Point, provisional: bool = False) -> Trial:
        """A new running trial; a provisional one may never be told to have ended."""
        if trial_id in self.trials:
            raise SettingError("trial_id", f"{trial_id!r} was suggested before.", "Use a new id for every ask.")
        row, path = self.space.encode(point), self.space.path(point)
        trial = Trial(trial_id, len(self.trials), point, row, path, provisional=provisional)
        self.trials[trial_id] = trial
        self._used.add(self.space.key(point))
        return trial

    def report(self, trial_id: str, raw: Any, t: float) -> None:
        """A value at t. One that had finished takes a later value; one that was over without a value is taken up again."""
        trial = self.trials[trial_id]
        value = as_value(raw)
        if trial.status in (Status.INVALID, Status.ERRORED, Status.STOPPED) and not trial.provisional:
            trial.provisional = True
            trial.reports = {at: said for at, said in trial.reports.items() if at < t}  # it has started again from there
        self._store(trial, t, value)
        if trial.provisional:
            self._settle(trial)
        elif trial.status is Status.FINISHED and value is not None and t >= (trial.t or 0):
            trial.value, trial.t = value, t

    def finish(self, trial_id: str, raw: Any, t: float | None = None) -> None:
        """The end of a trial with a last value; a value that is no finite number makes it invalid."""
        trial = self.trials[trial_id]
        at = t if t is not None else max(trial.reports, default=self.full_t if self.max_t is not None else 1.0)
        value = as_value(raw)
        if trial.status is not Status.FINISHED or trial.t != at:  # else it is told again
            trial.ending = Ending.AT_A_REPORT if t is not None and t not in trial.reports else Ending.BY_ITSELF
        for later in [key for key in trial.reports if key > at]:
            del trial.reports[later]  # left over from an earlier attempt that went further
        self._store(trial, at, value)
        trial.status = Status.INVALID if value is None else Status.FINISHED
        trial.value, trial.t, trial.provisional = value, at, False

    def end(self, trial_id: str, by_itself: bool = False) -> None:
        """The end of a trial without a last value: its value is the last finite one it reported.

        Args:
            trial_id: which.
            by_itself: whether it came to its end. Without any report it is invalid then, else stopped.
        """
        trial = self.trials[trial_id]
        if trial.status is Status.RUNNING:
            trial.ending = Ending.BY_ITSELF if by_itself else Ending.WITHOUT_A_WORD
            if trial.reports or by_itself:
                self._settle(trial)
            else:
                trial.status = Status.STOPPED
        trial.provisional = False

    def fail(self, trial_id: str) -> None:
        """The end of a trial in error; a trial that had finished stays finished."""
        trial = self.trials[trial_id]
        if trial.status is Status.RUNNING or trial.provisional:
            trial.status, trial.value, trial.t = Status.ERRORED, None, None
        trial.provisional = False

    def _settle(self, trial: Trial) -> None:
        """Its value is the last finite one it reported."""
        finite = [t for t, value in trial.reports.items() if value is not None]
        trial.t = max(finite, default=None)
        trial.value = None if trial.t is None else trial.reports[trial.t]
        trial.status = Status.INVALID if trial.t is None else Status.FINISHED

    def discard_value(self, trial_id: str) -> None:
        """Makes a trial an errored one, whatever it reported."""
        trial = self.trials[trial_id]
        trial.status, trial.value, trial.t = Status.ERRORED, None, None

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

    def running(self) -> list[Trial]:
        """Trials that were suggested and have not ended."""
        return self.with_status(Status.RUNNING)

    @property
    def full_t(self) -> float:
        """t of a complete trial, where that means something."""
        return (
            self.max_t if isinstance(self.max_t, float) else max((max(trial.reports, default=1.0) for trial in self), default=1.0)
        )

    def complete(self) -> list[Trial]:
        """The finished trials that got to the end; while there are none, those that got about as far as any."""
        finished = self.with_status(Status.FINISHED)
        if self.max_t is None or not finished:
            return finished
        enough = self.full_t * (1.0 - 1e-9)
        reached = [trial for trial in finished if trial.t is None or trial.t >= enough]
        longest = max(trial.t or 0.0 for trial in finished)
        return reached or [trial for trial in finished if (trial.t or 0.0) > longest / RUNGS]

    def outcomes(self) -> list[str]:
        """What became of every trial, in a word, in order of suggestion; "stopped" where something ended it early.

        Early is before `max_t`, or, without that number, before the longest finished trial ended.
        """
        finished = self.with_status(Status.FINISHED)
        full = self.max_t if isinstance(self.max_t, float) else max((trial.t or 0.0 for trial in finished), default=0.0)

        def early(trial: Trial) -> bool:
            cut = trial.ending is Ending.AT_A_REPORT and (trial.t or full) < full * (1.0 - 1e-9)
            return trial.status is Status.FINISHED and (cut or trial.ending is Ending.WITHOUT_A_WORD)

        return [str(Status.STOPPED if early(trial) else trial.status) for trial in self]

    def best(self) -> Trial | None:
        """The finished trial with the lowest loss, of complete ones if there are any; the first of equals."""
        return min(
            self.complete() or self.with_status(Status.FINISHED), key=lambda trial: self.sign * _value(trial), default=None
        )

    def losses(self) -> Data:
        """What is known: complete trials, and bad ones at half the range worse than the worst (all, if none finished)."""
        bad = {Status.INVALID, Status.ERRORED} if self.on_error == "penalize" else {Status.INVALID}
        finished = self.complete()
        if not finished:
            return Data(np.empty((0, self.space.d)), np.empty(0), [], [])
        imputed = _imputed(np.array([self.sign * _value(trial) for trial in finished]))
        good = {trial.number for trial in finished}
        chosen = [trial for trial in self if trial.number in good or trial.status in bad]
        values = [self.sign * _value(t) if t.number in good else imputed for t in chosen]
        return Data(np.array([t.row for t in chosen]), np.array(values), [t.path for t in chosen], chosen)

    def curves(self) -> Data:
        """What all trials have said, running ones included: some reports of each, the last one among them."""
        bad = {Status.INVALID, Status.ERRORED} if self.on_error == "penalize" else {Status.INVALID}
        known = [(trial, t, self.sign * value) for trial in self for t, value in _thinned(trial)]
        if not known:
            return Data(np.empty((0, self.space.d + 1)), np.empty(0), [], [])
        imputed = _imputed(np.array([loss for _, _, loss in known]))
        full = self.full_t
        known += [(trial, trial.t or full, imputed) for trial in self if trial.status in bad]
        known.sort(key=lambda entry: entry[0].number)  # stable: a trial's reports stay in their order
        rows = np.array([np.append(trial.row, fidelity(t, full)) for trial, t, _ in known])
        return Data(rows, np.array([loss for _, _, loss in known]), [e[0].path for e in known], [e[0] for e in known])


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
