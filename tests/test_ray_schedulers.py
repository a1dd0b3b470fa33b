"""Schedulers that stop and pause trials, on a real local Ray: stopped trials teach at the fidelity they got to."""

from __future__ import annotations

import json
import math

import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler, HyperBandForBOHB, HyperBandScheduler, MedianStoppingRule
from ray.tune.search import ConcurrencyLimiter

from raytree.searchers import CondKernelSearcher, TreeSearcher

pytestmark = pytest.mark.usefixtures("local_ray")

MAX_T = 9
SPACE = {
    "model": tune.choice(
        [
            {"kind": "a", "x": tune.uniform(0, 1)},
            {"kind": "b", "x": tune.uniform(0, 1), "rate": tune.loguniform(1e-3, 1)},
        ]
    )
}


def curve(config, t):
    model = config["model"]
    final = (model["x"] - 0.3) ** 2 + (0.2 + 0.1 * abs(math.log10(model["rate"]) + 1) if model["kind"] == "b" else 0.0)
    return final + (0.5 + final) / t


def objective(config):
    for t in range(1, MAX_T + 1):
        tune.report({"loss": curve(config, t)})


def failing(config):
    for t in range(1, MAX_T + 1):
        if t == 2 and config["model"]["x"] > 0.85:
            raise RuntimeError("diverged")
        tune.report({"loss": curve(config, t)})


def fit(searcher, scheduler, tmp_path, trainable=objective, samples=8, concurrent=4):
    """Runs a search. Schedulers that pause trials may leave some of them waiting for ever: the budget ends that."""
    limited = ConcurrencyLimiter(searcher, max_concurrent=concurrent)
    return tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=samples, search_alg=limited, scheduler=scheduler, reuse_actors=True,
            time_budget_s=60,
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="run"),
    ).fit()  # fmt: skip


def check(searcher, results, samples) -> int:
    """Every trial is known once, and what it reported last is what it is remembered for; returns how many were stopped."""
    over = {trial.trial_id for trial in tune.ExperimentAnalysis(results.experiment_path).trials if trial.is_finished()}
    assert len(results) == samples
    optimizer = searcher._optimizer
    assert optimizer.failures == 0
    last = {result.metrics["trial_id"]: result.metrics for result in results if result.metrics and not result.error}
    assert len(last) == samples - len(results.errors)
    table = searcher.observations().set_index("trial_id")
    assert len(table) == samples
    assert (table["status"] == "errored").sum() == len(results.errors)
    assert set(table.index[table["status"] != "running"]) == over
    for trial_id, metrics in last.items():
        assert table.loc[trial_id, "t"] == metrics["training_iteration"]
        assert table.loc[trial_id, "value"] == metrics["loss"]
        assert metrics["loss"] == pytest.approx(curve(metrics["config"], metrics["training_iteration"]))
    assert searcher.recommend() is not None
    return sum(metrics["training_iteration"] < MAX_T for trial_id, metrics in last.items() if trial_id in over)


@pytest.mark.parametrize("searcher_class", [TreeSearcher, pytest.param(CondKernelSearcher, marks=pytest.mark.slow)])
def test_asha_with_failing_trials(searcher_class, tmp_path):
    searcher = searcher_class(seed=0, max_t=MAX_T, num_initial=5)
    scheduler = ASHAScheduler(max_t=MAX_T, grace_period=1, reduction_factor=3)
    results = fit(searcher, scheduler, tmp_path, failing, samples=12)
    assert check(searcher, results, 12) > 0
    reached = {trial.t for trial in searcher._optimizer if trial.t is not None}
    curves = searcher._optimizer.strategy.data()
    assert len(curves.losses) > len(reached)
    assert curves.rows[:, -1].min() < 0.1
    assert curves.rows[:, -1].max() == 1.0
    # What this experiment found warms up another one: triplets of configuration, value and t.
    second = searcher_class(space=SPACE, metric="loss", mode="min", seed=1, max_t=MAX_T, num_initial=5)
    second.add_evaluated_trials(results)
    found = {trial.point: (trial.value, trial.t) for trial in second._optimizer if trial.value is not None}
    assert found == {trial.point: (trial.value, trial.t) for trial in searcher._optimizer if trial.value is not None}
    second.suggest("next")
    assert second._optimizer.failures == 0
    assert second._optimizer.strategy.inference.fitted_to == len(found)


@pytest.mark.slow  # Tune may leave paused trials waiting until the time is up
def test_hyperband(tmp_path):
    """Brackets need many trials at once: HyperBand compares those that are alive."""
    searcher = TreeSearcher(seed=0, max_t=MAX_T, num_initial=5)
    results = fit(searcher, HyperBandScheduler(max_t=MAX_T, reduction_factor=3), tmp_path, samples=14, concurrent=14)
    assert check(searcher, results, 14) > 0


def test_hyperband_for_bohb_announces_itself(tmp_path):
    searcher = TreeSearcher(seed=0, num_initial=5)
    results = fit(searcher, HyperBandForBOHB(max_t=MAX_T, reduction_factor=3), tmp_path, samples=14, concurrent=9)
    assert check(searcher, results, 14) > 0
    assert set(searcher.observations()["status"]) >= {"finished", "stopped"}
    assert searcher._optimizer.observations.max_t == "auto"


def test_median_stopping(tmp_path):
    """One after another, the good ones first: the bad ones are worse than the median of what came before."""
    good = [{"model": {"kind": "a", "x": 0.3 + 0.01 * k}} for k in range(2)]
    bad = [{"model": {"kind": "b", "x": 1.0 - 0.01 * k, "rate": 1e-3}} for k in range(3)]
    searcher = TreeSearcher(seed=0, max_t=MAX_T, num_initial=5, points_to_evaluate=good + bad)
    rule = MedianStoppingRule(time_attr="training_iteration", grace_period=2, min_samples_required=2)
    results = fit(searcher, rule, tmp_path, samples=8, concurrent=1)
    assert check(searcher, results, 8) >= 3
    lengths = {json.dumps(result.config): result.metrics["training_iteration"] for result in results}
    assert [lengths[json.dumps(point)] for point in good] == [MAX_T] * 2
    assert all(lengths[json.dumps(point)] < MAX_T for point in bad)


def chosen_length(config):
    steps = max(1, round(MAX_T * config["beta"]))
    tune.report({"loss": curve(config, steps)})


def test_the_searcher_chooses_the_fidelity(tmp_path):
    searcher = TreeSearcher(seed=0, fidelity_key="beta", num_initial=5)
    results = fit(searcher, None, tmp_path, chosen_length, samples=10)
    assert len({round(result.config["beta"], 3) for result in results}) > 1
    assert all(trial.cost is not None for trial in searcher._optimizer)
    assert "beta" not in searcher.recommend().config
