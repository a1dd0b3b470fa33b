"""Experiments whose driver is killed: started, killed with SIGKILL at a random moment, restored, as often as wanted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from ray import tune

TRIALS = 14
MAX_T = 9
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}
ROOT = Path(__file__).resolve().parent.parent


def loss(config: Mapping[str, Any], t: int = 1) -> float:
    return config["m"].get("x", 0.5) + 0.01 * config["m"].get("y", 0) + 0.1 / t


def objective(config: dict) -> None:
    """Takes a while, so that the driver dies with trials under way."""
    for t in range(1, 4):
        time.sleep(0.2)
        tune.report({"loss": loss(config, t)})


def curve(config: dict) -> None:
    """Reports often enough for a scheduler to stop it."""
    for t in range(1, MAX_T + 1):
        time.sleep(0.1)
        tune.report({"loss": loss(config, t)})


def held(config: dict) -> None:
    """Waits until a file is there, which the environment names."""
    deadline = time.time() + 120
    while not Path(os.environ["HOLD_UNTIL"]).exists() and time.time() < deadline:
        time.sleep(0.1)
    tune.report({"loss": loss(config)})


def scheduler_of(name: str) -> Any:
    """A scheduler by its name; None for any other."""
    from ray.tune.schedulers import ASHAScheduler, HyperBandScheduler

    if name == "asha":
        return ASHAScheduler(max_t=MAX_T, grace_period=1, reduction_factor=3)
    return HyperBandScheduler(max_t=MAX_T, reduction_factor=3) if name == "hyperband" else None


def drive(folder: str, name: str, scheduler: str = "none") -> None:
    """A driver: starts the experiment, or goes on with it.

    Args:
        folder: where the experiment is.
        name: of the searcher.
        scheduler: "asha" or "hyperband"; "none" for neither, "held" for trials that wait.
    """
    import logging

    import ray

    import raytree.searchers

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    experiment = Path(folder) / "run"
    trainable = {"none": objective, "held": held}.get(scheduler, curve)
    if tune.Tuner.can_restore(str(experiment)):
        tuner = tune.Tuner.restore(str(experiment), trainable=trainable)
    else:
        lengths = {"max_t": MAX_T} if trainable is curve else {}
        searcher = getattr(raytree.searchers, name)(seed=0, num_initial=4, **lengths)
        tuner = tune.Tuner(
            trainable,
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", num_samples=TRIALS, search_alg=searcher, reuse_actors=True,
                scheduler=scheduler_of(scheduler),
            ),
            run_config=tune.RunConfig(verbose=0, storage_path=folder, name="run"),
        )  # fmt: skip
    tuner.fit()


def start(folder: Path, name: str, scheduler: str = "none", quiet: bool = True) -> subprocess.Popen:
    """A driver in a process group of its own, which holds the Ray that it starts and nothing else."""
    environment = {**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0.5", "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    program = [
        sys.executable,
        "-c",
        "import sys; from tests.kills import drive; drive(*sys.argv[1:])",
        str(folder),
        name,
        scheduler,
    ]
    output: Any = subprocess.DEVNULL if quiet else subprocess.PIPE
    return subprocess.Popen(program, env=environment, cwd=ROOT, start_new_session=True, stdout=output, stderr=output, text=True)


def kill(driver: subprocess.Popen) -> bool:
    """Kills a driver and the Ray that it started, nothing else; says whether it was still at work."""
    alive = driver.poll() is None
    with suppress(ProcessLookupError):  # it was over, and its Ray too
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    return alive


def snapshot(folder: Path) -> dict[str, float]:
    """Values of the trials that had ended, in the newest searcher state on disk; empty if there is none yet."""
    files = sorted(folder.glob("run/searcher-state-*.json"))
    if not files:
        return {}
    try:
        saved = json.loads(files[-1].read_text())["payload"]["optimizer"]
    except ValueError:  # Tune is copying it at this moment
        return {}
    ended = [trial for trial in (saved or {"trials": []})["trials"] if trial["status"] != "running"]
    return {trial["id"]: trial["value"] for trial in ended if trial["value"] is not None}


class Told(NamedTuple):
    """What Tune itself has kept of a trial: its configuration, last loss and last t, and whether it is over."""

    config: dict
    loss: float
    t: float
    over: bool = True


def told(folder: Path) -> dict[str, Told]:
    """Tune's own record of an experiment, by trial."""
    found = {}
    for trial in tune.ExperimentAnalysis(str(folder / "run")).trials:
        last = trial.last_result or {}
        found[trial.trial_id] = Told(
            trial.config, last.get("loss", np.nan), last.get("training_iteration", 0), trial.status == "TERMINATED"
        )
    return found


class Differences(NamedTuple):
    """How a searcher's table differs from Tune's record: values known before a kill and gone, trials known twice, not known, and
    known with another value, t or configuration."""

    lost: int
    doubled: int
    missing: int
    misreported: int


def differences(table: pandas.DataFrame, record: Mapping[str, Told], before: Mapping[str, float]) -> Differences:
    """Compares `observations()` with what Tune has kept and with what was known before."""
    ended = table[table["value"].notna() & (table["status"] != "running")]
    values = dict(zip(ended["trial_id"], ended["value"], strict=True))
    lost = sum(values.get(trial_id) != value for trial_id, value in before.items())
    strange = sum(trial_id not in record for trial_id in table["trial_id"])  # under an id that Tune does not know
    again = len(table) - table["trial_id"].nunique()
    missing = sum(known.over and trial_id not in values for trial_id, known in record.items())
    wrong = 0
    for row in ended.to_dict("records"):
        known = record.get(row["trial_id"])
        if known is not None:
            right = not known.over or (row["value"] == known.loss and row["t"] == known.t)
            wrong += not (right and _same(row, known.config))
    return Differences(lost, strange + again, missing, wrong)


def _same(row: Mapping[Any, Any], config: dict) -> bool:
    """Whether a row of the table holds the searched values of a configuration of this space."""
    mine = [row[column] for column in row if str(column).endswith((".x", "/x", ".y", "/y")) and not pandas.isna(row[column])]
    return mine == [config["m"].get("x", config["m"].get("y"))]


class Report(NamedTuple):
    """What became of an experiment: whether it ended, kills that hit it at work, values known before some kill, `Differences` at
    the end, how many trials a scheduler stopped, and how often a kill has damaged Tune's own record."""

    ended: bool
    kills: int
    known: int
    lost: int
    doubled: int
    missing: int
    misreported: int
    stopped: int
    damaged: int


def usable(folder: Path) -> tuple[bool, int]:
    """Whether Tune can restore an experiment, and how many of its files had to be removed for it.

    Tune copies its record to the experiment's directory piece by piece: a kill may leave it empty, and Tune then restores
    nothing, although the records of earlier sessions are beside it.
    """
    removed = 0
    for path in sorted(folder.glob("run/experiment_state-*.json"), reverse=True):
        try:
            json.loads(path.read_text())
        except ValueError:
            path.unlink()
            removed += 1
        else:
            return True, removed
    return False, removed


def survive(
    name: str,
    folder: Path,
    moments: list[float],
    rng: np.random.Generator,
    scheduler: str = "none",
    patience: float = 240.0,
) -> Report:
    """Runs an experiment and kills its driver once a share of the trials has ended, then a random moment later.

    Args:
        name: of the searcher.
        folder: where the experiment is.
        moments: the shares, one for each kill. An experiment that Tune cannot restore after one is begun anew.
        rng: of the random moments.
        scheduler: see `drive`.
        patience: seconds that the last driver has to end the experiment.
    """
    before: dict[str, float] = {}
    kills = damaged = 0
    for moment in moments:
        driver = start(folder, name, scheduler)
        deadline = time.time() + 180
        while len(snapshot(folder)) < moment * TRIALS and time.time() < deadline and driver.poll() is None:
            time.sleep(0.1)
        time.sleep(float(rng.uniform(0.0, 1.0)))
        kills += kill(driver)
        before |= snapshot(folder)
        fine, removed = usable(folder)
        damaged += removed
        if not fine:
            shutil.rmtree(folder / "run", ignore_errors=True)
            before = {}
    driver = start(folder, name, scheduler)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(timeout=patience)
    ended = not kill(driver)
    import raytree.searchers

    record = told(folder)
    found = differences(getattr(raytree.searchers, name).from_experiment(folder / "run").observations(), record, before)
    stopped = sum(trial.over and trial.t < MAX_T for trial in record.values()) if scheduler != "none" else 0
    unknown = TRIALS - len(record) if ended else 0
    return Report(
        ended, kills, len(before), found.lost, found.doubled, found.missing + unknown, found.misreported, stopped, damaged
    )
