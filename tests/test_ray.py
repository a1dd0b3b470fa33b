"""End to end on a real local Ray."""

from __future__ import annotations

import math
from urllib.parse import quote

import numpy as np
import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import ConcurrencyLimiter

from raytree.searchers import BOSHSearcher, CondKernelSearcher, RandomSearcher, TreeSearcher
from tests.conformance import SPACE, loss

pytestmark = pytest.mark.usefixtures("local_ray")

SLOW = pytest.mark.slow  # the same again
SEARCHERS = [pytest.param(RandomSearcher, marks=SLOW), TreeSearcher, pytest.param(CondKernelSearcher, marks=SLOW)]


def objective(config):
    assert (
        set(config["model"])
        == {"svm": {"kind", "C", "kernel"}, "knn": {"kind", "n", "C"}, "gnb": {"kind"}}[config["model"]["kind"]]
    )
    assert config["constant"] == {"path": "data.csv", "list": [1, 2]}
    tune.report({"loss": loss(config)})


def troubled(config):
    """Fails, reports NaN, or reports three times."""
    if config["model"]["kind"] == "gnb":
        raise RuntimeError("no such model")
    for t in range(1, 4):
        value = loss(config) + 1.0 / t
        tune.report({"loss": math.nan if config["model"]["kind"] == "knn" and config["model"]["n"] > 20 else value})


def configs(results) -> list:
    return [result.config for result in results]


def fit(searcher, trainable=objective, samples=8, tmp_path=None, **settings):
    tuner = tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=samples, search_alg=searcher, reuse_actors=True, **settings
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="run"),
    )
    return tuner.fit()


@pytest.mark.parametrize("searcher_class", SEARCHERS)
def test_a_nested_space_through_tuner_in_parallel(searcher_class, tmp_path):
    searcher = searcher_class(seed=0)
    results = fit(searcher, samples=12, tmp_path=tmp_path)
    assert len(results) == 12
    assert not results.errors
    table = searcher.observations()
    assert (table["status"] == "finished").all()
    assert table["value"].min() == pytest.approx(results.get_best_result().metrics["loss"])
    assert searcher.recommend().config in configs(results)


def test_a_nested_space_through_tune_run(tmp_path):
    searcher = TreeSearcher(seed=0)
    analysis = tune.run(
        objective, config=SPACE, metric="loss", mode="min", num_samples=6, search_alg=searcher, verbose=0,
        reuse_actors=True, storage_path=str(tmp_path),
    )  # fmt: skip
    assert len(analysis.trials) == 6
    assert len(searcher.observations()) == 6


def test_without_a_param_space(tmp_path):
    searcher = RandomSearcher(space=SPACE, metric="loss", mode="min", seed=0)
    tuner = tune.Tuner(
        objective,
        tune_config=tune.TuneConfig(num_samples=4, search_alg=searcher, reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    assert len(tuner.fit()) == 4
    assert (searcher.observations()["status"] == "finished").all()


def test_objects_in_the_space_reach_the_trainable(tmp_path):
    class Thing:
        def __init__(self, number):
            self.number = number

    def trainable(config):
        assert callable(config["make"])
        assert config["sampled"] == 7
        tune.report({"loss": config["make"]() + config["pick"].get("x", 0.0)})

    searcher = RandomSearcher(seed=0)
    tuner = tune.Tuner(
        trainable,
        param_space={
            "make": lambda: 1.0,
            "data": np.arange(3),
            "sampled": tune.sample_from(lambda: 7),
            "pick": tune.choice([{"thing": Thing(1), "x": tune.uniform(0, 1)}, {"thing": Thing(2)}]),
        },
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=5, search_alg=searcher, reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    results = tuner.fit()
    assert not results.errors
    got = {result.metrics["trial_id"]: result.config for result in results}
    assert all(isinstance(config["pick"]["thing"].number, int) for config in got.values())
    for _, row in searcher.observations().iterrows():
        assert row["config/pick/thing"].number == got[row["trial_id"]]["pick"]["thing"].number
        assert row["config/data"].tolist() == [0, 1, 2]
        assert row["config/make"]() == 1.0
        assert row["config/sampled"] == 7
    best = searcher.recommend()
    assert best.config["pick"]["thing"].number == got[best.trial_id]["pick"]["thing"].number


def test_five_then_restored_searcher_then_five_equals_ten(tmp_path):
    straight = fit(RandomSearcher(seed=3), samples=10, tmp_path=tmp_path / "a", max_concurrent_trials=1)
    first = RandomSearcher(seed=3)
    part = fit(first, samples=5, tmp_path=tmp_path / "b", max_concurrent_trials=1)
    first.save(str(tmp_path / "state"))
    second = RandomSearcher()
    second.restore(str(tmp_path / "state"))
    rest = fit(second, samples=5, tmp_path=tmp_path / "c", max_concurrent_trials=1)
    assert configs(part) + configs(rest) == configs(straight)


def test_failing_trials_and_nan_do_not_end_the_search(tmp_path):
    searcher = RandomSearcher(seed=1)
    results = fit(searcher, troubled, samples=12, tmp_path=tmp_path)
    table = searcher.observations()
    assert len(table) == 12
    assert len(results.errors) == (table["status"] == "errored").sum() > 0
    assert (table["status"] == "invalid").sum() > 0
    assert (table["status"] == "running").sum() == 0
    assert (table.loc[table["status"] == "finished", "t"] == 3).all()


def test_with_asha_and_no_limiter(tmp_path):
    def curve(config):
        """Better with the number of the trial, so that most of the later ones are stopped, or none is."""
        for t in range(1, 10):
            tune.report({"loss": config["x"] + 1.0 / t})

    searcher = TreeSearcher(seed=1, max_t=9)
    scheduler = ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3)
    tuner = tune.Tuner(
        curve,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=10, search_alg=searcher, scheduler=scheduler, reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    results = {result.metrics["trial_id"]: result.metrics for result in tuner.fit()}
    table = searcher.observations()
    assert len(table) == 10
    assert (table["t"] < 9).any()  # some were stopped
    assert (table["t"] == 9).any()
    for _, row in table.iterrows():
        metrics = results[row["trial_id"]]
        assert (row["value"], row["t"]) == (metrics["loss"], metrics["training_iteration"])
        assert row["status"] == ("stopped" if metrics["training_iteration"] < 9 else "finished")


def test_a_finite_space_ends_the_run_early(tmp_path):
    tuner = tune.Tuner(
        lambda config: tune.report({"loss": float(config["a"])}),
        param_space={"a": tune.choice([1, 2, 3])},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=50, search_alg=RandomSearcher(seed=0), reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    assert sorted(config["a"] for config in configs(tuner.fit())) == [1, 2, 3]


def test_a_bad_space_is_refused_before_the_first_trial(tmp_path):
    tuner = tune.Tuner(
        objective,
        param_space={"m": tune.choice([{"x": tune.grid_search([1, 2])}])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", search_alg=RandomSearcher()),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    with pytest.raises(Exception, match=r"m\[0\]\.x: tune.grid_search"):
        tuner.fit()


def test_what_a_finished_experiment_left_is_found_in_folders_with_brackets_and_by_uri(tmp_path, caplog):
    space = {
        **SPACE,
        "sizes": tune.choice([(64, 64), (32,), None, {"deep": (1, None)}]),
        "scale": tune.choice([np.float64(0.5), np.float64(1.0)]),
        "by": {2: tune.choice([{"kind": (1, 2), "x": tune.uniform(0, 1)}, {"kind": (3,), "x": tune.uniform(0, 1)}])},
    }
    folder = tmp_path / "a [b] c"

    def trainable(config):
        tune.report({"loss": loss(config) + config["by"][2]["x"]})

    first = TreeSearcher(seed=0)
    results = tune.Tuner(
        trainable,
        param_space=space,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=5, search_alg=first, reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, storage_path=str(folder), name="run"),
    ).fit()
    place = folder / "run"
    expected = {r.metrics["trial_id"]: (r.metrics["loss"], r.config["sizes"], r.config["by"][2]["kind"]) for r in results}
    analysis = tune.ExperimentAnalysis(str(place))
    for source in (results, analysis, place, str(place), f"file://{quote(str(place))}"):
        searcher = TreeSearcher(space=space, metric="loss", mode="min", seed=0)
        for _ in range(2):
            searcher.add_evaluated_trials(source)
        found = {trial.id: searcher._space.config(trial.point) for trial in searcher._optimizer.observations}
        values = searcher.observations().set_index("trial_id")["value"]
        assert {k: (values[k], config["sizes"], config["by"][2]["kind"]) for k, config in found.items()} == expected
        assert searcher._space.contains(searcher.suggest("next"))
    for source in (place, str(place), f"file://{quote(str(place))}"):
        other = TreeSearcher.from_experiment(source, max_t=9, on_error="penalize")
        assert other.observations().equals(first.observations())
        assert other._optimizer.settings()["max_t"] == 9
        assert other._optimizer.settings()["on_error"] == "penalize"
    assert TreeSearcher.from_experiment(place).recommend() == first.recommend()


def test_every_finished_trial_carries_its_seed(tmp_path):
    def noisy(config):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 0.1 * (config["seed"] % 5)})

    searcher = BOSHSearcher(seed=0)
    results = tune.Tuner(
        noisy,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=12, search_alg=searcher, reuse_actors=True, max_concurrent_trials=3
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()
    table = searcher.observations()
    assert sorted(result.config["seed"] for result in results) == sorted(table["config/seed"])
    assert table["status"].tolist() == ["finished"] * 12
    assert 2 <= table["config/seed"].nunique() < 12
    assert set(searcher.recommend().config) == {"x"}


@pytest.mark.parametrize("batch", [True, False], ids=["batches", "asynchronous"])
def test_several_seeds_and_places_are_tried_at_a_time(batch, tmp_path):
    """Four at a time, delivered together or one by one: no two alike, several places, several seeds."""

    def noisy(config):
        shift = 0.1 * np.random.default_rng(config["seed"]).normal()
        tune.report({"loss": (config["x"] - 0.3 - shift) ** 2 + shift})

    searcher = BOSHSearcher(seed=0)
    tune.Tuner(
        noisy,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=20, reuse_actors=True,
            search_alg=ConcurrencyLimiter(searcher, max_concurrent=4, batch=batch),
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
    ).fit()  # fmt: skip
    table = searcher.observations()
    assert table["status"].tolist() == ["finished"] * 20
    tried = list(zip(table["config/x"].round(3), table["config/seed"], strict=True))
    assert len(set(tried)) == 20
    for start in range(8, 20, 4):
        together = tried[start : start + 4]
        assert len({x for x, _ in together}) > 1 or len({seed for _, seed in together}) > 1
    late = tried[8:]
    assert len({x for x, _ in late}) > 3
    assert len({seed for _, seed in late}) > 1
