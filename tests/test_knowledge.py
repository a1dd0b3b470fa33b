"""The knowledge gradient: the exact height of an envelope of lines, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from raytree.acquisition.improvement import log_ei
from raytree.acquisition.knowledge import log_gain, log_knowledge_gradient, log_rate


def by_quadrature(heights, slopes):
    """E[max(heights + slopes Z)] - max heights, on a fine grid."""
    z = np.linspace(-12.0, 12.0, 400_001)
    top = np.max(heights[:, None] + slopes[:, None] * z, axis=0)
    return float(np.sum((top - heights.max()) * norm.pdf(z)) * (z[1] - z[0]))


@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_the_gain_is_the_integral_over_the_upper_envelope(k):
    rng = np.random.default_rng(k)
    for _ in range(20):
        heights, slopes = rng.normal(size=k), rng.normal(size=k)
        assert np.exp(log_gain(heights, slopes)) == pytest.approx(by_quadrature(heights, slopes), rel=1e-6, abs=1e-9)


def test_many_sets_at_a_time_are_the_sets_one_by_one():
    rng = np.random.default_rng(0)
    heights, slopes = rng.normal(size=(4, 5, 9)), rng.choice([-1.0, 0.0, 0.5, 2.0], size=(4, 5, 9))
    together = log_gain(heights, slopes)
    assert together.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        assert together[i, j] == log_gain(heights[i, j], slopes[i, j])
        assert np.exp(together[i, j]) == pytest.approx(by_quadrature(heights[i, j], slopes[i, j]), rel=1e-6)


def test_order_and_doubles_of_lines_do_not_matter():
    rng = np.random.default_rng(1)
    heights, slopes = rng.normal(size=12), rng.normal(size=12)
    order = rng.permutation(12)
    value = log_gain(heights, slopes)
    assert log_gain(heights[order], slopes[order]) == pytest.approx(float(value), rel=1e-12)
    assert log_gain(np.tile(heights, 2), np.tile(slopes, 2)) == pytest.approx(float(value), rel=1e-12)
    assert log_gain(heights + 5.0, slopes) == pytest.approx(float(value), rel=1e-9)
    assert log_gain(heights, slopes + 5.0) == pytest.approx(float(value), rel=1e-9)  # E[5 Z] = 0


def test_lines_of_one_slope_gain_nothing_and_extremes_stay_finite():
    assert log_gain(np.array([0.0, 1.0, 1.0]), np.full(3, 0.7)) == -np.inf
    assert log_gain(np.array([0.0]), np.array([1.0])) == -np.inf
    far = log_gain(np.array([0.0, -1.0]), np.array([0.0, 1e-3]))  # a thousand deviations away
    assert np.isfinite(far)
    assert far < -1e5
    steep = log_gain(np.array([0.0, -1.0]), np.array([0.0, 1e12]))
    assert steep == pytest.approx(np.log(1e12) + norm.logpdf(0.0), rel=1e-6)


def test_where_only_the_new_row_moves_it_is_expected_improvement():
    means, mean, sd = np.array([0.3, 0.0, 1.0]), np.array([0.5, -0.2, 0.0]), np.array([0.4, 0.3, 1e-3])
    gain = log_knowledge_gradient(means, np.zeros((3, 3, 1)), mean, sd[:, None])
    np.testing.assert_allclose(gain[:, 0], log_ei(mean, sd, 0.0), rtol=1e-9)


def test_knowledge_gradient_of_a_gaussian_process_against_simulated_evaluations():
    """Draws the evaluation, conditions by the textbook formula, and takes the lowest mean each time."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(5, 5))
    covariance, means = A @ A.T / 5.0, 0.3 * rng.normal(size=5)  # of four targets that may be recommended, and a row's
    noise = 0.5
    variance = covariance[4, 4] + noise
    y = means[4] + np.sqrt(variance) * rng.normal(size=200_000)
    after = means[None, :] + np.outer((y - means[4]) / variance, covariance[:, 4])
    expected = means[:4].min() - after.min(axis=1)
    moves = covariance[:, 4] / np.sqrt(variance)
    gain = log_knowledge_gradient(means[:4], moves[:4, None, None], means[4:], moves[4:, None])[0, 0]
    assert np.exp(gain) == pytest.approx(expected.mean(), abs=4.0 * expected.std() / np.sqrt(len(y)))


def test_a_second_look_at_the_leader_can_be_worth_more_than_a_new_row():
    """The leader is uncertain and the next one is close: the sign of the gain's parts is right."""
    means = np.array([0.0, 0.05])
    of_leader = log_knowledge_gradient(means, np.array([0.5, 0.0]).reshape(2, 1, 1), np.zeros(1), np.array([[0.5]]))
    elsewhere = log_knowledge_gradient(means, np.zeros((2, 1, 1)), np.ones(1), np.array([[0.5]]))
    assert of_leader[0, 0] > elsewhere[0, 0]


def test_evaluations_that_move_everything_alike_are_worth_nothing():
    """What a seed does to all configurations says nothing about which one to recommend."""
    alike = log_knowledge_gradient(np.array([0.0, 0.1]), np.full((2, 1, 1), 0.8), np.array([0.2]), np.array([[0.8]]))
    assert alike[0, 0] == -np.inf


def test_several_noisy_evaluations_are_begun_where_one_alone_is_worth_nothing():
    means, moves = np.array([0.0]), np.zeros((1, 2, 1))
    mean, sd, rho = np.array([1.0, 1.0]), 1.0, np.array([[0.2], [1.0]])
    one = log_knowledge_gradient(means, moves, mean, sd * rho)
    rate = log_rate(means, moves, mean, sd * rho, rho)
    assert rate[0, 0] > one[0, 0] + 2.0  # noisy: eight together are worth more than eight times one
    assert rate[1, 0] == pytest.approx(one[1, 0])  # without noise one evaluation says it all
    four = log_ei(mean[:1], np.array([sd * 0.2 / np.sqrt(0.04 + 0.96 / 4)]), 0.0)[0] - np.log(4.0)
    assert log_rate(means, moves, mean, sd * rho, rho, repeats=(4,))[0, 0] == pytest.approx(four)
