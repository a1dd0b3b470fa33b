"""Schedulers that stop and pause trials, on a real local Ray: stopped trials teach at the fidelity they got to."""

from __future__ import annotations

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


def fit(searcher, scheduler, tmp_path, trainable=objective, samples=8):
    limited = ConcurrencyLimiter(searcher, max_concurrent=4)
    return tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=samples, search_alg=limited, scheduler=scheduler, reuse_actors=True
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=str(tmp_path), name="run"),
    ).fit()


def check(searcher, results, samples):
    """Every trial is known once, and what it reported last is what it is remembered for."""
    assert len(results) == samples
    optimizer = searcher._optimizer
    assert optimizer._failures == 0
    assert len(optimizer.observations) == samples
    last = {result.metrics["trial_id"]: result.metrics for result in results if result.metrics and not result.error}
    for trial in optimizer:
        if trial.id in last:
            assert trial.t == last[trial.id]["training_iteration"]
            assert trial.value == pytest.approx(last[trial.id]["loss"])
    assert searcher.recommend() is not None


@pytest.mark.parametrize("searcher_class", [TreeSearcher, CondKernelSearcher])
def test_asha_with_failing_trials(searcher_class, tmp_path):
    searcher = searcher_class(seed=0, max_t=MAX_T, num_initial=5)
    scheduler = ASHAScheduler(max_t=MAX_T, grace_period=1, reduction_factor=3)
    results = fit(searcher, scheduler, tmp_path, failing, samples=12)
    check(searcher, results, 12)
    reached = {trial.t for trial in searcher._optimizer if trial.t is not None}
    assert len(reached) > 1  # some were stopped
    curves = searcher._optimizer._data()
    assert len(curves.losses) > len(reached)
    assert curves.rows[:, -1].min() < 0.1
    assert curves.rows[:, -1].max() == 1.0
    # What this experiment found warms up another one: triplets of configuration, value and t.
    second = searcher_class(space=SPACE, metric="loss", mode="min", seed=1, max_t=MAX_T, num_initial=5)
    second.add_evaluated_trials(results)
    found = {trial.point: (trial.value, trial.t) for trial in second._optimizer if trial.value is not None}
    assert found == {trial.point: (trial.value, trial.t) for trial in searcher._optimizer if trial.value is not None}
    second.suggest("next")
    assert second._optimizer._failures == 0
    assert second._optimizer._fitted_to == len(found)


def test_hyperband(tmp_path):
    searcher = TreeSearcher(seed=0, max_t=MAX_T, num_initial=5)
    check(searcher, fit(searcher, HyperBandScheduler(max_t=MAX_T, reduction_factor=3), tmp_path), 8)


def test_hyperband_for_bohb_announces_itself(tmp_path):
    searcher = TreeSearcher(seed=0, num_initial=5)
    results = fit(searcher, HyperBandForBOHB(max_t=MAX_T, reduction_factor=3), tmp_path)
    assert len(results) == 8
    assert set(searcher.observations()["status"]) == {"finished", "stopped"}
    assert searcher._optimizer.observations.max_t == "auto"
    assert searcher._optimizer._failures == 0


def test_median_stopping(tmp_path):
    searcher = TreeSearcher(seed=0, max_t=MAX_T, num_initial=5)
    check(searcher, fit(searcher, MedianStoppingRule(grace_period=2, min_samples_required=2), tmp_path), 8)


def chosen_length(config):
    steps = max(1, round(MAX_T * config["beta"]))
    tune.report({"loss": curve(config, steps)})


def test_the_searcher_chooses_the_fidelity(tmp_path):
    searcher = TreeSearcher(seed=0, fidelity_key="beta", num_initial=5)
    results = fit(searcher, None, tmp_path, chosen_length, samples=10)
    assert len({round(result.config["beta"], 3) for result in results}) > 1
    assert all(trial.cost is not None for trial in searcher._optimizer)
    assert "beta" not in searcher.recommend().config
