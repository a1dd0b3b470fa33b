"""State files: stored ones produce the suggestions they must, hostile ones are refused and change nothing.

    make states      writes tests/states/ anew, with what this version suggests

To be run when the format or the inference has changed on purpose; the diff shows what a restored search now does otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune

import raytree.searchers
from raytree.errors import StateError
from tests.events import saved
from tests.hostile import files

FOLDER = Path(__file__).parent / "states"
SEARCHERS = ["TreeSearcher", "CondKernelSearcher", "HTBOSearcher", "BOSHSearcher", "RandomSearcher"]
ADDED = {"BOSHSearcher": {"seed"}}
SPACE = {
    "lr": tune.loguniform(1e-4, 1e-1),
    "net": tune.choice([{"kind": "mlp", "units": tune.randint(4, 64)}, {"kind": "linear"}]),
}
STATUSES = ["finished"] * 3 + ["errored", "invalid"] + ["finished"] * 2 + ["running"] * 2
AHEAD = 3
"""Suggestions in a fixture: the first comes from the restored model, the others know of running trials too."""


def loss(config: dict) -> float:
    return float(abs(np.log10(config["lr"]) + 2) + (0.0 if config["net"]["kind"] == "linear" else 0.01 * config["net"]["units"]))


def made(name: str, **settings: Any) -> Any:
    """A searcher with some history: finished, failed, invalid, running and requested trials."""
    searcher = getattr(raytree.searchers, name)(
        SPACE, metric="loss", mode="min", seed=5, num_initial=4,
        points_to_evaluate=[{"lr": 1e-2, "net": {"kind": "linear"}}], **settings,
    )  # fmt: skip
    for k in range(9):
        value = loss(searcher.suggest(f"t{k}"))
        searcher.on_trial_result(f"t{k}", {"loss": value + 1, "training_iteration": 1})
        if k == 3:
            searcher.on_trial_complete(f"t{k}", error=True)
        elif k < 7:
            searcher.on_trial_complete(
                f"t{k}", {"loss": float("nan") if k == 4 else value, "training_iteration": 2, "time_total_s": 0.5}
            )
    searcher._optimizer.request({"lr": 2e-2, "net": {"kind": "mlp", "units": 8}, **dict.fromkeys(ADDED.get(name, ()), 3)})
    return searcher


def answers(searcher: Any) -> dict[str, Any]:
    """What a restored searcher must say: its recommendation, and its next suggestions."""
    recommended = searcher.recommend()
    return {
        "recommended": {"config": recommended.config, "value": recommended.value, "trial_id": recommended.trial_id},
        "suggestions": [searcher.suggest(f"next{k}") for k in range(AHEAD)],
    }


def near(found: Any, expected: Any, rtol: float = 1e-3) -> bool:
    """Whether two nestings are the same up to rounding in floats, which a fit makes larger in the value of an answer."""
    if isinstance(expected, dict):
        same = isinstance(found, dict) and found.keys() == expected.keys()
        return same and all(near(found[key], expected[key], 0.1 if key == "value" else rtol) for key in expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(near, found, expected))
    if isinstance(expected, float):
        return isinstance(found, float) and bool(np.isclose(found, expected, rtol=rtol, atol=1e-6))
    return type(found) is type(expected) and found == expected


# Stored states


def stored(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def blank(name: str, text: str, folder: Path, **settings: Any) -> Any:
    """A searcher that has read a state file."""
    (folder / "state.json").write_text(text)
    searcher = getattr(raytree.searchers, name)(**settings)
    searcher.restore(str(folder / "state.json"))
    return searcher


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_stored_state_holds_what_was_reported(name, tmp_path):
    searcher = blank(name, stored(name)["state"], tmp_path)
    table = searcher.observations()
    assert table["trial_id"].tolist() == [f"t{k}" for k in range(9)]
    assert table["status"].tolist() == STATUSES
    optimizer = searcher._optimizer
    for trial in optimizer.observations:
        value = loss(optimizer.space.config(trial.point))
        assert trial.reports[1.0] == pytest.approx(value + 1)
        if trial.status == "finished":
            assert (trial.value, trial.t, trial.cost) == (pytest.approx(value), 2.0, 0.5)
    assert searcher.metric == "loss"
    assert searcher.mode == "min"


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_stored_state_produces_the_suggestions_that_it_must(name, tmp_path):
    """If the inference has changed on purpose: `make states`."""
    fixture = stored(name)
    searcher = blank(name, fixture["state"], tmp_path)
    found = answers(searcher)
    assert searcher._optimizer.failures == 0
    assert found["suggestions"][0]["net"] == {"kind": "mlp", "units": 8}  # the one that was asked for
    assert near(found, fixture["expected"]), f"{found}\n{fixture['expected']}"


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_stored_state_with_your_own_space_says_the_same(name, tmp_path):
    fixture = stored(name)
    yours = blank(name, fixture["state"], tmp_path, space=SPACE, metric="loss", mode="min")
    assert near(answers(yours), fixture["expected"])


def test_fixtures_are_compared_up_to_rounding_only():
    expected = {"a": [1.0, {"b": "x"}], "n": 3}
    assert near({"a": [1.0 + 1e-9, {"b": "x"}], "n": 3}, expected)
    for wrong in (
        {"a": [1.1, {"b": "x"}], "n": 3},
        {"a": [1.0, {"b": "y"}], "n": 3},
        {"a": [1.0], "n": 3},
        {"a": [1.0, {"b": "x"}], "n": 3.0},
        {},
    ):
        assert not near(wrong, expected)


# Hostile ones


def attempt(searcher: Any, path: Path) -> str | None:
    """Restores from a file; what the error says if it is refused."""
    try:
        searcher.restore(str(path))
    except StateError as error:
        return str(error)
    return None


def inside(searcher: Any, config: Any) -> bool:
    """Whether a suggestion has the keys and values of `SPACE`, and of what the searcher adds, and nothing else."""
    added = ADDED.get(type(searcher).__name__, set())
    plain = raytree.searchers.RandomSearcher(SPACE)._space
    return set(config) == {"lr", "net"} | added and plain.contains({key: config[key] for key in ("lr", "net")})


@pytest.mark.parametrize("name", SEARCHERS)
def test_hostile_files_are_refused_and_leave_a_running_search_untouched(name, tmp_path):
    rng = np.random.default_rng(0)
    running = made(name)
    before = text = saved(running)
    refused = accepted = 0
    for k, content in enumerate(files(text, rng, 60)):
        path = tmp_path / f"{k}.json"
        path.write_bytes(content)
        message = attempt(running, path)
        if message is not None:
            refused += 1
            assert len(message) < 2000
            assert saved(running) == before
            continue
        # A change that is none, or that means something: the search must be able to go on from it, inside the user's space.
        accepted += 1
        for ahead in range(2):
            assert inside(running, running.suggest(f"next{ahead}"))
        running.explain()
        running = made(name)
    assert refused > 30
    assert accepted


def write() -> None:
    """Writes the fixtures of this version."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name in SEARCHERS:
        searcher = made(name)
        fixture = {"state": saved(searcher), "expected": answers(searcher)}
        (FOLDER / f"{name}.json").write_text(json.dumps(fixture, indent=1) + "\n")
        print("wrote", name)


if __name__ == "__main__":
    write()
