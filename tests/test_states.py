"""State files: those of earlier versions stay readable, hostile ones are refused and change nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import raytree.searchers
from raytree.errors import StateError
from tests.events import saved
from tests.hostile import files

FIXTURES = sorted((Path(__file__).parent / "states").glob("*.json"))
SEARCHERS = ["TreeSearcher", "CondKernelSearcher", "HTBOSearcher", "BOSHSearcher", "RandomSearcher"]
SPACE = {
    "lr": tune.loguniform(1e-4, 1e-1),
    "net": tune.choice([{"kind": "mlp", "units": tune.randint(4, 64)}, {"kind": "linear"}]),
}


def made(name: str, **settings):
    """A searcher with some history: finished, failed, invalid, running and requested trials."""
    searcher = getattr(raytree.searchers, name)(
        SPACE, metric="loss", mode="min", seed=5, num_initial=4,
        points_to_evaluate=[{"lr": 1e-2, "net": {"kind": "linear"}}], **settings,
    )  # fmt: skip
    for k in range(9):
        config = searcher.suggest(f"t{k}")
        value = abs(np.log10(config["lr"]) + 2) + (0.0 if config["net"]["kind"] == "linear" else 0.01 * config["net"]["units"])
        searcher.on_trial_result(f"t{k}", {"loss": value + 1, "training_iteration": 1})
        if k == 3:
            searcher.on_trial_complete(f"t{k}", error=True)
        elif k < 7:
            loss = float("nan") if k == 4 else float(value)
            searcher.on_trial_complete(f"t{k}", {"loss": loss, "training_iteration": 2, "time_total_s": 0.5})
    return searcher


def test_there_is_a_fixture_for_every_searcher():
    assert {json.loads(path.read_text())["payload"]["searcher"] for path in FIXTURES} == set(SEARCHERS)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_states_of_earlier_versions_are_readable(path):
    """The files are as some version wrote them; never rewrite one, add one when the format changes."""
    name = json.loads(path.read_text())["payload"]["searcher"]
    searcher = getattr(raytree.searchers, name)()
    searcher.restore(str(path))
    table = searcher.observations()
    assert table["status"].tolist() == ["finished"] * 3 + ["errored", "invalid"] + ["finished"] * 2 + ["running"] * 2
    assert searcher.recommend() is not None
    assert "lr" in searcher.suggest("next")
    assert searcher._optimizer._failures == 0


def attempt(searcher, path: Path) -> str | None:
    """Restores from a file; what the error says if it is refused."""
    try:
        searcher.restore(str(path))
    except StateError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", SEARCHERS)
def test_hostile_files_are_refused_and_leave_a_running_search_untouched(name, tmp_path):
    rng = np.random.default_rng(0)
    running = made(name)
    before, text = saved(running), saved(running)
    refused = 0
    for k, content in enumerate(files(text, rng, 150)):
        path = tmp_path / f"{k}.json"
        path.write_bytes(content)
        message = attempt(running, path)
        if message is not None:
            refused += 1
            assert len(message) < 2000
            assert saved(running) == before
            continue
        # A change that is none, or that means something: the search must be able to go on from it.
        running.suggest("next")
        running.explain()
        running = made(name)
    assert refused > 75


if __name__ == "__main__":  # python -m tests.test_states: fixtures of this version, beside those there are
    folder = Path(__file__).parent / "states"
    folder.mkdir(exist_ok=True)
    for searcher_name in SEARCHERS:
        target = folder / f"v{os.environ.get('RAYTREE_STATE', '1')}-{searcher_name}.json"
        if not target.exists():
            target.write_text(saved(made(searcher_name)))
