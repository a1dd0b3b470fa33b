"""Errored trials that are taken up again after their driver was killed, under a limit on concurrent trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from ray import tune

from raytree.searchers import RandomSearcher

TRIALS = 7
ROOT = Path(__file__).resolve().parent.parent
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "x": tune.uniform(0, 1)}])}


def objective(config: dict) -> None:
    """Kind b fails at its second step, while a mark is there; the first attempt reports other values than the second."""
    broken = Path(os.environ["BROKEN_MARK"]).exists()
    for t in range(1, 4):
        if t == 2 and broken and config["m"]["kind"] == "b":
            raise RuntimeError("broken")
        time.sleep(0.1)
        tune.report({"loss": config["m"]["x"] + (9.0 if broken else 1.0) / t})


def drive(folder: str, how: str) -> None:
    """A driver: starts the experiment, or goes on with it."""
    import logging

    import ray

    mark = {"env_vars": {"BROKEN_MARK": os.environ["BROKEN_MARK"]}}
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, runtime_env=mark
    )
    experiment = Path(folder) / "run"
    if how:
        tuner = tune.Tuner.restore(str(experiment), trainable=objective, **{how: True})
    else:
        tuner = tune.Tuner(
            objective,
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", num_samples=TRIALS, search_alg=RandomSearcher(seed=0), max_concurrent_trials=2
            ),
            run_config=tune.RunConfig(verbose=0, storage_path=folder, name="run"),
        )
    tuner.fit()


def statuses(folder: Path) -> Counter[str]:
    """How many trials of each status are in the newest state on disk."""
    files = sorted(folder.glob("run/searcher-state-*.json"))
    try:
        saved = json.loads(files[-1].read_text())["payload"]["optimizer"]
    except (IndexError, ValueError):  # not there yet, or being copied at this moment
        return Counter()
    return Counter(trial["status"] for trial in (saved or {"trials": []})["trials"])


@pytest.mark.slow  # two drivers, and a process for every trial
@pytest.mark.parametrize("how", ["resume_errored", "restart_errored"])
def test_errored_trials_are_finished_after_the_driver_was_killed_and_the_limiter_lost_them(how, tmp_path):
    mark = tmp_path / "broken"
    mark.touch()
    environment = {
        **os.environ, "BROKEN_MARK": str(mark), "TUNE_GLOBAL_CHECKPOINT_S": "0.2", "PYTHONPATH": str(ROOT),
        "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    program = [sys.executable, "-c", "import sys; from tests.test_ray_errored import drive; drive(*sys.argv[1:])", str(tmp_path)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    driver = subprocess.Popen([*program, ""], env=environment, cwd=ROOT, start_new_session=True, **quiet)
    deadline = time.time() + 240
    while time.time() < deadline and driver.poll() is None:
        before = statuses(tmp_path)
        if before["errored"] and before["finished"]:
            break
        time.sleep(0.1)
    assert driver.poll() is None
    os.killpg(driver.pid, signal.SIGKILL)  # the driver and the Ray that it started, nothing else
    driver.wait()
    before = statuses(tmp_path)
    assert before["errored"]
    mark.unlink()
    subprocess.run([*program, how], env=environment, cwd=ROOT, check=True, timeout=400, start_new_session=True, **quiet)

    trials = {trial.trial_id: trial for trial in tune.ExperimentAnalysis(str(tmp_path / "run")).trials}
    assert len(trials) == TRIALS
    assert {trial.status for trial in trials.values()} == {"TERMINATED"}
    table = RandomSearcher.from_experiment(tmp_path / "run").observations()
    done = table[table["status"] == "finished"].set_index("trial_id")
    expected = {
        trial_id: (trial.last_result["loss"], 3.0, trial.config["m"]["kind"], trial.config["m"]["x"])
        for trial_id, trial in trials.items()
    }
    assert {k: (row["value"], row["t"], row["config/m/kind"], row["config/m/x"]) for k, row in done.iterrows()} == expected
    left = Counter(table["status"])
    assert left == {"finished": TRIALS} | ({"errored": before["errored"]} if how == "restart_errored" else {})
