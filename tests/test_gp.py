"""Building blocks: factorisation, kernels, priors, expected improvement."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process.kernels import Matern

from raytree.acquisition.improvement import log_ei, log_ei_at, log_h
from raytree.gp import linalg
from raytree.gp.inference import fit
from raytree.gp.kernels import matern52, squared_differences
from raytree.gp.priors import normal


def random_covariance(rng, n):
    X = rng.random((n, 3))
    return matern52(squared_differences(X, X, np.zeros(3, bool)).sum(0) / 0.3)[0] + 1e-4 * np.eye(n)


def test_cholesky_and_solves_against_numpy():
    rng = np.random.default_rng(0)
    K = random_covariance(rng, 30)
    K.setflags(write=False)
    L = linalg.cholesky(K)
    b = rng.normal(size=(30, 2))
    np.testing.assert_allclose(L, np.linalg.cholesky(K), atol=1e-12)
    np.testing.assert_allclose(linalg.solve(L, b), np.linalg.solve(K, b), rtol=1e-7)
    assert linalg.log_det(L) == pytest.approx(np.linalg.slogdet(K)[1])


def test_appending_rows_equals_factorising_again():
    K = random_covariance(np.random.default_rng(1), 25)
    for n in (0, 1, 10, 24):
        grown = linalg.append(linalg.cholesky(K[:n, :n]), K[:n, n:], K[n:, n:])
        np.testing.assert_allclose(grown, linalg.cholesky(K), atol=1e-10)


def test_the_jitter_ladder_saves_singular_matrices_and_refuses_others():
    assert np.isfinite(linalg.cholesky(np.ones((5, 5)))).all()
    np.testing.assert_allclose(linalg.cholesky(np.ones((5, 5))) @ linalg.cholesky(np.ones((5, 5))).T, 1.0, atol=1e-6)
    with pytest.raises(np.linalg.LinAlgError):
        linalg.cholesky(-np.eye(3))


def test_matern_equals_scikit_learns():
    rng = np.random.default_rng(2)
    X, lengths = rng.random((12, 3)), np.array([0.3, 1.0, 2.0])
    squared = squared_differences(X, X, np.zeros(3, bool))
    ours = matern52(np.einsum("kij,k->ij", squared, lengths**-2.0))[0]
    np.testing.assert_allclose(ours, Matern(lengths, nu=2.5)(X), atol=1e-12)


def test_kernel_slope_is_minus_twice_the_derivative():
    r2 = np.linspace(0.01, 9, 50)
    step = 1e-6
    numeric = -2 * (matern52(r2 + step)[0] - matern52(r2 - step)[0]) / (2 * step)
    np.testing.assert_allclose(matern52(r2)[1], numeric, rtol=1e-6)


def test_rows_that_are_there_already_can_be_appended():
    """What they add is rounding errors: without a jitter of the size of the variances there is no factor, and no suggestion."""
    rng = np.random.default_rng(0)
    rows = rng.random((256, 3))
    again = rows[:128] + 1e-9 * rng.random((128, 3))

    def covariance(a, b):
        return 50.0 * matern52((((a[:, None] - b[None]) / 3.0) ** 2).sum(axis=-1))[0]

    noise, both = 1e-13, np.vstack([rows, again])
    first, last = covariance(rows, rows) + noise * np.eye(256), covariance(again, again) + noise * np.eye(128)
    grown = linalg.append(linalg.cholesky(first), covariance(rows, again), last)
    np.testing.assert_allclose(grown @ grown.T, covariance(both, both), atol=1e-7)


def test_categories_differ_by_one_whatever_their_codes():
    squared = squared_differences(np.array([[0.1], [0.5]]), np.array([[0.1], [0.9]]), np.array([True]))
    assert squared[0].tolist() == [[0.0, 1.0], [1.0, 1.0]]


def test_prior_gradient():
    theta, mean, sd = np.array([0.3, -2.0]), np.array([0.0, 1.0]), np.array([0.5, 2.0])
    value, gradient = normal(theta, mean, sd)
    assert value == pytest.approx(-norm.logpdf(theta, mean, sd).sum() - np.log(np.sqrt(2 * np.pi) * sd).sum())
    for k in range(2):
        step = np.eye(2)[k] * 1e-6
        assert gradient[k] == pytest.approx((normal(theta + step, mean, sd)[0] - normal(theta - step, mean, sd)[0]) / 2e-6)


def test_a_map_fit_is_never_worse_than_its_start_even_when_the_matrix_breaks():
    def cliff(x):
        if x[0] < 1.0:
            raise np.linalg.LinAlgError
        return float(x @ x), 2 * x

    best, value = fit(cliff, np.array([3.0, 1.0]), np.array([[-5.0, 5.0]] * 2), 50)
    assert 1.0 <= best[0] <= 3.0
    assert value <= 10.0


@pytest.mark.parametrize("xi", [-1e8, -1e4, -1000.5, -999.5, -300.0, -40.0, -5.0, -1.0001, -0.9999, -0.1, 0.0, 1.0, 30.0, 1e6])
def test_log_h_against_many_digits(xi):
    with mpmath.workdps(60):
        x = mpmath.mpf(xi)
        if xi < -50:  # the exact value underflows any number of digits: Mills' ratio to four terms
            exact = (
                -(x**2) / 2
                - mpmath.log(2 * mpmath.pi) / 2
                - 2 * mpmath.log(-x)
                + mpmath.log(1 - 3 / x**2 + 15 / x**4 - 105 / x**6)
            )
        else:
            exact = mpmath.log(mpmath.npdf(x) + x * mpmath.ncdf(x))
    assert float(log_h(np.array(xi))) == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


def test_log_ei_is_finite_and_monotone_over_two_hundred_decades():
    means = np.concatenate([-np.logspace(100, -100, 400), np.logspace(-100, 100, 400)])
    values = log_ei(means, np.ones_like(means), 0.0)
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 0).all()
    for mean in means[::20]:
        value, gradient = log_ei_at(float(mean), 1.0, np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.0)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_ei_against_monte_carlo_and_its_slopes_against_differences():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.4, 0.7, 4_000_000)
    assert np.exp(log_ei(np.array(0.4), np.array(0.7), 0.1)) == pytest.approx(np.maximum(0, 0.1 - draws).mean(), rel=3e-3)
    for mean, sd in [(0.4, 0.7), (5.0, 0.2), (-3.0, 1.0), (50.0, 0.5)]:
        value, (by_mean, by_sd) = log_ei_at(mean, sd, np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.1)

        def at(m, s):
            return float(log_ei(np.array(m), np.array(s), 0.1))

        h = 1e-6
        assert value == pytest.approx(at(mean, sd))
        assert by_mean == pytest.approx((at(mean + h, sd) - at(mean - h, sd)) / (2 * h), rel=1e-4)
        assert by_sd == pytest.approx((at(mean, sd + h) - at(mean, sd - h)) / (2 * h), rel=1e-4)
