"""The rest of what Tune does to a searcher, on a real local Ray: pausing schedulers, repeats, budgets, retries, restores."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ray import tune
from ray.tune.search import Repeater

from raytree.searchers import RandomSearcher, TreeSearcher

pytestmark = pytest.mark.usefixtures("local_ray")

SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "n": tune.randint(1, 9)}])}


def value(config) -> float:
    return config["m"].get("x", 0.0) + 0.1 * config["m"].get("n", 0)


def curve(config):
    """Nine reports that get better."""
    for t in range(1, 10):
        tune.report({"loss": value(config) + 1.0 / t})


def fit(searcher, trainable, folder: Path, samples: int = 8, run: dict | None = None, **settings):
    return tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=samples, search_alg=searcher, reuse_actors=True, **settings
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(folder), name="run", **(run or {})),
    ).fit()


def test_repeater_averages(tmp_path):
    searcher = TreeSearcher(seed=0)
    fit(Repeater(searcher, repeat=2), lambda config: tune.report({"loss": value(config) + config["__trial_index__"]}), tmp_path)
    table = searcher.observations()
    assert len(table) == 4
    assert (table["status"] == "finished").all()


def test_a_time_budget_ends_a_run_without_completions(tmp_path):
    def slow(config):
        for _ in range(200):
            time.sleep(0.1)
            tune.report({"loss": value(config)})

    searcher = TreeSearcher(seed=0)
    fit(searcher, slow, tmp_path, samples=4, time_budget_s=6)
    table = searcher.observations()
    assert (table["status"] == "running").any()
    text = tmp_path / "state"
    searcher.save(str(text))
    other = TreeSearcher()
    other.restore(str(text))
    assert other.suggest("next") == searcher.suggest("next")


def test_retries_start_again_and_are_counted_once(tmp_path):
    marks = str(tmp_path / "marks")
    os.mkdir(marks)

    def flaky(config):
        mark = Path(marks) / tune.get_context().get_trial_id()
        for t in range(1, 4):
            tune.report({"loss": value(config) + 1.0 / t})
            if t == 2 and not mark.exists():
                mark.touch()
                raise RuntimeError("once")

    searcher = TreeSearcher(seed=0)
    results = fit(searcher, flaky, tmp_path, samples=4, run={"failure_config": tune.FailureConfig(max_failures=2)})
    assert not results.errors
    table = searcher.observations()
    assert len(table) == 4
    assert table["trial_id"].is_unique
    assert (table["t"] == 3).all()


@pytest.mark.parametrize("how", ["resume_errored", "restart_errored"])
def test_errored_trials_are_taken_up_again_after_a_restore(how, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    path = str(broken)

    def sometimes(config):
        if os.path.exists(path) and config["m"]["kind"] == "b":
            raise RuntimeError("broken")
        tune.report({"loss": value(config)})

    searcher = RandomSearcher(seed=0)
    results = fit(searcher, sometimes, tmp_path, samples=6)
    failed = len(results.errors)
    assert 0 < failed < 6
    broken.unlink()
    again = tune.Tuner.restore(str(tmp_path / "run"), trainable=sometimes, **{how: True}).fit()
    assert not again.errors
    table = RandomSearcher.from_experiment(tmp_path / "run").observations()
    assert table["trial_id"].is_unique
    finished = (table["status"] == "finished").sum()
    assert finished == 6
    assert len(table) == (6 if how == "resume_errored" else 6 + failed)


def test_two_searchers_in_one_process_do_not_touch_each_other(tmp_path):
    one, two = TreeSearcher(seed=0), TreeSearcher(seed=0)
    first = fit(one, lambda config: tune.report({"loss": value(config)}), tmp_path / "a", samples=5, max_concurrent_trials=1)
    second = fit(two, lambda config: tune.report({"loss": value(config)}), tmp_path / "b", samples=5, max_concurrent_trials=1)
    assert [r.config for r in first] == [r.config for r in second]
    assert len(one.observations()) == len(two.observations()) == 5
