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

MAX_REPORTS = 128
"""Of a running trial; beyond, they are thinned to a geometric grid in t."""
KEPT_REPORTS = 24
"""Of a trial that has ended; of more, those on a geometric grid, the first and the last."""
GRID = 1.1
"""The factor between neighbours on that grid, while a trial runs."""
ENDED_GRID = 1.25
"""The same when it has ended."""
RUNGS = 3.0
"""Of a trial's curve models see reports this factor apart in t, and the last one."""
SHORTEST = 10.0
"""The least that is told apart is at most this fraction of max_t."""


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

    From `curves` rows are (n, d + 1), the fidelity last, and a trial may have several. `numbers` (n,) are those of the trials,
    `failed` (n,) says whose loss is imputed.
    """

    rows: Array
    losses: Array
    paths: list[Path]
    trials: list[Trial]
    numbers: np.ndarray
    failed: np.ndarray

    def at(self, index: Sequence[int]) -> Data:
        """Some of it, by place."""
        kept = list(index)
        paths, trials = [self.paths[k] for k in kept], [self.trials[k] for k in kept]
        return Data(self.rows[kept], self.losses[kept], paths, trials, self.numbers[kept], self.failed[kept])

    def last_losses(self) -> Array:
        """(m,) what each trial that has not failed said last, in order of suggestion."""
        valid = ~self.failed
        numbers, losses = self.numbers[valid], self.losses[valid]
        found: Array = losses[np.append(numbers[1:] != numbers[:-1], True)] if len(numbers) else losses
        return found


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


_CODES = {status: k for k, status in enumerate(Status)}


class Columns:
    """What models ask of all trials, as arrays that grow: rows (n, d), values and t (NaN for none), the largest t of a report
    (1 for none), and status codes (n,).

    Args:
        d: coordinates of a row.
    """

    def __init__(self, d: int) -> None:
        self.n = 0
        self._rows = np.empty((16, d))
        self._values, self._times, self._furthest = np.full(16, np.nan), np.full(16, np.nan), np.ones(16)
        self._status = np.zeros(16, dtype=np.int8)
        self.counts = [0] * len(_CODES)

    def add(self, row: Array) -> None:
        """One more trial, running."""
        if self.n == len(self._status):
            self._rows = np.vstack([self._rows, np.empty_like(self._rows)])
            more = np.full(self.n, np.nan)
            self._values, self._times = np.append(self._values, more), np.append(self._times, more)
            self._furthest = np.append(self._furthest, np.ones(self.n))
            self._status = np.append(self._status, np.zeros_like(self._status))
        self._rows[self.n] = row
        self._status[self.n] = _CODES[Status.RUNNING]
        self.counts[_CODES[Status.RUNNING]] += 1
        self.n += 1

    def set(self, trial: Trial) -> None:
        """What is known of a trial now."""
        k, code = trial.number, _CODES[trial.status]
        self.counts[self._status[k]] -= 1
        self.counts[code] += 1
        self._status[k] = code
        self._values[k] = np.nan if trial.value is None else trial.value
        self._times[k] = np.nan if trial.t is None else trial.t
        self._furthest[k] = max(trial.reports, default=1.0)

    @property
    def rows(self) -> Array:
        return self._rows[: self.n]

    @property
    def values(self) -> Array:
        return self._values[: self.n]

    @property
    def times(self) -> Array:
        return self._times[: self.n]

    @property
    def furthest(self) -> float:
        """The largest t of any report."""
        return float(self._furthest[: self.n].max(initial=0.0)) if self.n else 1.0

    def having(self, *wanted: Status) -> np.ndarray:
        """(n,) which trials are in one of the given states."""
        status = self._status[: self.n]
        return np.isin(status, [_CODES[one] for one in wanted]) if self.n else np.zeros(0, dtype=bool)

    def count(self, status: Status) -> int:
        """How many trials are in a state."""
        return self.counts[_CODES[status]]


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
        self._ordered: list[Trial] = []
        self._used: set[Point] = set()
        self._columns = Columns(space.d)
        self._curves: dict[int, list[tuple[float, float]]] = {}  # by number, what models see of a trial's reports

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
        self._ordered.append(trial)
        self._used.add(self.space.key(point))
        self._columns.add(row)
        return trial

    def take(self, trial: Trial) -> None:
        """A trial of another search over the same space, with all that is known of it."""
        copy = self.add(trial.id, trial.point)
        copy.status, copy.value, copy.t, copy.cost = trial.status, trial.value, trial.t, trial.cost
        copy.reports, copy.ending, copy.provisional = dict(trial.reports), trial.ending, trial.provisional
        self.note(copy)

    def note(self, trial: Trial) -> None:
        """Takes over what is known of a trial now, after any event."""
        self._columns.set(trial)
        self._curves.pop(trial.number, None)

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
        self.note(trial)

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
        self._ended(trial)

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
        self._ended(trial)

    def fail(self, trial_id: str) -> None:
        """The end of a trial in error; a trial that had finished stays finished."""
        trial = self.trials[trial_id]
        if trial.status is Status.RUNNING or trial.provisional:
            trial.status, trial.value, trial.t = Status.ERRORED, None, None
        trial.provisional = False
        self._ended(trial)

    def _ended(self, trial: Trial) -> None:
        """Of very many reports of a trial that has ended, some are enough."""
        if len(trial.reports) > KEPT_REPORTS:
            trial.reports = _on_grid(trial.reports, ENDED_GRID)
        self.note(trial)

    def _settle(self, trial: Trial) -> None:
        """Its value is the last finite one it reported."""
        finite = [t for t, value in trial.reports.items() if value is not None]
        trial.t = max(finite, default=None)
        trial.value = None if trial.t is None else trial.reports[trial.t]
        trial.status = Status.INVALID if trial.t is None else Status.FINISHED

    def _store(self, trial: Trial, t: float, value: float | None) -> None:
        trial.reports[t] = value
        if len(trial.reports) > MAX_REPORTS:
            trial.reports = _on_grid(trial.reports, GRID)

    # Questions

    def used(self, point: Point) -> bool:
        """Whether some trial, whatever became of it, has this configuration."""
        return self.space.key(point) in self._used

    @property
    def n_used(self) -> int:
        """The number of different configurations that were tried."""
        return len(self._used)

    def count(self, status: Status) -> int:
        """How many trials are in a state."""
        return self._columns.count(status)

    def with_status(self, *wanted: Status) -> list[Trial]:
        """Trials in one of the given states, in order of suggestion."""
        if not any(self._columns.count(status) for status in wanted):
            return []
        return [self._ordered[k] for k in np.flatnonzero(self._columns.having(*wanted)).tolist()]

    def running(self) -> list[Trial]:
        """Trials that were suggested and have not ended."""
        return self.with_status(Status.RUNNING)

    @property
    def full_t(self) -> float:
        """t of a complete trial, where that means something."""
        return self.max_t if isinstance(self.max_t, float) else self._columns.furthest

    def _complete(self) -> np.ndarray:
        """(n,) which trials `complete` has."""
        finished = self._columns.having(Status.FINISHED)
        if self.max_t is None or not finished.any():
            return finished
        times = np.nan_to_num(self._columns.times, nan=np.inf)
        reached = finished & (times >= self.full_t * (1.0 - 1e-9))
        if reached.any():
            return np.asarray(reached)
        return np.asarray(finished & (times > times[finished].max() / RUNGS))

    def complete(self) -> list[Trial]:
        """The finished trials that got to the end; while there are none, those that got about as far as any."""
        return [self._ordered[k] for k in np.flatnonzero(self._complete()).tolist()]

    def outcomes(self) -> list[str]:
        """What became of every trial, in a word, in order of suggestion; "stopped" where something ended it early.

        Early is before `max_t`, or, without that number, before the longest finished trial ended.
        """
        finished = self.with_status(Status.FINISHED)
        full = self.max_t if isinstance(self.max_t, float) else max((trial.t or 0.0 for trial in finished), default=0.0)

        def early(trial: Trial) -> bool:
            reached = full if trial.t is None else trial.t
            cut = trial.ending is Ending.AT_A_REPORT and reached < full * (1.0 - 1e-9)
            return trial.status is Status.FINISHED and (cut or trial.ending is Ending.WITHOUT_A_WORD)

        return [str(Status.STOPPED if early(trial) else trial.status) for trial in self]

    def best(self) -> Trial | None:
        """The finished trial with the lowest loss, of complete ones if there are any; the first of equals."""
        which = np.flatnonzero(self._complete())
        if not len(which):
            return None
        return self._ordered[int(which[np.argmin(self.sign * self._columns.values[which])])]

    @property
    def bad(self) -> tuple[Status, ...]:
        """Trials that count as bad ones."""
        return FAILED if self.on_error == "penalize" else (Status.INVALID,)

    def losses(self) -> Data:
        """What is known: complete trials, and bad ones at half the range worse than the worst (all, if none finished)."""
        good = self._complete()
        if not good.any():
            return self._data(np.empty((0, self.space.d)), np.empty(0), np.empty(0, dtype=int))
        losses = self.sign * self._columns.values
        losses = np.where(good, losses, _imputed(losses[good]))
        chosen = np.flatnonzero(good | self._columns.having(*self.bad))
        return self._data(self._columns.rows[chosen], losses[chosen], chosen)

    def _data(self, rows: Array, losses: Array, numbers: np.ndarray) -> Data:
        trials = [self._ordered[k] for k in numbers.tolist()]
        failed = self._columns.having(*FAILED)[numbers]
        return Data(rows, losses, [trial.path for trial in trials], trials, numbers, failed)

    def curves(self) -> Data:
        """What all trials have said, running ones included: some reports of each, the last one among them."""
        for trial in self._ordered:
            if trial.number not in self._curves:
                self._curves[trial.number] = _thinned(trial.reports)
        said = [self._curves[k] for k in range(len(self._ordered))]
        counts = np.array([len(part) for part in said], dtype=int)
        if not counts.any():
            return self._data(np.empty((0, self.space.d + 1)), np.empty(0), np.empty(0, dtype=int))
        known = np.array([pair for part in said for pair in part])
        numbers, times, losses = np.repeat(np.arange(len(said)), counts), known[:, 0], self.sign * known[:, 1]
        bad = np.flatnonzero(self._columns.having(*self.bad))
        ends = self._columns.times[bad]
        numbers = np.append(numbers, bad)
        times = np.append(times, np.where(np.isnan(ends), self.full_t, ends))
        losses = np.append(losses, np.full(len(bad), _imputed(losses)))
        order = np.argsort(numbers, kind="stable")  # a trial's reports stay in their order
        numbers = numbers[order]
        rows = np.column_stack([self._columns.rows[numbers], fidelity(times[order], self.full_t)])
        return self._data(rows, losses[order], numbers)


def _on_grid(reports: dict[float, float | None], factor: float) -> dict[float, float | None]:
    """The last reports that are a factor apart in t; the last one, and all that models see, are among them."""
    times = sorted(reports)
    kept = times[:1]
    for t in times[1:]:
        if t >= factor * kept[-1]:
            kept.append(t)
    seen = [t for t, _ in _thinned(reports)]
    return {t: reports[t] for t in sorted({*kept[-MAX_REPORTS // 2 :], *seen, times[-1]})}


def fidelity(t: Any, full_t: float) -> Any:
    """t, a number or an array, on a logarithmic scale: 1 for a complete trial, 0 for one step, or for a tenth of all if that
    is less."""
    full_t = max(full_t, 1e-300)  # there are those that count from 0
    return np.clip(1.0 + np.log(np.maximum(t, 1e-300) / full_t) / math.log(max(full_t, SHORTEST)), 0.0, 1.0)


def _imputed(losses: Array) -> float:
    """A loss for what has failed, from losses (n,) that are known."""
    worst, span = losses.max(), losses.max() - losses.min()
    return float(worst + (0.5 * span if math.isfinite(span) and span > 0 else max(1e-3, 1e-3 * abs(worst))))


def _thinned(reports: dict[float, float | None]) -> list[tuple[float, float]]:
    """Finite reports on a geometric grid in t, and the last: what models see."""
    finite = sorted((t, value) for t, value in reports.items() if value is not None)
    kept: list[tuple[float, float]] = []
    for t, value in finite:
        if not kept or t >= RUNGS * kept[-1][0]:
            kept.append((t, value))
    return kept if not finite or kept[-1] == finite[-1] else [*kept, finite[-1]]
