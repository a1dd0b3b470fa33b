"""Hyperparameters: the ensemble behind answers, against densities whose moments are known."""

from __future__ import annotations

import numpy as np
import pytest

from raytree import TreeOptimizer
from raytree.gp import inference
from raytree.space import Float
from raytree.store import Data
from raytree.strategies.fitted import Alone, Scaled

BOUNDS = np.tile([-50.0, 50.0], (3, 1))


def normal(center, precision, level):
    """Minus the log of a normal density of two parameters, whose height depends on the noise (the first) through `level`."""

    def objective(theta):
        apart = theta[1:] - center
        value, slope = level(theta[0])
        return 0.5 * apart @ precision @ apart + value, np.concatenate([[slope], precision @ apart])

    return objective


def test_draws_at_a_level_have_the_moments_of_a_normal_posterior(monkeypatch):
    monkeypatch.setattr(inference, "DRAWS", 4000)
    precision = np.array([[4.0, 1.0], [1.0, 2.0]])
    objective = normal(np.array([1.0, -2.0]), precision, lambda noise: (100.0 * (noise - np.log(0.1)) ** 2, 0.0))
    found = inference.ensemble(objective, np.array([np.log(0.1), 0.0, 0.0]), BOUNDS, 0, np.random.default_rng(0))
    thetas = np.array([member.theta for member in found])
    assert np.allclose(thetas[:, 0], np.log(0.1))
    assert np.allclose(thetas[:, 1:].mean(axis=0), [1.0, -2.0], atol=0.05)
    assert np.allclose(np.cov(thetas[:, 1:].T), np.linalg.inv(precision), atol=0.03)


def test_levels_weigh_as_much_as_their_evidence():
    wide, narrow = np.diag([1.0, 1.0]), np.diag([100.0, 100.0])

    def objective(theta):  # the same height everywhere; above 0.05 it is a hundred times as wide
        precision = wide if theta[0] > np.log(0.05) else narrow
        return normal(np.zeros(2), precision, lambda noise: (0.0, 0.0))(theta)

    found = inference.ensemble(objective, np.array([np.log(0.1), 0.3, 0.3]), BOUNDS, 0, np.random.default_rng(0))
    by_level: dict[float, float] = {}
    for theta, weight in found:
        by_level[round(float(np.exp(theta[0])), 6)] = by_level.get(round(float(np.exp(theta[0])), 6), 0.0) + weight
    assert sum(by_level.values()) == pytest.approx(1.0)
    assert set(by_level) == {0.1, 0.3, 1.0, 3.0}  # the narrow ones have a hundredth of the volume each
    assert all(weight == pytest.approx(0.25) for weight in by_level.values())


def test_an_optimum_at_which_every_matrix_breaks_down_is_all_there_is():
    def broken(theta):
        raise np.linalg.LinAlgError

    found = inference.ensemble(broken, np.zeros(3), BOUNDS, 0, np.random.default_rng(0))
    assert len(found) == 1
    assert found[0].weight == 1.0


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_what_is_recommended_is_as_uncertain_as_the_data_are(noise):
    """Without noise the recommended value is the one that was seen; with noise the truth is within two deviations mostly."""
    inside = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        optimizer = TreeOptimizer({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}, seed=seed)
        for x, y in rng.random((25, 2)):
            optimizer.give({"x": x, "y": y}, np.sin(5 * x) + (y - 0.4) ** 2 + noise * rng.normal())
        answer = optimizer.recommend()
        truth = np.sin(5 * answer.config["x"]) + (answer.config["y"] - 0.4) ** 2
        if noise:
            inside += abs(truth - answer.value) < 2 * answer.sd
            assert answer.sd > 0.02
        else:
            inside += abs(truth - answer.value) < 1e-3
            assert answer.sd < 0.01
    assert inside >= 8


def test_a_path_alone_is_estimated_when_the_schedule_says_so_and_from_its_first_observations():
    rows = np.random.default_rng(0).random((40, 2))
    data = Data(rows, rows[:, 0], [()] * 40, [None] * 40, np.arange(40), np.zeros(40, dtype=bool))
    calls = []

    def likely(first, scales):
        assert set(scales) == {"straight"}
        calls.append(len(first.losses))
        return Scaled("straight", None, None, first.losses)

    alone = Alone("robust", 10)
    found = {n: alone.estimate(data.at(range(n)), "straight", likely).theta for n in [*range(1, 41), 24, 25]}
    assert calls == [*range(1, 21), 22, 24, 26, 28, 30, 33, 36, 39]
    assert all(np.array_equal(theta, rows[: max(c for c in calls if c <= n), 0]) for n, theta in found.items())
    alone.estimate(data._replace(losses=data.losses + 1.0), "straight", likely)  # other values
    assert calls[-1] == 39
    assert len(calls) == 29
