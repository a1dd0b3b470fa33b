"""Random sequences of what Tune may do to a searcher, and what must hold whatever it does."""

from __future__ import annotations

import copy
import math
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ray.tune.search.searcher import Searcher

VALUES = [math.nan, math.inf, -math.inf, None, "text", 0.0, 1e12, -1e-12, 1e300, np.float32(0.5), 3]
EVENTS = ["suggest"] * 3 + ["result"] * 2 + ["complete"] * 3
EVENTS += ["error", "none", "duplicate", "unknown", "foreign", "pause", "add", "save", "restore", "pickle"]


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


def play(
    make: Callable[[], Any], blank: Callable[[], Any], rng: np.random.Generator, events: int, added: tuple[str, ...] = ()
) -> Any:
    """Plays a random sequence of events on `make()`; raises AssertionError where something that must hold does not.

    Args:
        make: a searcher that knows its space, metric ("loss") and mode.
        blank: a searcher of the same class that knows nothing.
        rng: of the events.
        events: how many.
        added: keys of a configuration that the searcher adds to those of the space.
    """
    searcher = make()
    space = searcher._space
    ids: list[str] = []
    done: set[str] = set()

    def value() -> Any:
        return VALUES[int(rng.integers(len(VALUES)))] if rng.random() < 0.3 else float(rng.normal())

    def some(pool: list[str]) -> str:
        return pool[int(rng.integers(len(pool)))]

    for step in range(events):
        event = EVENTS[int(rng.integers(len(EVENTS)))]
        if event == "suggest":
            trial_id = f"t{step}"
            config = searcher.suggest(trial_id)
            if config == Searcher.FINISHED:
                assert math.isfinite(space.size)
                continue
            assert space.contains({key: v for key, v in config.items() if key not in added}), config
            ids.append(trial_id)
        elif event == "foreign":
            row = space.sample(rng, 1)[0]
            config = space.config(space.decode(row))
            searcher.on_trial_result(f"f{step}", {"loss": value(), "training_iteration": 1, "config": config})
        elif event == "unknown":
            searcher.on_trial_result(f"u{step}", {"loss": 1.0, "training_iteration": 1})
            searcher.on_trial_complete(trial_id=f"u{step}", result=None, error=bool(rng.integers(2)))
        elif event == "add":
            row = space.sample(rng, 1)[0]
            searcher.add_evaluated_point(space.config(space.decode(row)), value())
        elif event == "save":
            text = saved(searcher)
            assert saved(restored(text, blank)) == text
        elif event == "restore":
            other = restored(saved(searcher), blank)
            clone = copy.deepcopy(searcher)
            assert other.suggest("next") == clone.suggest("next")
            searcher = restored(saved(searcher), blank)
        elif event == "pickle":
            searcher = pickle.loads(pickle.dumps(searcher))
        elif ids:
            trial_id = some(ids)
            result = {"loss": value(), "training_iteration": int(rng.integers(1, 9)), "done": True}
            if event == "result":
                searcher.on_trial_result(trial_id, result)
            elif event == "complete":
                searcher.on_trial_complete(trial_id=trial_id, result=result, error=False)
                done.add(trial_id)
            elif event == "error":
                searcher.on_trial_complete(trial_id=trial_id, result=None, error=True)
            elif event == "none":
                searcher.on_trial_complete(trial_id=trial_id, result=None, error=False)
            elif event == "duplicate":
                for _ in range(2):
                    searcher.on_trial_complete(trial_id=trial_id, result=result, error=False)
            else:
                searcher.on_pause(trial_id)
                searcher.on_unpause(trial_id)
    table = searcher.observations()
    assert table["trial_id"].is_unique
    assert set(ids) <= set(table["trial_id"])
    finite = table["value"].dropna().to_numpy(dtype=float)
    assert np.isfinite(finite).all()
    return searcher
