"""Seed by seed: the hierarchical model, max-value entropy, batches, realizations, the optimizer (Moss et al. 2020)."""

from __future__ import annotations

import importlib
import itertools
import logging
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import helmert

from raytree import BOSHOptimizer, Optimizer, Space, TreeOptimizer, state
from raytree.acquisition.entropy import exact_maxima, gibbon, gumbel_maxima, hazard, mes, mumbo
from raytree.errors import ConfigurationError, SettingError, SpaceError, StateError
from raytree.models.hierarchical import FRESH, LEVEL, HierarchicalGP
from raytree.models.inputs import Inputs
from raytree.objectives import HGPDraw
from raytree.optimizers.bosh import PAPER
from raytree.space import Categorical, Float, Integer
from raytree.strategies.fitted import MOST_KNOWN
from tests.spaces import LAYERS, MODELS

FLAT = Space({"x": Float(0, 1), "y": Float(0, 1)})


def model_of(space, rng, n=20, seeds=4):
    rows = space.sample(rng, n)
    model = HierarchicalGP(
        space, Inputs(space, "hamming", True, 2, 0), rows, rng.normal(size=n), space.paths_of(rows), rng.integers(seeds, size=n)
    )
    theta = model._mean + 0.3 * rng.normal(size=len(model._mean))
    theta[0] = np.log(0.02)
    return model, theta, rows


def slow(model, theta, a, b):
    """Covariances of (kind, row, seed) triples, one by one; a kind is "g" or "f"."""
    target, deviation, offset = np.exp(theta[1:4])
    out = np.zeros((len(a), len(b)))
    for (i, (kind_a, x, s)), (j, (kind_b, z, t)) in itertools.product(enumerate(a), enumerate(b)):
        u, v = model.inputs(np.array([x, z]))
        scale = np.exp(theta[4:])[np.array(model.inputs.length)]
        r = math.sqrt(5 * np.sum(((u - v) / scale) ** 2))
        correlation = (1 + r + r * r / 3) * math.exp(-r) if model.space.path_of(x) == model.space.path_of(z) else 0.0
        out[i, j] = LEVEL + target * correlation
        if kind_a == kind_b == "f" and s == t:
            out[i, j] += deviation * correlation + offset
    return out


# The model


@pytest.mark.parametrize("structure", [{"x": Float(0, 1), "y": Float(0, 1)}, MODELS, LAYERS], ids=["flat", "models", "layers"])
def test_posterior_of_target_and_realizations_equals_the_dense_gaussian_process(structure):
    space, rng = Space(structure), np.random.default_rng(0)
    model, theta, rows = model_of(space, rng)
    data = [("f", row, s) for row, s in zip(rows, model.seeds, strict=True)]
    K = slow(model, theta, data, data) + np.exp(theta[0]) * np.eye(len(rows))
    posterior = model.posterior(theta)
    for row in space.sample(rng, 4):
        seeds = [0, 2, FRESH]
        asked = [("g", row, None), *(("f", row, s) for s in seeds)]
        cross = slow(model, theta, asked, data)
        mean = cross @ np.linalg.solve(K, model.y)
        covariance = slow(model, theta, asked, asked) - cross @ np.linalg.solve(K, cross.T)
        joint = posterior.evaluations(space.path_of(row), row[None], seeds)
        assert joint.mean[0] == pytest.approx(mean[0], abs=1e-8)
        assert joint.sd[0] ** 2 == pytest.approx(covariance[0, 0], abs=1e-8)
        np.testing.assert_allclose(joint.variance[0], np.diag(covariance)[1:] + np.exp(theta[0]), atol=1e-8)
        np.testing.assert_allclose(joint.covariance[0], covariance[0, 1:], atol=1e-8)
        assert posterior.predict(space.path_of(row), row[None]).mean[0] == pytest.approx(mean[0], abs=1e-8)
    targets = [("g", row, None) for row in rows]
    np.testing.assert_allclose(
        posterior.target_means(), slow(model, theta, targets, data) @ np.linalg.solve(K, model.y), atol=1e-8
    )
    places = space.sample(rng, 6)
    asked = [("g", row, None) for row in places]
    cross = slow(model, theta, asked, data)
    mean, covariance = posterior.joint(places, space.paths_of(places))
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, model.y), atol=1e-8)
    np.testing.assert_allclose(covariance, slow(model, theta, asked, asked) - cross @ np.linalg.solve(K, cross.T), atol=1e-8)


@pytest.mark.parametrize("structure", [{"x": Float(0, 1), "y": Float(0, 1)}, MODELS], ids=["flat", "models"])
def test_the_target_of_a_finite_pool_is_the_mean_of_its_evaluations(structure):
    """Against a Gaussian process over every pair of place and realization, noise frozen into each of them."""
    space, rng, p = Space(structure), np.random.default_rng(4), 3
    places = space.sample(rng, 5)
    rows, seeds = places[[0, 0, 1, 2, 2, 2, 3]], [0, 2, 1, 0, 1, 2, 0]
    inputs = Inputs(space, "hamming", True, 2, 0)
    model = HierarchicalGP(space, inputs, rows, rng.normal(size=7), space.paths_of(rows), seeds, pool=p)
    theta = model._mean.copy()
    theta[0] = np.log(0.3)
    pairs = [("f", row, s) for row in places for s in range(p)]
    every = slow(model, theta, pairs, pairs) + np.exp(theta[0]) * np.eye(len(pairs))
    seen = [p * place + s for place, s in zip([0, 0, 1, 2, 2, 2, 3], seeds, strict=True)]
    averages = np.repeat(np.eye(5), p, axis=1) / p
    gain = every[:, seen] @ np.linalg.inv(every[np.ix_(seen, seen)])
    mean, covariance = gain @ model.y, every - gain @ every[seen]
    posterior = model.posterior(theta)
    np.testing.assert_allclose(posterior.target_means(), (averages @ mean)[[0, 0, 1, 2, 2, 2, 3]], atol=1e-8)
    assert posterior.target_means()[3] == pytest.approx(np.mean(model.y[3:6]), abs=1e-8)  # tried on all: known exactly
    among = posterior.among(np.array([0, 2, 6]))
    np.testing.assert_allclose(among.mean, (averages @ mean)[[0, 1, 3]], atol=1e-8)
    deviations = np.sqrt(np.maximum(np.diag(averages @ covariance @ averages.T), 0.0))
    np.testing.assert_allclose(among.sd, deviations[[0, 1, 3]], atol=1e-8)
    for k in (1, 3, 4):  # places that were tried on one realization, or on none
        path, row = space.path_of(places[k]), places[k][None]
        prediction, joint = posterior.predict(path, row), posterior.evaluations(path, row, [2], among)
        assert prediction.mean[0] == pytest.approx((averages @ mean)[k], abs=1e-8)
        assert prediction.sd[0] == pytest.approx(deviations[k], abs=1e-8)
        at = p * k + 2
        assert joint.variance[0, 0] == pytest.approx(covariance[at, at], abs=1e-8)
        assert joint.covariance[0, 0] == pytest.approx((averages @ covariance)[k, at], abs=1e-8)
        np.testing.assert_allclose(joint.elsewhere[:, 0, 0], (averages @ covariance)[[0, 1, 3], at], atol=1e-8)


@pytest.mark.parametrize("structure", [{"x": Float(0, 1), "y": Float(0, 1)}, MODELS], ids=["flat", "models"])
def test_an_evaluation_moves_the_target_elsewhere_as_the_dense_gaussian_process_says(structure):
    space, rng = Space(structure), np.random.default_rng(2)
    model, theta, rows = model_of(space, rng)
    data = [("f", row, s) for row, s in zip(rows, model.seeds, strict=True)]
    K = slow(model, theta, data, data) + np.exp(theta[0]) * np.eye(len(rows))
    posterior, which = model.posterior(theta), np.array([1, 4, 11])
    row = space.sample(rng, 1)
    asked = [*(("g", rows[k], None) for k in which), *(("f", row[0], s) for s in (0, 3, FRESH))]
    cross = slow(model, theta, asked, data)
    covariance = slow(model, theta, asked, asked) - cross @ np.linalg.solve(K, cross.T)
    joint = posterior.evaluations(space.path_of(row[0]), row, [0, 3, FRESH], posterior.among(which))
    np.testing.assert_allclose(joint.elsewhere[:, 0], covariance[:3, 3:], atol=1e-8)


def test_a_fully_crossed_design_decouples_by_the_helmert_transform():
    rng = np.random.default_rng(1)
    m, s = 7, 4
    places = rng.random((m, 2))
    rows, seeds = np.repeat(places, s, axis=0), np.tile(np.arange(s), m)
    y = rng.normal(size=m * s)
    model = HierarchicalGP(FLAT, Inputs(FLAT, "hamming", True, 2, 0), rows, y, [()] * len(rows), seeds)
    theta = model._mean.copy()
    theta[0] = np.log(0.03)
    noise, target, deviation, offset = np.exp(theta[:4])
    R = model.correlation(theta, places, places, np.ones((m, m), bool))
    rotated = y.reshape(m, s) @ helmert(s, full=True).T
    expected = 0.0
    for k in range(s):
        K = (s * target * (k == 0) + deviation) * R + offset + s * LEVEL * (k == 0) + noise * np.eye(m)
        expected -= stats.multivariate_normal(np.zeros(m), K).logpdf(rotated[:, k])
    value, _ = model.negative_log_posterior(theta)
    penalty = 0.5 * np.sum(((theta - model._mean) / model._sd) ** 2)
    assert value - penalty == pytest.approx(expected, abs=1e-8)


def test_evidence_of_seeds_is_a_ratio_of_densities():
    model, theta, rows = model_of(FLAT, np.random.default_rng(5))
    data = [("f", row, s) for row, s in zip(rows, model.seeds, strict=True)]
    with_seeds = slow(model, theta, data, data) + np.exp(theta[0]) * np.eye(len(rows))
    target = slow(model, theta, [("g", row, None) for row in rows], data)
    without = target + np.exp(theta[[0, 2, 3]]).sum() * np.eye(len(rows))
    densities = [stats.multivariate_normal(np.zeros(len(rows)), K).logpdf(model.y) for K in (with_seeds, without)]
    assert model.evidence_of_seeds(theta) == pytest.approx(densities[0] - densities[1], abs=1e-3)


def test_gradient_of_the_likelihood():
    for structure in (MODELS, {"x": Float(0, 1), "k": Integer(1, 9)}):
        model, theta, _ = model_of(Space(structure), np.random.default_rng(2))
        _, gradient = model.negative_log_posterior(theta)
        for k in range(len(theta)):
            step = 1e-5 * np.eye(len(theta))[k]
            numeric = (model.negative_log_posterior(theta + step)[0] - model.negative_log_posterior(theta - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-5)


def test_running_trials_shrink_variances_as_if_observed_and_move_no_mean():
    rng = np.random.default_rng(3)
    model, theta, rows = model_of(FLAT, rng)
    extra, seeds = FLAT.sample(rng, 3), [1, 9, 9]  # realization 9 is new
    posterior = model.posterior(theta)
    grown = posterior.condition(extra, [()] * 3, seeds)
    again = HierarchicalGP(
        FLAT, model.inputs, np.vstack([rows, extra]), np.zeros(23), [()] * 23, np.concatenate([model.seeds, seeds])
    ).posterior(theta)
    test = FLAT.sample(rng, 5)
    before, after, oracle = (p.evaluations((), test, [1, 9, FRESH]) for p in (posterior, grown, again))
    np.testing.assert_allclose(after.mean, before.mean, atol=1e-10)
    np.testing.assert_allclose(after.variance, oracle.variance, atol=1e-8)
    np.testing.assert_allclose(after.covariance, oracle.covariance, atol=1e-8)
    np.testing.assert_allclose(after.sd, oracle.sd, atol=1e-8)


def test_variances_of_target_deviation_offset_and_noise_are_told_apart():
    rng = np.random.default_rng(4)
    space = Space({"x": Float(0, 1)})
    x = rng.random(120)
    seeds = rng.integers(8, size=120)
    offsets = 0.7 * rng.normal(size=8)
    y = np.sin(9 * x) + offsets[seeds] + 0.01 * rng.normal(size=120)
    y = (y - y.mean()) / y.std()
    model = HierarchicalGP(space, Inputs(space, "hamming", True, 2, 0), x[:, None], y, [()] * 120, seeds)
    noise, target, deviation, offset = np.exp(model.fit(None, 100).theta[:4])
    assert offset > 10 * deviation
    assert offset > 100 * noise
    assert target > offset / 10


def test_offsets_do_not_stand_in_for_the_level_of_the_target():
    """Mostly good values on two seeds that are alike: the level is not 0, and that says nothing about seeds."""
    rng = np.random.default_rng(5)
    x = np.append(rng.random(10), 0.5 + 0.02 * rng.random(50))
    y = np.where(np.abs(x - 0.5) < 0.1, -1.5, 3.0) + 0.05 * rng.normal(size=60)
    model = HierarchicalGP(
        Space({"x": Float(0, 1)}), Inputs(Space({"x": Float(0, 1)}), "hamming", True, 2, 0), x[:, None], y, [()] * 60,
        rng.integers(2, size=60),
    )  # fmt: skip
    _, target, _, offset = np.exp(model.fit(None, 100).theta[:4])
    assert offset < 0.1 * target


# Entropy


def test_mumbo_against_monte_carlo_mutual_information():
    rng = np.random.default_rng(5)
    for rho, gamma in ((0.3, 0.5), (0.8, -1.0), (0.8, 1.5), (0.95, 0.0)):
        g = rng.normal(size=4_000_000)
        y = rho * g + math.sqrt(1 - rho**2) * rng.normal(size=len(g))
        counts, edges = np.histogram(y[g < gamma], 400)
        share = counts[counts > 0] / counts.sum()
        entropy = -np.sum(share * np.log(share / (edges[1] - edges[0])))
        assert mumbo(np.array(rho), np.array(gamma)) == pytest.approx(0.5 * math.log(2 * math.pi * math.e) - entropy, abs=0.01)


def test_mumbo_against_fine_quadrature_up_to_almost_perfect_correlation():
    for rho, gamma in itertools.product((0.0, 0.2, 0.7, 0.95, 0.999), (-6.0, -2.0, 0.0, 1.0, 4.0, 7.0)):
        spread = math.sqrt(1 - rho**2)
        t = np.linspace(-20, 20, 2_000_001)
        log_w = stats.norm.logcdf((gamma - rho * t) / spread) - stats.norm.logcdf(gamma)
        density = np.exp(stats.norm.logpdf(t) + log_w)
        exact = 0.5 * rho**2 * gamma * float(hazard(np.array(gamma))) + np.sum(density * np.where(density > 0, log_w, 0)) * (
            t[1] - t[0]
        )
        assert mumbo(np.array(rho), np.array(gamma)) == pytest.approx(exact, abs=2e-4 if rho > 0.95 else 1e-6)


def test_gibbon_is_a_bound_and_both_have_their_limits():
    rho, gamma = np.meshgrid(np.linspace(0, 1 - 1e-12, 60), np.linspace(-5, 7, 60))
    lower, upper = gibbon(rho, gamma), mumbo(rho, gamma)
    assert np.all(lower <= upper + 2e-4)
    assert np.all(lower >= 0.72 * upper - 1e-6)
    small = np.full(20, 1e-3)
    across = np.linspace(-4, 4, 20)
    np.testing.assert_allclose(gibbon(small, across), mumbo(small, across), rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(mumbo(np.ones(20), across), mes(across))
    np.testing.assert_allclose(mumbo(np.full(20, 1 - 1e-7), across), mes(across), atol=2e-3)
    assert np.all(np.diff(upper, axis=1) > -1e-4)  # more correlation, more information
    np.testing.assert_allclose(mumbo(-rho, gamma), upper)


def test_numbers_that_break_naive_formulas():
    assert gibbon(np.array(1.0), np.array(10.0)) == pytest.approx(0.5 * 10 * stats.norm.pdf(10), rel=0.02)  # log1p, not log
    assert 0 < gibbon(np.array(0.5), np.array(30.0)) < 1e-100
    for gamma in (-40.0, -8.0, 8.0, 40.0):
        for rho in (0.0, 0.5, 1.0 - 1e-15, 1.0):
            for function in (gibbon, mumbo):
                value = function(np.array(rho), np.array(gamma))
                assert np.isfinite(value)
                assert value >= 0
    assert hazard(np.array(-40.0)) == pytest.approx(40.025, rel=1e-3)
    far = -np.logspace(0.5, 5, 40)
    assert np.all(np.diff(gibbon(np.full(40, 0.9), far)) > -1e-6)  # tends to -log(1 - rho^2) / 2
    assert gibbon(np.array(0.9), np.array(-1e5)) == pytest.approx(-0.5 * math.log(1 - 0.81), rel=1e-6)
    assert np.all(mes(far) > 0)
    assert gibbon(np.array(1.0), np.array(-20.0)) > gibbon(np.array(1.0), np.array(-5.0))  # not clamped


def test_sampled_maxima():
    rng = np.random.default_rng(6)
    x = np.linspace(0, 1, 40)
    covariance = np.exp(-((x[:, None] - x[None]) ** 2) / 0.02)
    mean = np.sin(6 * x)
    brute = rng.multivariate_normal(mean, covariance, 20000).max(axis=1)
    exact = exact_maxima(mean, covariance, 20000, rng)
    assert stats.ks_2samp(brute, exact).pvalue > 1e-3
    independent = (mean[:, None] + rng.normal(size=(40, 20000))).max(axis=0)
    gumbel = gumbel_maxima(mean, np.ones(40), 20000, rng)
    np.testing.assert_allclose(np.quantile(gumbel, [0.25, 0.5, 0.75]), np.quantile(independent, [0.25, 0.5, 0.75]), atol=0.05)
    assert np.isfinite(gumbel_maxima(np.zeros(3), np.full(3, 1e-10), 5, rng)).all()
    assert np.isfinite(exact_maxima(np.zeros(3), np.zeros((3, 3)), 5, rng)).all()


# The optimizer


def noisy(config, spread=0.3):
    """A bowl whose place and height depend on the seed a little."""
    rng = np.random.default_rng(config["seed"])
    shift, height = spread * 0.2 * rng.normal(), spread * rng.normal()
    return (config["x"] - 0.4 - shift) ** 2 + height


def run(optimizer, function, n, batch=1):
    while len(optimizer.observations) < n:
        for suggestion in [optimizer.ask() for _ in range(batch)]:
            optimizer.tell(suggestion.id, function(suggestion.config))
    return optimizer


def test_the_greedy_step_is_the_difference_of_the_joint_determinant():
    optimizer = run(BOSHOptimizer({"x": Float(0, 1)}, seed=0, acquisition="gibbon"), noisy, 12)
    strategy = optimizer.strategy
    fitted = strategy.fit()
    for _ in range(3):
        optimizer.ask()
    running = strategy.with_running(fitted.posterior)
    posterior, theta = fitted.posterior, fitted.posterior.theta
    pending = optimizer.pending
    row = np.array([0.77])
    batch = [("f", t.row[:1], s) for t, s in zip(pending, strategy.seeds.numbers(pending), strict=True)]
    data = [("f", r, s) for r, s in zip(posterior.model.X, posterior.seeds, strict=True)]
    K = slow(posterior.model, theta, data, data) + posterior.noise * np.eye(len(data))

    def log_det(members):
        cross = slow(posterior.model, theta, members, data)
        C = (
            slow(posterior.model, theta, members, members)
            - cross @ np.linalg.solve(K, cross.T)
            + posterior.noise * np.eye(len(members))
        )
        d = np.sqrt(np.diag(C))
        return np.linalg.slogdet(C / np.outer(d, d))[1]

    for seed in (0, 1):
        before, after = (p.evaluations((), row[None], [seed]).variance for p in (posterior, running))
        term = 0.5 * float(np.log(after / before)[0, 0])
        assert term == pytest.approx(0.5 * (log_det([*batch, ("f", row, seed)]) - log_det(batch)), abs=1e-6)


def test_it_finds_the_best_of_the_target_where_the_best_trial_was_lucky():
    optimizer = run(BOSHOptimizer({"x": Float(0, 1)}, seed=1), noisy, 40)
    recommended = optimizer.recommend()
    assert recommended.config["x"] == pytest.approx(0.4, abs=0.08)
    assert "seed" not in recommended.config
    lucky = optimizer.observations.best()
    assert lucky.value < recommended.value - 0.05  # the luck of a seed
    view = optimizer.look(np.linspace(0, 1, 50)[:, None])
    assert view.rows[np.argmin(view.mean), 0] == pytest.approx(0.4, abs=0.08)
    assert view.acquisition.shape == (50, len(view.seeds))
    text = str(optimizer.explain())
    assert "realizations" in text
    assert "target_mean" in text


@pytest.mark.parametrize("structure", [MODELS, LAYERS], ids=["models", "layers"])
def test_conditional_spaces(structure):
    optimizer = BOSHOptimizer(structure, seed=0, num_initial=8)
    run(optimizer, lambda config: len(str({k: v for k, v in config.items() if k != "seed"})) + 0.1 * (config["seed"] % 7), 16, 2)
    assert len({str(trial.point) for trial in optimizer.observations}) == 16
    assert optimizer.recommend() is not None


def test_the_pool_grows_by_what_fresh_seeds_are_worth_and_stays_within_its_limit():
    used = {}
    for name, settings, spread in (("differ", {}, 0.3), ("limited", {"max_realizations": 3}, 0.3), ("alike", {}, 0.0)):
        optimizer = BOSHOptimizer({"x": Float(0, 1)}, seed=2, **settings)
        run(optimizer, lambda config, spread=spread: noisy(config, spread), 30)
        seeds = [trial.point[1] for trial in optimizer.observations]
        assert len(set(seeds[: optimizer.num_initial])) == 1  # places are told apart best on one seed
        assert all(isinstance(seed, int) and 0 <= seed < 2**31 for seed in seeds)
        used[name] = len(set(seeds))
    assert used["differ"] > 3
    assert used["limited"] == 3
    assert used["alike"] < used["differ"]


def rough(config, noise=0.3):
    """Steps whose luck depends on the step and the seed, as that of a training run does."""
    luck = np.random.default_rng([config["k"], config["seed"]]).normal()
    return 0.02 * (config["k"] - 12) ** 2 + noise * luck


def test_what_leads_is_tried_on_other_realizations_by_itself():
    optimizer = run(BOSHOptimizer({"k": Integer(0, 30)}, seed=1, realizations=range(5)), rough, 60)
    tried: dict[int, list[int]] = {}
    for trial in optimizer.observations:
        tried.setdefault(trial.point[0], []).append(trial.point[1])
    assert all(len(set(seeds)) == len(seeds) for seeds in tried.values())
    assert len(tried[optimizer.recommend().config["k"]]) >= 4  # of 5
    assert len(tried) > 12
    quiet = run(BOSHOptimizer({"k": Integer(0, 30)}, seed=1, realizations=range(5)), lambda c: rough(c, 0.0), 20)
    assert len({trial.point[0] for trial in quiet.observations}) >= 14  # little to average: little repeated


def test_a_configuration_tried_on_all_of_a_pool_is_known_by_its_mean():
    optimizer = run(BOSHOptimizer({"k": Integer(0, 30)}, seed=1, realizations=range(5), transform="linear"), rough, 60)
    recommended = optimizer.recommend()
    values = [trial.value for trial in optimizer.observations if trial.point[0] == recommended.config["k"]]
    assert len(values) == 5
    assert recommended.value == pytest.approx(np.mean(values), abs=1e-6)
    assert recommended.sd < 0.01


def test_without_an_effect_of_the_seed_it_is_as_good_as_the_tree():
    space = {"x": Float(0, 1), "y": Float(0, 1)}
    regrets = {}
    for make in (TreeOptimizer, BOSHOptimizer):
        found = []
        for seed in range(5):
            optimizer = run(make(space, seed=seed), lambda c: math.sin(6 * c["x"]) + (c["y"] - 0.6) ** 2 + 1.0, 22)
            best = optimizer.recommend().config
            found.append(math.sin(6 * best["x"]) + (best["y"] - 0.6) ** 2 + 1.0)
        regrets[make] = np.median(found)
    assert regrets[BOSHOptimizer] < max(2.0 * regrets[TreeOptimizer], 1e-3)


def test_of_very_many_trials_whole_configurations_are_kept():
    optimizer = BOSHOptimizer({"k": Integer(0, 200)}, seed=0, realizations=range(5))
    rng = np.random.default_rng(0)
    for k in rng.permutation(120).tolist():
        for seed in range(5):
            optimizer.give({"k": k, "seed": seed}, abs(k - 60) + 20 * rng.normal())
    kept = optimizer.strategy.inference.enough(optimizer.observations.losses())
    assert MOST_KNOWN // 2 <= len(kept.losses) <= MOST_KNOWN
    count: dict[float, int] = {}
    for row in kept.rows:
        count[row[0]] = count.get(row[0], 0) + 1
    assert set(count.values()) == {5}
    places = [round(201 * unit - 0.5) for unit in count]
    assert np.mean([abs(k - 60) < 15 for k in places]) > 0.4  # the best
    assert any(k < 20 for k in places)  # and some of the others


def test_what_was_tried_often_is_recommended_only_if_it_is_good():
    alone = BOSHOptimizer({"x": Float(0, 1)}, seed=0, realizations=[0])
    for x in [*np.linspace(0, 1, 15), 1.0, 1.0]:
        alone.give({"x": float(x), "seed": 0}, (x - 0.3) ** 2)
    assert alone.recommend().config["x"] == pytest.approx(0.3, abs=0.05)
    baseline = BOSHOptimizer({"x": Float(0, 1)}, seed=0)
    for k, x in enumerate([*np.linspace(0, 1, 15), 1.0, 1.0, 1.0]):
        baseline.give({"x": float(x), "seed": k % 4}, (x - 0.3) ** 2 + 1e-3 * (k % 4))
    assert baseline.recommend().config["x"] == pytest.approx(0.3, abs=0.05)


def test_a_lucky_trial_is_not_recommended_before_one_that_is_known():
    optimizer = BOSHOptimizer({"x": Float(0, 1)}, seed=0)
    rng = np.random.default_rng(3)
    for k, x in enumerate(rng.random(24)):
        optimizer.give({"x": float(x), "seed": k % 6}, 1.0 + 0.2 * rng.normal())
    for seed in range(6):
        optimizer.give({"x": 0.5, "seed": seed}, 0.6 + 0.2 * rng.normal())
    optimizer.give({"x": 0.9, "seed": 1}, 0.5)
    assert optimizer.recommend().config["x"] == pytest.approx(0.5, abs=0.1)


def test_a_finite_pool_of_realizations():
    optimizer = BOSHOptimizer({"k": Integer(1, 4)}, seed=0, seed_key="fold", realizations=[0, 1, 2], num_initial=3)
    seen = []
    while (suggestion := optimizer.ask()) is not None:
        seen.append((suggestion.config["k"], suggestion.config["fold"]))
        optimizer.tell(suggestion.id, suggestion.config["k"] + 0.1 * suggestion.config["fold"])
    assert sorted(seen) == sorted(itertools.product(range(1, 5), range(3)))  # every pair once, then the end
    assert optimizer.recommend().config == {"k": 1}
    limited = BOSHOptimizer({"k": Integer(1, 4)}, seed=0, realizations=range(10), max_realizations=2, num_initial=3)
    asked = []
    while (suggestion := limited.ask()) is not None:
        asked.append(str(suggestion.config))
        limited.fail(suggestion.id)
    assert len(asked) == len(set(asked)) == 8
    growing = BOSHOptimizer({"k": Integer(1, 3)}, seed=0, num_initial=3)
    pairs = [str(growing.ask().config) for _ in range(20)]
    assert len(set(pairs)) == 20  # where the pool is used up, it grows
    alone = run(BOSHOptimizer({"x": Float(0, 1)}, seed=0, realizations=[7]), noisy, 10)
    assert {alone.space.config(trial.point)["seed"] for trial in alone.observations} == {7}


def test_points_without_a_seed_are_on_the_first_realization():
    optimizer = BOSHOptimizer({"x": Float(0, 1)}, seed=3)
    initial = optimizer.strategy.seeds.first()
    optimizer.request({"x": 0.5})
    optimizer.request({"x": 0.5, "seed": 12})
    first, second, third = (optimizer.ask().config for _ in range(3))
    assert first == {"x": 0.5, "seed": initial}
    assert second == {"x": 0.5, "seed": 12}
    optimizer.give({"x": 0.1}, 0.3)
    assert optimizer.space.config(list(optimizer.observations)[-1].point)["seed"] == initial
    assert third["seed"] in {initial, 12}  # the design goes on with the seeds that are in use
    with pytest.raises(ConfigurationError):
        optimizer.request({"x": 0.5, "seed": -1})


@pytest.mark.parametrize("acquisition", ["knowledge", "gibbon"])
def test_suggestions_asked_at_once_differ_in_places_and_seeds_unless_running_trials_are_ignored(acquisition):
    def asked(pending: str) -> list:
        optimizer = BOSHOptimizer({"x": Float(0, 1), "y": Float(0, 1)}, seed=0, acquisition=acquisition, pending=pending)
        run(optimizer, lambda c: noisy(c) + c["y"] ** 2, 24)
        return [optimizer.ask().config for _ in range(8)]

    def near(configs: list, seeds: bool) -> int:
        """Pairs of almost the same place, on the same seed or on any."""
        return sum(
            (a["seed"] == b["seed"] or not seeds) and max(abs(a["x"] - b["x"]), abs(a["y"] - b["y"])) < 0.02
            for a, b in itertools.combinations(configs, 2)
        )

    together, apart = asked("believer"), asked("ignore")
    assert near(together, seeds=True) == 0
    assert len({(round(c["x"], 2), round(c["y"], 2)) for c in together}) > 2
    assert len({c["seed"] for c in together}) > 2
    if acquisition == "knowledge":  # a search for information may come back to a place on another seed by itself
        assert near(apart, seeds=False) > near(together, seeds=False)


def test_eight_at_once_are_better_than_eight_asked_blindly():
    regrets: dict[str, list[float]] = {"believer": [], "ignore": []}
    for pending, found in regrets.items():
        for number in range(6):
            draw = HGPDraw(number, 0.05)
            optimizer = BOSHOptimizer(draw.space, seed=number, mode="max", pending=pending)
            run(optimizer, lambda config, draw=draw: draw(config, config["seed"]), 20, batch=8)
            found.append(draw.regret(optimizer.recommend().config))
    assert np.mean(regrets["believer"]) < 0.6 * np.mean(regrets["ignore"])


def test_a_run_that_locked_in_goes_on_to_the_optimum():
    """Eighty trials at one place on ever fresh seeds, as Gumbel maxima with a small batch weight make them: defaults leave."""
    for number in (2, 3):
        draw = HGPDraw(number, 0.05)
        optimizer = BOSHOptimizer(draw.space, seed=number, mode="max")
        run(optimizer, lambda config, draw=draw: draw(config, config["seed"]), 6)
        stuck = max((t for t in optimizer.observations), key=lambda t: draw.regret({"x": 10 * t.row[0]})).row[0] * 10
        rng = np.random.default_rng(number)
        for seed in range(80):
            place = {"x": float(np.clip(stuck + 0.05 * rng.normal(), 0, 10)), "seed": seed}
            optimizer.give(place, draw(place, seed))
        run(optimizer, lambda config, draw=draw: draw(config, config["seed"]), 111, batch=5)
        went = np.array([10 * trial.row[0] for trial in list(optimizer.observations)[-25:]])
        assert np.mean(np.abs(went - stuck) > 0.5) > 0.8
        assert draw.regret(optimizer.recommend().config) < 0.25 * draw.regret({"x": stuck})


def test_batches_do_not_lock_in():
    """Not all in one fifth of the box: that was Gumbel maxima with a small batch weight and an unlimited pool."""
    regrets = []
    for number in range(2):
        draw = HGPDraw(number, 0.05)
        optimizer = BOSHOptimizer(draw.space, seed=number, mode="max")
        run(optimizer, lambda config, draw=draw: draw(config, config["seed"]), 40, batch=5)
        regrets.append(draw.regret(optimizer.recommend().config))
        places = np.array([trial.row[0] for trial in optimizer.observations])
        assert np.histogram(places, 5, (0, 1))[0].max() < 34
    assert max(regrets) < 0.1


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"acquisition": "mumbo"},
        {"acquisition": "gibbon", "maxima": "gumbel"},
        {"acquisition": "gibbon", "diversity": "1/B^2"},
        {"maximizer": "direct"},
        {"realizations": ["a", "b", "c"], "seed_key": "fold"},
        {"max_realizations": 4, "initial_realizations": 3},
        PAPER,
    ],
    ids=str,
)
def test_every_setting_runs_and_is_restored_exactly(settings, caplog):
    optimizer = BOSHOptimizer({"x": Float(0, 1), "y": Float(0, 1)}, seed=0, **settings)
    run(optimizer, lambda config: (config["x"] - 0.3) ** 2 + 0.01 * len(str(config)), 9)
    optimizer.ask()
    other = Optimizer.from_state(state.read(optimizer.save()))
    assert other.save() == optimizer.save()
    for _ in range(2):
        mine, theirs = optimizer.ask(), other.ask()
        assert mine == theirs
        optimizer.tell(mine.id, 0.3)
        other.tell(mine.id, 0.3)
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
    with pytest.raises(StateError):
        Optimizer.from_state(state.read(optimizer.save()), Space({"z": Float(0, 1)}))


def test_a_trainable_that_ignores_the_seed_is_found_out_once(caplog):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        run(BOSHOptimizer({"x": Float(0, 1)}, seed=seed), lambda config, rng=rng: config["x"] ** 2 + 0.5 * rng.normal(), 60)
        assert sum("ignore config['seed']" in record.message for record in caplog.records) == 1
        caplog.clear()
    run(BOSHOptimizer({"x": Float(0, 1)}, seed=0), lambda config: math.sin(5 * config["x"]), 32)
    assert sum("not to depend on config['seed']" in record.message for record in caplog.records) == 1
    caplog.clear()
    run(BOSHOptimizer({"x": Float(0, 1)}, seed=0), noisy, 30)
    assert not caplog.records


@pytest.mark.parametrize(
    ("structure", "settings"),
    [
        ({"seed": Float(0, 1)}, {}),
        ([Float(0, 1)], {}),
        ({"x": Float(0, 1)}, {"seed_key": 3}),
        ({"x": Float(0, 1)}, {"realizations": []}),
        ({"x": Float(0, 1)}, {"realizations": [1.5]}),
        ({"x": Float(0, 1)}, {"realizations": 5}),
        ({"x": Float(0, 1)}, {"realizations": "abc"}),
        ({"x": Float(0, 1)}, {"budget": "x"}),
        ({"x": Float(0, 1)}, {"diversity": math.inf}),
        ({"x": Float(0, 1)}, {"max_realizations": 0}),
        ({"x": Float(0, 1)}, {"max_realizations": "auto"}),
        ({"x": Float(0, 1)}, {"initial_realizations": "auto"}),
        ({"x": Float(0, 1)}, {"acquisition": "ei"}),
        ({"x": Float(0, 1)}, {"maxima": "grid"}),
        ({"x": Float(0, 1)}, {"diversity": -1}),
        ({"x": Float(0, 1)}, {"maximizer": "cma"}),
        ({"x": Float(0, 1), "c": Categorical("ab")}, {"maximizer": "direct"}),
    ],
)
def test_mistakes_are_refused(structure, settings):
    with pytest.raises((SettingError, SpaceError)):
        BOSHOptimizer(structure, **settings)


@pytest.mark.parametrize("seed", range(3))
def test_failed_trials_are_not_tried_again_next_door(seed):
    optimizer = BOSHOptimizer({"x": Float(0, 1)}, seed=seed)
    failed: list[float] = []
    for _ in range(20):
        suggestion = optimizer.ask()
        if suggestion.config["x"] > 0.6:
            optimizer.fail(suggestion.id)
            failed.append(suggestion.config["x"])
        else:
            optimizer.tell(suggestion.id, -suggestion.config["x"])
    again = sum(any(abs(x - other) < 0.01 for other in failed[:k]) for k, x in enumerate(failed))
    assert 0 < len(failed) < 9  # 11 or 12 if failed trials are forgotten
    assert again <= 1


def test_draws_of_a_hierarchical_process_are_what_they_are_called():
    draw = HGPDraw(0, 0.05)
    assert draw({"x": 3.0}, 5) == HGPDraw(0, 0.05)({"x": 3.0}, 5) != draw({"x": 3.0}, 6)
    assert min(draw.regret({"x": x}) for x in draw.grid) == 0
    values = np.array([[draw({"x": x}, seed) for x in (1.0, 6.0)] for seed in range(400)])
    np.testing.assert_allclose(values.var(axis=0), 0.05, rtol=0.3)
    np.testing.assert_allclose(values.mean(axis=0), np.interp([1.0, 6.0], draw.grid, draw.target), atol=0.05)


# The examples' environments


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "examples"))
    return importlib.import_module


def test_landings_are_decided_by_gains_and_seed_alone(examples):
    lander = examples("lunar_lander")
    gymnasium = pytest.importorskip("gymnasium", reason="pip install raytree[examples]")
    from gymnasium.envs.box2d.lunar_lander import heuristic

    first = [lander.episode(lander.HAND_TUNED, seed) for seed in (0, 1, 2)]
    environment = gymnasium.make("LunarLander-v3")
    assert [lander.episode(lander.HAND_TUNED, seed, environment) for seed in (2, 1, 0)] == first[::-1]
    assert len(set(first)) == 3
    rng = np.random.default_rng(0)
    for _ in range(300):  # the hand-tuned gains are gymnasium's own controller
        observation = np.append(rng.normal(0, 0.5, 6), rng.integers(0, 2, 2)).astype(np.float32)
        assert lander.action(lander.HAND_TUNED, observation) == heuristic(environment, observation)


def test_a_day_of_orders_is_decided_by_places_and_seed_alone(examples):
    warehouses = examples("warehouses")
    good, bad = {"x1": 0.58, "y1": 0.54, "x2": 0.67, "y2": 0.76}, {"x1": 0.0, "y1": 0.0, "x2": 0.0, "y2": 1.0}
    assert warehouses.day(good, 3) == warehouses.day(good, 3) != warehouses.day(good, 4)
    assert warehouses.average(good, range(20)) == pytest.approx(0.38, abs=0.06)
    assert warehouses.average(bad, range(10)) < 0.2


def test_splits_of_a_pool_are_decided_by_the_seed(examples):
    svm_text = examples("svm_text")
    problem = svm_text.load(None)
    config = {"C": 10.0, "gamma": 1.0}
    assert svm_text.error(config, 3, problem) == svm_text.error(config, 3, problem)
    assert len({svm_text.error(config, seed, problem) for seed in range(8)}) > 1
    assert svm_text.true_error(config, problem) < 0.1
