"""Drivers that are killed or doubled, full disks, damaged snapshots: on the real Ray, through `Tuner.restore`."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from ray import tune

from raytree.searchers import TreeSearcher
from tests.kills import TRIALS, Told, differences, kill, start, survive, told

FINE = (0, 0, 0, 0)


# Counting


def counted(change: Any) -> tuple[int, int, int, int]:
    """The differences of a table of three trials after a change to it."""
    places = {"m[0].x": [0.1, 0.2, np.nan], "m[1].y": [np.nan, np.nan, 7]}
    table = pandas.DataFrame({"trial_id": ["a", "b", "c"], "status": "finished", "value": [1.0, 2.0, 3.0], "t": 3.0, **places})
    record = {"a": Told({"m": {"x": 0.1}}, 1.0, 3), "b": Told({"m": {"x": 0.2}}, 2.0, 3), "c": Told({"m": {"y": 7}}, 3.0, 3)}
    changed = change(table)
    return tuple(differences(table if changed is None else changed, record, {"a": 1.0}))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: None, FINE),
        (lambda table: table.iloc[1:], (1, 0, 1, 0)),
        (lambda table: table.iloc[:2], (0, 0, 1, 0)),
        (lambda table: pandas.concat([table, table.iloc[:1]]), (0, 1, 0, 0)),
        (lambda table: pandas.concat([table, table.iloc[:1].assign(trial_id="given-0")]), (0, 1, 0, 0)),
        (lambda table: table.assign(value=-table["value"]), (1, 0, 0, 3)),
        (lambda table: table.assign(t=[3.0, 2.0, 3.0]), (0, 0, 0, 1)),
        (lambda table: table.assign(status=["finished", "running", "finished"]), (0, 0, 1, 0)),
        (lambda table: table.assign(value=[1.0, 3.0, 2.0]), (0, 0, 0, 2)),
        (lambda table: table.assign(value=np.nan, status="errored"), (1, 0, 3, 0)),
        (lambda table: table.assign(**{"m[0].x": [0.2, 0.1, np.nan]}), (0, 0, 0, 2)),
    ],
)
def test_what_is_lost_doubled_missing_or_misreported_is_counted(change, expected):
    assert counted(change) == expected


# Killed drivers


@pytest.mark.parametrize(
    ("scheduler", "moments"),
    [
        pytest.param("none", [0.5], id="once"),
        pytest.param("none", [0.2, 0.6], id="twice", marks=pytest.mark.slow),  # the same, longer
        pytest.param("asha", [0.4], id="asha", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(600)  # two drivers, each with its own patience
def test_killing_the_driver_loses_nothing_older_than_the_snapshot(scheduler, moments, tmp_path):
    report = survive("TreeSearcher", tmp_path, moments, np.random.default_rng(len(scheduler)), scheduler)
    assert report.ended
    assert report.kills == len(moments)
    assert report.known >= min(moments) * TRIALS or report.damaged
    assert (report.lost, report.doubled, report.missing, report.misreported) == FINE
    assert report.stopped > 0 or scheduler == "none"


@pytest.mark.slow  # it waits for a run that Tune does not end
def test_hyperband_across_a_restore_loses_nothing(tmp_path):
    """Tune forgets HyperBand's brackets: paused trials wait for ever after a restore, with any searcher. What was known stays."""
    report = survive("TreeSearcher", tmp_path, [0.3], np.random.default_rng(0), "hyperband", patience=25.0)
    assert report.kills == 1
    assert report.known >= 0.3 * TRIALS
    assert report.stopped > 0
    assert (report.lost, report.doubled, report.missing, report.misreported) == FINE


def test_a_second_driver_is_refused_and_the_first_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLD_UNTIL", str(tmp_path / "go"))
    first = start(tmp_path, "TreeSearcher", "held")
    try:
        deadline = time.time() + 120
        while not list(tmp_path.glob("run/searcher-driver-*.json")) and first.poll() is None and time.time() < deadline:
            time.sleep(0.1)
        second = start(tmp_path, "TreeSearcher", "held", quiet=False)
        _, error = second.communicate(timeout=120)
        assert second.returncode != 0
        assert f"process {first.pid} on" in error
        assert "is driving this experiment" in error
        assert first.poll() is None
        (tmp_path / "go").touch()
        assert first.wait(timeout=120) == 0
    finally:
        kill(first)
    table = TreeSearcher.from_experiment(tmp_path / "run").observations()
    assert tuple(differences(table, told(tmp_path), {})) == FINE
    assert len(table) == TRIALS


# Disks and snapshots


def failing(config: dict) -> None:
    """Fails until a flag is there, in one of the branches."""
    if config["m"]["kind"] == "b" and not Path(config["flag"]).exists():
        raise RuntimeError("not yet")
    tune.report({"loss": config["m"].get("x", 0.5)})


def tuner(folder: Path, samples: int = 6, **settings: Any) -> tune.Tuner:
    space = {
        "flag": str(folder / "flag"),
        "m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}]),
    }
    return tune.Tuner(
        failing,
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=samples, search_alg=TreeSearcher(seed=0, num_initial=4), reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(folder), name="run", **settings),
    )


def warnings(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and record.name == "raytree"]


def test_a_full_disk_in_the_middle_of_a_run(local_ray, tmp_path, caplog, monkeypatch):
    """Every save from the third on fails; the run ends as if nothing were, and what was saved before is whole."""
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "0")
    (tmp_path / "flag").touch()
    saves = 0

    def full(descriptor: int) -> None:
        nonlocal saves
        saves += 1
        if saves > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    made = tuner(tmp_path)
    results = made.fit()
    assert saves > 8
    assert len(results) == 6
    assert not results.errors
    assert [message for message in warnings(caplog) if "No space left" in message] == warnings(caplog)
    assert len(warnings(caplog)) == 1
    older = TreeSearcher.from_experiment(tmp_path / "run")
    assert len(older.observations()) < 6


def test_a_damaged_newest_snapshot_beside_a_good_one(local_ray, tmp_path, caplog):
    results = tuner(tmp_path, samples=4).fit()
    assert results.errors
    good = max((tmp_path / "run").glob("searcher-state-*.json"))
    newer = good.with_name("searcher-state-2099-01-01_00-00-00.json")
    shutil.copy(good, newer)
    newer.write_bytes(newer.read_bytes()[:-100])
    (tmp_path / "flag").touch()
    again = tune.Tuner.restore(str(tmp_path / "run"), trainable=failing, resume_errored=True).fit()
    assert not again.errors
    assert len(again) == 4
    assert newer.name in warnings(caplog)[0]
    assert good.name in warnings(caplog)[0]


# Objects


class Thing:
    def __init__(self, number: int) -> None:
        self.number = number


def with_objects(config: dict) -> None:
    tune.report({"loss": config["x"] + config["make"]() + config["pick"]["thing"].number})


class Crash(tune.Callback):
    """Ends the driver's run after two trials, once."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def on_step_end(self, iteration: int, trials: list, **info: Any) -> None:
        if sum(trial.is_finished() for trial in trials) >= 2 and not self.flag.exists():
            self.flag.touch()
            raise RuntimeError("the driver crashes")


def space_with_objects() -> dict:
    return {
        "x": tune.uniform(0, 1),
        "make": lambda: 1.0,
        "pick": tune.choice([{"thing": Thing(1)}, {"thing": Thing(2), "y": tune.uniform(0, 1)}]),
    }


def test_objects_reach_the_trainable_after_a_restart(local_ray, tmp_path, monkeypatch):
    """Tune forgets them: without `param_space` the trainable would get placeholders, so the searcher says what to do."""
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "0")
    made = tune.Tuner(
        with_objects,
        param_space=space_with_objects(),
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=6, search_alg=TreeSearcher(seed=0), max_concurrent_trials=1, reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="run", callbacks=[Crash(tmp_path / "flag")]),
    )
    with pytest.raises(Exception, match="the driver crashes"):
        made.fit()
    with pytest.raises(Exception, match=r"param_space.*Tuner\.restore"):
        tune.Tuner.restore(str(tmp_path / "run"), trainable=with_objects).fit()
    results = tune.Tuner.restore(str(tmp_path / "run"), trainable=with_objects, param_space=space_with_objects()).fit()
    assert not results.errors
    assert len(results) == 6
    for result in results:
        expected = result.config["x"] + 1.0 + result.config["pick"]["thing"].number
        assert result.metrics["loss"] == pytest.approx(expected)
