"""What must be known of every trial after every event: slow, obvious, and written without looking at the store.

A `Life` is the list of what happened to a trial, as the searcher is told it. `known` goes through that list from the
beginning after every event, by the rules of Tune:

- a report is kept by its t; the same t again replaces it;
- the end comes with a last report, or without one (then the last finite report counts), or as an error;
- an error after an end changes nothing, an end after an error is the end;
- a trial that was over without a value and reports again is taken up again: nobody may ever tell its end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Known(NamedTuple):
    """What must be known of a trial. `ending` is "short" if something else than the trial may have ended it."""

    status: str
    value: float | None
    t: float | None
    reports: dict[float, float | None]
    ending: str


@dataclass
class Life:
    """What happened to a trial: ("report", value, t), ("complete", value, t or None), ("end",), ("own end",),
    ("error",). Values are None where they are no finite numbers."""

    config: Any
    found: bool = False
    """Whether it was not suggested but found by its reports."""
    events: list[tuple] = field(default_factory=list)
    _last: tuple[int, Known | None] = (-1, None)

    def known(self) -> Known:
        """What must be known after all events; worked out again when there is a new one."""
        if self._last[0] != len(self.events) or self._last[1] is None:
            self._last = (len(self.events), self._from_the_beginning())
        assert self._last[1] is not None
        return self._last[1]

    def _from_the_beginning(self) -> Known:
        status, reports, ending = "running", {}, ""
        value: float | None = None
        at: float | None = None
        again = self.found

        def last() -> tuple[str, float | None, float | None]:
            finite = sorted(t for t in reports if reports[t] is not None)
            return ("finished", reports[finite[-1]], finite[-1]) if finite else ("invalid", None, None)

        for kind, *told in self.events:
            if kind == "report":
                number, t = told
                if status in ("errored", "invalid", "stopped") and not again:
                    again = True
                    reports = {key: said for key, said in reports.items() if key < t}
                reports[t] = number
                if again:
                    status, value, at = last()
                elif status == "finished" and number is not None and at is not None and t >= at:
                    value, at = number, t
            elif kind == "complete":
                number, t, told_t = told
                if not (status == "finished" and at == t):
                    ending = "short" if told_t and t not in reports else ""
                reports = {key: said for key, said in reports.items() if key < t} | {t: number}
                status, value, at = ("invalid", None, t) if number is None else ("finished", number, t)
                again = False
            elif kind in ("end", "own end"):
                if status == "running":
                    ending = "silent" if kind == "end" else ""
                    status, value, at = last() if reports or kind == "own end" else ("stopped", None, None)
                again = False
            else:
                assert kind == "error"
                if status == "running" or again:
                    status, value, at = "errored", None, None
                again = False
        return Known(status, value, at, reports, ending)


class Oracle:
    """The lives of all trials of a search, in order.

    Args:
        mode: "min" or "max".
        on_error: "ignore" or "penalize".
        max_t: a number, "auto" or None.
    """

    def __init__(self, mode: str, on_error: str, max_t: float | str | None) -> None:
        self.mode, self.on_error, self.max_t = mode, on_error, max_t
        self.lives: dict[str, Life] = {}

    def full_t(self) -> float:
        """t of a complete trial."""
        if self.max_t is not None and self.max_t != "auto":
            return float(self.max_t)
        return max((max(life.known().reports, default=1.0) for life in self.lives.values()), default=1.0)

    # Events, as the searcher is told them

    def report(self, trial_id: str, number: float | None, t: float | None) -> None:
        life = self.lives[trial_id]
        life.events.append(("report", number, t if t is not None else max(life.known().reports, default=0) + 1))

    def complete(self, trial_id: str, number: float | None, t: float | None) -> None:
        life = self.lives[trial_id]
        at = t
        if at is None:
            at = max(life.known().reports, default=1.0 if self.max_t is None else self.full_t())
        life.events.append(("complete", number, at, t is not None))

    def tell(self, trial_id: str, kind: str) -> None:
        """A trial is told to "end", to "own end" (by itself), or an "error"."""
        self.lives[trial_id].events.append((kind,))

    # What must be answered

    def outcomes(self) -> list[str]:
        """The status of each trial as people see it."""
        all_known = [life.known() for life in self.lives.values()]
        longest = max((known.t or 0.0 for known in all_known if known.status == "finished"), default=0.0)
        full = float(self.max_t) if self.max_t not in (None, "auto") else longest
        shown = []
        for known in all_known:
            short = known.ending == "short" and known.t is not None and known.t < full
            stopped = known.status == "finished" and (short or known.ending == "silent")
            shown.append("stopped" if stopped else known.status)
        return shown

    def complete_ids(self) -> list[str]:
        """Finished trials that count in full."""
        finished = {trial_id: known for trial_id, life in self.lives.items() if (known := life.known()).status == "finished"}
        if self.max_t is None or not finished:
            return list(finished)
        reached = [trial_id for trial_id, known in finished.items() if known.t >= self.full_t()]
        longest = max(known.t for known in finished.values())
        return reached or [trial_id for trial_id, known in finished.items() if known.t > longest / 3]

    def losses(self) -> dict[str, float]:
        """What a model learns from: by trial, the loss."""
        sign = 1.0 if self.mode == "min" else -1.0
        good = {trial_id: sign * self.lives[trial_id].known().value for trial_id in self.complete_ids()}
        if not good:
            return {}
        worst, best = max(good.values()), min(good.values())
        span = worst - best
        bad = worst + (0.5 * span if 0 < span < math.inf else max(1e-3, 1e-3 * abs(worst)))
        statuses = ("invalid", "errored") if self.on_error == "penalize" else ("invalid",)
        return {
            trial_id: good.get(trial_id, bad)
            for trial_id, life in self.lives.items()
            if trial_id in good or life.known().status in statuses
        }

    def check(self, searcher: Any) -> None:
        """Raises AssertionError where a searcher knows anything else."""
        store = searcher._ready().observations
        space = searcher._ready().space
        assert list(store.trials) == list(self.lives), "trials were lost, doubled or reordered"
        for trial_id, life in self.lives.items():
            trial, known = store.trials[trial_id], life.known()
            found = (str(trial.status), trial.value, trial.t, trial.reports)
            assert found == known[:4], f"{trial_id}: {found} instead of {known} after {life.events}"
            assert space.config(trial.point) == life.config, f"{trial_id} has changed its configuration"
            assert store.used(trial.point)
        assert store.outcomes() == self.outcomes()
        assert [trial.id for trial in store.complete()] == self.complete_ids()
        assert [trial.id for trial in store.with_status("running")] == [
            trial_id for trial_id, life in self.lives.items() if life.known().status == "running"
        ]
        data, expected = store.losses(), self.losses()
        assert [trial.id for trial in data.trials] == list(expected)
        assert data.losses.tolist() == list(expected.values())
        best = store.best()
        good = {key: loss for key, loss in expected.items() if self.lives[key].known().status == "finished"}
        assert (best is None) == (not good)
        if best is not None:
            assert best.id == min(good, key=good.__getitem__)

    def check_table(self, searcher: Any) -> None:
        """Raises AssertionError where the table that people see says anything else."""
        table = searcher.observations()
        assert table["trial_id"].tolist() == list(self.lives)
        assert table["status"].tolist() == self.outcomes()
        for column, at in (("value", 1), ("t", 2)):
            shown = [None if value is None or math.isnan(value) else value for value in table[column].tolist()]
            assert shown == [life.known()[at] for life in self.lives.values()]
