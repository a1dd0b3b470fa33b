"""The rest of what Tune does to a searcher, on a real local Ray: pausing schedulers, repeats, budgets, retries, restores."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
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
    results = fit(
        Repeater(searcher, repeat=2), lambda config: tune.report({"loss": value(config) + config["__trial_index__"]}), tmp_path
    )
    table = searcher.observations()
    assert table["status"].tolist() == ["finished"] * 4
    single = sorted(value(result.config) for result in results)
    assert single[::2] == single[1::2]  # every configuration ran twice, with index 0 and 1
    assert sorted(table["value"]) == pytest.approx([one + 0.5 for one in single[::2]])


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
        """Fails once at its second step; the second attempt is worse than the first by 10."""
        mark = Path(marks) / tune.get_context().get_trial_id()
        attempt = 10.0 if mark.exists() else 0.0
        for t in range(1, 4):
            tune.report({"loss": value(config) + attempt + 1.0 / t})
            if t == 2 and not attempt:
                mark.touch()
                raise RuntimeError("once")

    searcher = TreeSearcher(seed=0)
    results = fit(searcher, flaky, tmp_path, samples=4, run={"failure_config": tune.FailureConfig(max_failures=2)})
    assert not results.errors
    assert len(os.listdir(marks)) == 4  # every trial was tried twice
    got = {result.metrics["trial_id"]: value(result.config) for result in results}
    table = searcher.observations()
    assert sorted(table["trial_id"]) == sorted(got)
    assert (table["t"] == 3).all()
    for trial in searcher._optimizer.observations:
        assert trial.reports == pytest.approx({t: got[trial.id] + 10.0 + 1.0 / t for t in (1, 2, 3)})


@pytest.mark.parametrize("how", ["resume_errored", "restart_errored"])
@pytest.mark.parametrize("limit", [pytest.param(None, marks=pytest.mark.slow), 2])  # slow: the same again
def test_errored_trials_are_taken_up_again_after_a_restore(how, limit, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    path = str(broken)

    def sometimes(config):
        for t in range(1, 4):
            if t == 2 and os.path.exists(path) and config["m"]["kind"] == "b":
                raise RuntimeError("broken")
            tune.report({"loss": value(config) + (9.0 if os.path.exists(path) else 1.0) / t})

    searcher = RandomSearcher(seed=0)
    results = fit(searcher, sometimes, tmp_path, samples=5, max_concurrent_trials=limit)
    failed = {result.metrics["trial_id"] for result in results if result.error}
    assert 0 < len(failed) < 5
    broken.unlink()
    again = tune.Tuner.restore(str(tmp_path / "run"), trainable=sometimes, **{how: True}).fit()
    assert not again.errors
    table = RandomSearcher.from_experiment(tmp_path / "run").observations()
    expected = {r.metrics["trial_id"]: (r.metrics["loss"], 3.0, "finished", r.config["m"]["kind"]) for r in again}
    found = table[table["status"] != "errored"].set_index("trial_id")
    assert {k: (row["value"], row["t"], row["status"], row["config/m/kind"]) for k, row in found.iterrows()} == expected
    errored = set(table.loc[table["status"] == "errored", "trial_id"])
    assert errored == (set() if how == "resume_errored" else failed)


class Steep:
    def __init__(self, factor):
        self.factor = factor


class Flat:
    pass


OBJECTS = {
    "data": Steep([0.0, 1.0, 2.0]),  # no array: Tune itself cannot restart trials that hold one
    "model": tune.choice([{"make": Steep(3.0), "x": tune.uniform(0, 1)}, {"make": Flat(), "x": tune.uniform(0, 1)}]),
    "activation": tune.choice([np.tanh, np.exp]),
    "sampled": tune.sample_from(lambda config: round(config["model"]["x"], 3)),
    "sizes": tune.choice([(64, 64), (32,), None, {"deep": (1, None)}]),
    "count": tune.choice([np.int64(3), np.int64(7)]),
    "a/b": {1: tune.uniform(0, 1)},
}


@pytest.mark.parametrize("limit", [None, pytest.param(2, marks=pytest.mark.slow)])  # slow: the same again
def test_answers_show_what_the_trainable_got_and_restarted_trials_with_objects_are_known_again(limit, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    path = str(broken)

    def trainable(config):
        if os.path.exists(path) and config["a/b"][1] > 0.5:
            raise RuntimeError("broken")
        tune.report({"loss": float(config["activation"](config["model"]["x"]) + sum(config["data"].factor))})

    searcher = RandomSearcher(seed=3)
    results = tune.Tuner(
        trainable,
        param_space=OBJECTS,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=6, search_alg=searcher, reuse_actors=True, max_concurrent_trials=limit
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="run"),
    ).fit()
    failed = results.errors
    assert 0 < len(failed) < 6
    broken.unlink()
    again = tune.Tuner.restore(str(tmp_path / "run"), trainable=trainable, restart_errored=True).fit()
    assert not again.errors
    other = RandomSearcher.from_experiment(tmp_path / "run")
    trials = {result.metrics["trial_id"]: result for result in again}
    table = other.observations().set_index("trial_id")
    assert (table["status"] == "finished").sum() == 6
    for trial_id, result in trials.items():
        row, config = table.loc[trial_id], result.config
        assert row["value"] == result.metrics["loss"]
        assert type(row["config/model/make"]) is type(config["model"]["make"])
        assert row["config/model/x"] == config["model"]["x"]
        assert row["config/activation"] is config["activation"]
        assert row["config/sampled"] == round(config["model"]["x"], 3)
        assert [row["config/a/b/1"]] == list(config["a/b"].values())  # its key is text after Tune stored it
        assert row["config/count"] == config["count"]
        assert row["path"] == f"model={type(config['model']['make']).__name__}"
    for answer in (other, searcher):
        best = answer.recommend()
        assert isinstance(best.config["model"]["make"], (Steep, Flat))
        assert best.config["data"].factor == [0.0, 1.0, 2.0]
        shown = f"{best} {answer.explain()} {answer.observations().to_string()}"
        assert "_ph" not in shown
    assert best.config["sampled"] == round(best.config["model"]["x"], 3)

    with pytest.MonkeyPatch.context() as patch:  # a folder that is not trusted: nothing is unpickled, objects have names
        patch.setattr("raytree.searchers.base.read_experiment", lambda place: pytest.fail("unpickled"))
        careful = RandomSearcher.from_experiment(tmp_path / "run", unpickle=False)
    assert set(careful.observations()["config/model/make"]) <= {"(Steep)", "(Flat)"}
    assert set(careful.observations()["path"]) == set(other.observations()["path"])

    fresh = TreeSearcher(seed=0)  # a warm start from the directory, before the space is known
    fresh.add_evaluated_trials(tmp_path / "run")
    results = tune.Tuner(
        trainable,
        param_space=OBJECTS,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=2, search_alg=fresh, reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="second"),
    ).fit()
    assert len(fresh.observations()) == 6 + 2  # the restarted trial has taken the place of the failed one
    assert "_ph" not in f"{fresh.recommend()} {fresh.explain()} {fresh.observations().to_string()}"


def test_two_searchers_in_one_process_do_not_touch_each_other(tmp_path):
    one, two = TreeSearcher(seed=0), TreeSearcher(seed=0)
    first = fit(one, lambda config: tune.report({"loss": value(config)}), tmp_path / "a", samples=5, max_concurrent_trials=1)
    second = fit(two, lambda config: tune.report({"loss": value(config)}), tmp_path / "b", samples=5, max_concurrent_trials=1)
    assert [r.config for r in first] == [r.config for r in second]
    assert len(one.observations()) == len(two.observations()) == 5
