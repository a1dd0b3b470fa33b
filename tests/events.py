"""Random sequences of what Tune may do to a searcher, compared with an oracle after every event."""

from __future__ import annotations

import copy
import math
import pickle
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.searcher import Searcher

from tests.oracle import Life, Oracle


class Explosive:
    """A metric that cannot be read."""

    def __float__(self) -> float:
        raise RuntimeError("no number")


VALUES: list[tuple[Any, float | None]] = [
    (math.nan, None), (math.inf, None), (-math.inf, None), (None, None), ("text", None), ("0.5", None), (b"1", None),
    ([1.0], None), (Explosive(), None), (0.0, 0.0), (1e12, 1e12), (-1e-12, -1e-12), (1e300, 1e300), (np.float32(0.5), 0.5),
    (np.array([0.25]), 0.25), (3, 3.0), (True, 1.0), (Decimal("0.5"), 0.5),
]  # fmt: skip
"""What a trainable may report, and the number it is; None where it is none."""
EVENTS = ["suggest"] * 3 + ["result"] * 3 + ["complete"] * 3
EVENTS += ["error", "none", "nothing", "twice", "unknown", "foreign", "again", "pause", "add", "save", "restore", "pickle"]
WRAPPERS = ("none", "limiter", "batches", "repeater")


def saved(searcher: Any) -> str:
    """What the searcher writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        searcher.save(str(path))
        return path.read_text()


def restored(text: str, make: Callable[[], Any]) -> Any:
    """A blank searcher that read `text`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pkl"  # Tune may name it so
        path.write_text(text)
        searcher = make()
        searcher.restore(str(path))
        return searcher


def random_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Settings that decide what is made of events."""
    return {
        "mode": ["min", "max"][int(rng.integers(2))],
        "on_error": ["ignore", "penalize"][int(rng.integers(2))],
        "max_t": [None, None, "auto", 4, 20][int(rng.integers(5))],
    }


class Play:
    """One random sequence of events on a searcher, alone or inside one of Tune's wrappers, and on the oracle.

    Args:
        make: a searcher that knows its space, metric ("loss") and mode, from settings as `random_settings` gives them.
        blank: a searcher of the same class that knows nothing.
        rng: of the events.
        added: keys of a configuration that the searcher adds to those of the space.
        wrapper: one of `WRAPPERS`.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        blank: Callable[[], Any],
        rng: np.random.Generator,
        added: tuple[str, ...] = (),
        wrapper: str = "none",
    ) -> None:
        settings = random_settings(rng)
        self.rng, self.blank, self.added, self.kind = rng, blank, added, wrapper
        self.searcher = make(**settings)
        self.space = self.searcher._space
        self.oracle = Oracle(**settings)
        self.wrapped = self._wrap(self.searcher)
        self.ids: list[str] = []  # that Tune knows, suggested through the wrapper
        self.live: set[str] = set()  # that the limiter knows
        self.held: dict[str, Callable[[], None]] = {}  # ends that the limiter holds back
        self.groups: list[list[str]] = []  # of the repeater
        self.scores: dict[str, float] = {}
        self.given = 0

    def _wrap(self, searcher: Any) -> Any:
        if self.kind in ("limiter", "batches"):
            return ConcurrencyLimiter(searcher, max_concurrent=3, batch=self.kind == "batches")
        return Repeater(searcher, repeat=2) if self.kind == "repeater" else searcher

    def run(self, events: int) -> Any:
        """Plays so many events; returns the searcher. Raises AssertionError where it knows anything but what it must."""
        for step in range(events):
            event = EVENTS[int(self.rng.integers(len(EVENTS)))]
            getattr(self, f"on_{event}")(f"{event}{step}")
            self.oracle.check(self.searcher)
        self.oracle.check_table(self.searcher)
        assert self.searcher._optimizer.failures == 0, "a proposal broke down"
        return self.searcher

    # What Tune sends

    def value(self) -> tuple[Any, float | None]:
        """A metric as a trainable reports it, and the number that it is."""
        if self.kind != "repeater" and self.rng.random() < 0.3:
            return VALUES[int(self.rng.integers(len(VALUES)))]
        number = float(self.rng.normal())
        return number, number

    def result(self, raw: Any) -> tuple[dict[str, Any], float | None]:
        """A result, and its t."""
        if self.rng.random() < 0.1:
            return {"loss": raw}, None
        t = int(self.rng.integers(1, 9))
        return {"loss": raw, "training_iteration": t, "done": True}, float(t)

    def some(self) -> str | None:
        """A trial that Tune may send news of."""
        pool = self.ids
        if self.kind == "batches":  # a second end of one trial confuses the limiter itself
            pool = [trial_id for trial_id in self.live if trial_id not in self.held]
        elif self.kind == "repeater":
            pool = [trial_id for trial_id in self.ids if trial_id not in self.scores]
        return sorted(pool)[int(self.rng.integers(len(pool)))] if pool else None

    def on_suggest(self, name: str) -> None:
        full = self.kind in ("limiter", "batches") and len(self.live) >= 3
        config = self.wrapped.suggest(name)
        if config is None:
            assert full
            return
        assert not full
        if config == Searcher.FINISHED:
            assert math.isfinite(self.space.size)
            return
        self.ids.append(name)
        self.live.add(name)
        if self.kind == "repeater":
            config = {key: value for key, value in config.items() if key != "__trial_index__"}
            if self.groups and len(self.groups[-1]) == 1:
                self.groups[-1].append(name)
                assert config == self.oracle.lives[self.groups[-1][0]].config
                return
            self.groups.append([name])
        assert self.space.contains({key: value for key, value in config.items() if key not in self.added}), config
        self.oracle.lives[name] = Life(copy.deepcopy(config))

    def on_result(self, name: str) -> None:
        trial_id = self.ids[int(self.rng.integers(len(self.ids)))] if self.ids else None
        if trial_id is None:
            return
        raw, number = self.value()
        result, t = self.result(raw)
        self.wrapped.on_trial_result(trial_id, result)
        if self.kind != "repeater":  # which keeps reports to itself
            self.oracle.report(trial_id, number, t)

    def _end(
        self, trial_id: str | None, result: dict | None, error: bool, number: float | None, tell: Callable[[], None]
    ) -> None:
        """An end of a trial, through the wrapper; `tell` is what it means if it gets through."""
        if trial_id is None:
            return
        self.wrapped.on_trial_complete(trial_id=trial_id, result=result, error=error)
        if self.kind == "none":
            tell()
        elif self.kind == "limiter":
            if trial_id in self.live:
                self.live.remove(trial_id)
                tell()
        elif self.kind == "batches":
            self.held[trial_id] = tell
            if self.held.keys() == self.live:
                for held in self.held.values():
                    held()
                self.held, self.live = {}, set()
        else:
            self.scores[trial_id] = math.nan if number is None else number
            group = next(group for group in self.groups if trial_id in group)
            if len(group) == 2 and all(member in self.scores for member in group):
                finite = [self.scores[member] for member in group if not math.isnan(self.scores[member])]
                mean = float(np.mean(finite)) if finite else None
                if error:
                    self.oracle.tell(group[0], "error")
                else:
                    self.oracle.complete(group[0], mean, None)

    def on_complete(self, name: str) -> None:
        trial_id = self.some()
        raw, number = self.value()
        result, t = self.result(raw)
        self._end(trial_id, result, False, number, lambda: self.oracle.complete(str(trial_id), number, t))

    def on_error(self, name: str) -> None:
        trial_id = self.some()
        self._end(trial_id, None, True, None, lambda: self.oracle.tell(str(trial_id), "error"))

    def on_none(self, name: str) -> None:
        trial_id = self.some()
        self._end(trial_id, None, False, None, lambda: self.oracle.tell(str(trial_id), "end"))

    def on_nothing(self, name: str) -> None:
        """An end with a result that lacks the metric."""
        trial_id = self.some()
        self._end(trial_id, {"training_iteration": 2}, False, None, lambda: self.oracle.tell(str(trial_id), "own end"))

    def on_twice(self, name: str) -> None:
        if self.kind in ("none", "limiter"):
            trial_id = self.some()
            raw, number = self.value()
            result, t = self.result(raw)
            for _ in range(2):
                self._end(trial_id, result, False, number, lambda: self.oracle.complete(str(trial_id), number, t))

    def on_unknown(self, name: str) -> None:
        if self.kind != "repeater":  # which breaks down by itself
            self.wrapped.on_trial_result(name, {"loss": 1.0, "training_iteration": 1})
            self.wrapped.on_trial_complete(trial_id=name, result=None, error=bool(self.rng.integers(2)))

    def on_foreign(self, name: str) -> None:
        """A trial that was started again under a new id: it reports, and may end."""
        if self.kind == "repeater":
            return
        space = self.searcher._ready().space
        row = self.searcher._ready().strategy.at_random(self.rng, 1)[0]
        config = space.config(space.point(space.config(space.decode(row))))  # of two branches that fit alike, the first
        raw, number = self.value()
        result, t = self.result(raw)
        self.wrapped.on_trial_result(name, {**result, "config": config})
        self.oracle.lives[name] = Life(config, found=True)
        self.oracle.report(name, number, t)
        if self.kind == "none":
            self.ids.append(name)

    def on_again(self, name: str) -> None:
        if self.kind == "none" and self.ids:
            trial_id = self.ids[int(self.rng.integers(len(self.ids)))]
            assert self.wrapped.suggest(trial_id) == self.oracle.lives[trial_id].config

    def on_pause(self, name: str) -> None:
        if self.kind != "repeater" and self.ids:
            self.wrapped.on_pause(self.ids[-1])
            self.wrapped.on_unpause(self.ids[-1])
            self.oracle.max_t = self.oracle.max_t or "auto"

    def on_add(self, name: str) -> None:
        """An evaluation made elsewhere."""
        space = self.searcher._ready().space
        row = self.searcher._ready().strategy.at_random(self.rng, 1)[0]
        config = space.config(space.point(space.config(space.decode(row))))
        raw, number = self.value()
        error = bool(self.rng.random() < 0.3)
        steps = [float(step) for step in self.rng.normal(size=int(self.rng.integers(0, 4)))]
        self.searcher.add_evaluated_point(config, raw, error, intermediate_values=steps)
        trial_id = f"given-{self.given}"
        self.given += 1
        self.oracle.lives[trial_id] = Life(config)
        if not error:
            self.oracle.complete(trial_id, number, float(len(steps)) if steps else None)
        for t, step in enumerate(steps if error else steps[:-1], start=1):
            self.oracle.report(trial_id, step, float(t))
        if error:
            self.oracle.tell(trial_id, "error")

    # What Tune does to the searcher itself

    def on_save(self, name: str) -> None:
        text = saved(self.searcher)
        again = restored(text, self.blank)
        assert saved(again) == text
        self.oracle.check(again)

    def on_restore(self, name: str) -> None:
        other = restored(saved(self.searcher), self.blank)
        clone = copy.deepcopy(self.searcher)
        assert other.suggest("next") == clone.suggest("next")
        self._take(restored(saved(self.searcher), self.blank))

    def on_pickle(self, name: str) -> None:
        self._take(pickle.loads(pickle.dumps(self.searcher)))

    def _take(self, searcher: Any) -> None:
        """Goes on with another searcher, in a new wrapper that is told where the old one was, as after a restart."""
        self.searcher = searcher
        wrapped = self._wrap(searcher)
        if wrapped is not searcher:
            wrapped.set_state(self.wrapped.get_state())
        self.wrapped = wrapped


def play(
    make: Callable[..., Any],
    blank: Callable[[], Any],
    rng: np.random.Generator,
    events: int,
    added: tuple[str, ...] = (),
    wrapper: str = "none",
) -> Any:
    """Plays a random sequence of events, see `Play`; returns the searcher."""
    return Play(make, blank, rng, added, wrapper).run(events)
