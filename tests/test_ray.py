"""End to end on a real local Ray."""

from __future__ import annotations

import math

import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from raytree.searchers import BOSHSearcher, CondKernelSearcher, RandomSearcher, TreeSearcher
from tests.conformance import SPACE, loss

pytestmark = pytest.mark.usefixtures("local_ray")

SEARCHERS = [RandomSearcher, TreeSearcher, CondKernelSearcher]


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


@pytest.mark.parametrize("searcher_class", [TreeSearcher])
def test_a_nested_space_through_tune_run(searcher_class, tmp_path):
    searcher = searcher_class(seed=0)
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

    tuner = tune.Tuner(
        trainable,
        param_space={
            "make": lambda: 1.0,
            "sampled": tune.sample_from(lambda: 7),
            "pick": tune.choice([{"thing": Thing(1), "x": tune.uniform(0, 1)}, {"thing": Thing(2)}]),
        },
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=5, search_alg=RandomSearcher(seed=0), reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path)),
    )
    results = tuner.fit()
    assert not results.errors
    assert all(isinstance(config["pick"]["thing"].number, int) for config in configs(results))


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
    """A good trial first: what is worse at its first report is stopped there."""

    def steady(config):
        for _ in range(3):
            tune.report({"loss": loss(config)})

    fixed = {"scaler": "standard", "constant": {"path": "data.csv", "list": [1, 2]}}
    points = [{**fixed, "model": {"kind": "svm", "C": C, "kernel": {"name": "rbf", "gamma": 0.3}}} for C in (1.0, 1e2, 3e2, 1e3)]
    searcher = RandomSearcher(seed=1, points_to_evaluate=points)
    scheduler = ASHAScheduler(max_t=3, grace_period=1, reduction_factor=2)
    results = fit(searcher, steady, samples=8, tmp_path=tmp_path, scheduler=scheduler)
    table = searcher.observations().set_index("trial_id")
    assert len(table) == 8
    for result in results:
        row = table.loc[result.metrics["trial_id"]]
        assert (row["value"], row["t"]) == (result.metrics["loss"], result.metrics["training_iteration"])
    assert {1, 3} <= {result.metrics["training_iteration"] for result in results}  # some stopped, some not


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


def test_warm_start_from_results_analysis_and_directory(tmp_path):
    results = fit(RandomSearcher(seed=0), samples=4, tmp_path=tmp_path)
    analysis = tune.ExperimentAnalysis(str(tmp_path / "run"))
    for source in (results, analysis, tmp_path / "run"):
        searcher = TreeSearcher(space=SPACE, metric="loss", mode="min", seed=0)
        searcher.add_evaluated_trials(source)
        assert sorted(searcher.observations()["value"]) == sorted(result.metrics["loss"] for result in results)
        assert searcher._space.contains(searcher.suggest("next"))


def test_the_searcher_of_a_finished_experiment_comes_back(tmp_path):
    searcher = TreeSearcher(seed=0)
    fit(searcher, samples=5, tmp_path=tmp_path)
    other = TreeSearcher.from_experiment(tmp_path / "run")
    assert other.recommend() == searcher.recommend()


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
    assert sorted(result.config["seed"] for result in results) == sorted(table["seed"])
    assert table["status"].tolist() == ["finished"] * 12
    assert 2 <= table["seed"].nunique() < 12
    assert set(searcher.recommend().config) == {"x"}
