"""The driver is killed with SIGKILL in the middle of a run, and the experiment is restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray import tune

from raytree.searchers import RandomSearcher

DRIVER = """
import logging, sys
import ray
from ray import tune
import raytree.searchers
from tests.test_ray_restore import objective, SPACE

folder, searcher_name = sys.argv[1], sys.argv[2]
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
searcher = getattr(raytree.searchers, searcher_name)(seed=0)
tuner = tune.Tuner(
    objective,
    param_space=SPACE,
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=14, search_alg=searcher, reuse_actors=True),
    run_config=tune.RunConfig(verbose=0, storage_path=folder, name="run"),
)
tuner.fit()
"""

SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}


def objective(config):
    """Takes a while, so that the driver dies with trials under way."""
    value = config["m"].get("x", 0.5) + 0.01 * config["m"].get("y", 0)
    for _ in range(3):
        time.sleep(0.25)
        tune.report({"loss": value})


def snapshot(folder: Path) -> dict[str, float]:
    """Finished values in the newest searcher state on disk, by trial; empty if there is none yet."""
    files = sorted(folder.glob("run/searcher-state-*.json"))
    if not files:
        return {}
    saved = json.loads(files[-1].read_text())["payload"]["optimizer"]
    return {t["id"]: t["value"] for t in (saved or {"trials": []})["trials"] if t["status"] == "finished"}


@pytest.mark.parametrize("searcher_class", [RandomSearcher])
def test_killing_the_driver_loses_nothing_older_than_the_snapshot(searcher_class, tmp_path, local_ray):
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0.5"}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), searcher_class.__name__], env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.time() + 90
    while len(snapshot(tmp_path)) < 4 and time.time() < deadline and driver.poll() is None:
        time.sleep(0.2)
    os.killpg(driver.pid, signal.SIGKILL)  # the driver and the Ray that it started, nothing else
    driver.wait()
    before = snapshot(tmp_path)
    assert 4 <= len(before) < 14

    tuner = tune.Tuner.restore(str(tmp_path / "run"), trainable=objective)
    results = tuner.fit()
    assert len(results) == 14
    assert not results.errors
    searcher = searcher_class.from_experiment(tmp_path / "run")
    table = searcher.observations()
    assert table["trial_id"].is_unique
    assert len(table) == 14
    assert (table["status"] == "finished").all()
    after = dict(zip(table["trial_id"], table["value"], strict=True))
    assert {trial_id: after[trial_id] for trial_id in before} == before
