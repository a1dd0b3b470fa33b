"""Experiments whose driver is killed: started, killed with SIGKILL at a random moment, restored, as often as wanted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from ray import tune

TRIALS = 14
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}
ROOT = Path(__file__).resolve().parent.parent


def objective(config: dict) -> None:
    """Takes a while, so that the driver dies with trials under way."""
    value = config["m"].get("x", 0.5) + 0.01 * config["m"].get("y", 0)
    for _ in range(3):
        time.sleep(0.2)
        tune.report({"loss": value})


def drive(folder: str, name: str) -> None:
    """A driver: starts the experiment, or goes on with it."""
    import logging

    import ray

    import raytree.searchers

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    experiment = Path(folder) / "run"
    if tune.Tuner.can_restore(str(experiment)):
        tuner = tune.Tuner.restore(str(experiment), trainable=objective)
    else:
        searcher = getattr(raytree.searchers, name)(seed=0, num_initial=4)
        tuner = tune.Tuner(
            objective,
            param_space=SPACE,
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=TRIALS, search_alg=searcher, reuse_actors=True),
            run_config=tune.RunConfig(verbose=0, storage_path=folder, name="run"),
        )
    tuner.fit()


def snapshot(folder: Path) -> dict[str, float]:
    """Finished values in the newest searcher state on disk, by trial; empty if there is none yet."""
    files = sorted(folder.glob("run/searcher-state-*.json"))
    if not files:
        return {}
    try:
        saved = json.loads(files[-1].read_text())["payload"]["optimizer"]
    except ValueError:  # Tune is copying it at this moment
        return {}
    return {t["id"]: t["value"] for t in (saved or {"trials": []})["trials"] if t["status"] == "finished"}


class Report(NamedTuple):
    """What became of an experiment: kills that hit it at work, values known before some kill, those lost, trials known twice or
    not at all in the end."""

    kills: int
    known: int
    lost: int
    doubled: int
    missing: int


def survive(name: str, folder: Path, moments: list[float], rng: np.random.Generator) -> Report:
    """Runs an experiment and kills its driver once a share of the trials has finished, then a random moment later."""
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0.5", "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    program = [sys.executable, "-c", "import sys; from tests.kills import drive; drive(*sys.argv[1:])", str(folder), name]
    before: dict[str, float] = {}
    kills = 0
    for moment in [*moments, None]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        driver = subprocess.Popen(program, env=environment, cwd=ROOT, start_new_session=True, **quiet)
        deadline = time.time() + 180
        if moment is None:
            driver.wait(timeout=180)
            break
        while len(snapshot(folder)) < moment * TRIALS and time.time() < deadline and driver.poll() is None:
            time.sleep(0.1)
        time.sleep(float(rng.uniform(0.0, 1.0)))
        kills += driver.poll() is None
        os.killpg(driver.pid, signal.SIGKILL)  # the driver and the Ray that it started, nothing else
        driver.wait()
        before |= snapshot(folder)
    import raytree.searchers

    table = getattr(raytree.searchers, name).from_experiment(folder / "run").observations()
    finished = table[table["status"] == "finished"]
    after = dict(zip(finished["trial_id"], finished["value"], strict=True))
    lost = sum(after.get(trial_id) != value for trial_id, value in before.items())
    doubled = int(table["trial_id"].duplicated().sum()) + max(0, len(table) - TRIALS)
    return Report(kills, len(before), lost, doubled, TRIALS - len(after))
