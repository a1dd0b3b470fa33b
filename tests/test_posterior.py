"""The one posterior and the one likelihood of all models, against dense Gaussian processes written out row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from raytree.gp.context import trend
from raytree.gp.likelihood import SIZES, Blocks, negative_log_likelihood, stack_of, stacked
from raytree.gp.posterior import Gaussian, Mixture, Prediction, mixed, posterior
from raytree.gp.transform import candidates
from raytree.models.conditional import KERNELS, TREND_VARIANCE, ConditionalModel
from raytree.models.features import Features
from raytree.models.inputs import Inputs
from raytree.models.leaf import Settings, kernel_dims
from raytree.models.tree import TreeModel
from raytree.models.treed import WarpedKernel
from raytree.space import Categorical, Float, Space
from raytree.store import Observations
from raytree.strategies.fitted import most_likely
from tests.spaces import LAYERS, MODELS

N, NEW = 14, 7


def matern(r2):
    r = math.sqrt(5.0 * r2)
    return (1.0 + r + r * r / 3.0) * math.exp(-r)


@dataclass
class Case:
    """A model, its hyperparameters, and the same prior written out: covariances, features, means and noise of single rows."""

    model: Any
    theta: np.ndarray
    target: float = 1.0

    @property
    def space(self):
        return self.model.space

    @property
    def fidelities(self):
        return self.model.context is not None

    def fast(self) -> Gaussian:
        return self.model.posterior(self.theta, self.target)

    def full(self, rows):
        """Rows with a fidelity, if the model has them."""
        if not self.fidelities or rows.shape[1] > self.space.d:
            return rows
        return np.column_stack([rows, np.full(len(rows), self.target)])

    def between(self, theta, a, b):
        return float(self.model.context(theta, a[-1:], b[-1:])[0, 0]) if self.fidelities else 1.0


class Tree(Case):
    def kernel(self, a, path_a, b, path_b):
        if path_a != path_b:
            return 0.0
        h = self.model.unpack(self.theta)
        r2 = 0.0
        for i in kernel_dims(self.space, path_a, self.model.settings):
            apart = float(abs(a[i] - b[i]) > 1e-9) if self.model.categorical[i] else a[i] - b[i]
            r2 += apart**2 * h.inverse_squared_length[i]
        return h.amplitude.get(path_a, h.common_amplitude) * matern(r2) * self.between(h.context, a, b)

    def features(self, row, path):
        z = np.zeros(self.model.features.D)
        on = self.model.features.on(path)
        z[on.columns] = on.values(row[None])[0]
        return z

    def variance(self):
        return self.model.unpack(self.theta).weight_variance

    def mean(self, path):
        return self.model.unpack(self.theta).offset.get(path, 0.0)

    def noise(self, row):
        h = self.model.unpack(self.theta)
        return h.noise + (h.early_noise * (1.0 - row[-1]) ** 2 if self.fidelities else 0.0)


class Conditional(Case):
    def kernel(self, a, path_a, b, path_b):
        if self.model.kernel_name == "conditional" and path_a != path_b:
            return 0.0
        d, inputs = self.space.d, self.model.inputs
        x, y = inputs(a[None, :d])[0], inputs(b[None, :d])[0]
        lengths = np.exp(self.theta[2 : 2 + inputs.n_lengths])
        r2 = sum(((u - v) / lengths[k]) ** 2 for u, v, k in zip(x, y, inputs.length, strict=True))
        return math.exp(self.theta[1]) * matern(r2) * self.between(self.theta[3 + inputs.n_lengths :], a, b)

    def features(self, row, path):
        return trend(row[-1]) if self.fidelities else np.empty(0)

    def variance(self):
        return np.full(2, TREND_VARIANCE) if self.fidelities else np.empty(0)

    def mean(self, path):
        return 0.0

    def noise(self, row):
        early = math.exp(self.theta[2 + self.model.inputs.n_lengths]) * (1.0 - row[-1]) ** 2 if self.fidelities else 0.0
        return math.exp(self.theta[0]) + early


class Dense:
    """The posterior of a case given any rows, by explicit matrices."""

    def __init__(self, case, rows, y, paths):
        self.case, self.rows, self.paths = case, case.full(rows), list(paths)
        self.means = np.array([case.mean(path) for path in paths])
        self.inside = self.covariance(self.rows, paths, self.rows, paths) + np.diag([case.noise(row) for row in self.rows])
        self.residual = y - self.means

    def covariance(self, a, paths_a, b, paths_b, whole=True):
        case = self.case
        Z, W = (np.array([case.features(r, p) for r, p in zip(*pair, strict=True)]) for pair in ((a, paths_a), (b, paths_b)))
        out = (Z * case.variance()) @ W.T
        if whole:
            out += [[case.kernel(r, p, s, q) for s, q in zip(b, paths_b, strict=True)] for r, p in zip(a, paths_a, strict=True)]
        return out

    def joint(self, rows, paths, whole=True):
        """Mean and covariance at rows; of the path alone without `whole`."""
        rows = self.case.full(rows)
        cross = self.covariance(rows, paths, self.rows, self.paths, whole)
        mean = np.array([self.case.mean(path) for path in paths]) + cross @ np.linalg.solve(self.inside, self.residual)
        prior = self.covariance(rows, paths, rows, paths, whole)
        return mean, prior - cross @ np.linalg.solve(self.inside, cross.T)


CASES = {
    "tree": lambda space, rng: tree(space, rng, Settings()),
    "tree with offsets": lambda space, rng: tree(space, rng, Settings(leaf="own", offsets=True), "linear", "nodes"),
    "tree with fidelities": lambda space, rng: tree(space, rng, Settings(context="decay"), fidelity=True),
    "conditional": lambda space, rng: conditional(space, rng, "conditional"),
    "conditional with fidelities": lambda space, rng: conditional(space, rng, "conditional", "quadratic"),
    "one block": lambda space, rng: conditional(space, rng, "matern"),
    "one block with fidelities": lambda space, rng: conditional(space, rng, "matern", "matern"),
}


def tree(space, rng, settings, shared="smooth", weights="edges", fidelity=False):
    rows = space.sample(rng, N)
    features = Features(space, shared, weights, fidelity=fidelity)
    data = np.column_stack([rows, rng.random(N)]) if fidelity else rows
    model = TreeModel(space, features, data, rng.normal(size=N), space.paths_of(rows), settings)
    theta = model.layout.mean + 0.3 * rng.normal(size=len(model.layout.mean))
    theta[model.layout.at["noise", None]] = np.log(0.05)
    return Tree(model, theta, 0.7 if fidelity else 1.0)


def conditional(space, rng, kernel, context=None):
    rows = space.sample(rng, N)
    data = rows if context is None else np.column_stack([rows, rng.random(N)])
    inputs = Inputs(space, "hamming", True, KERNELS[kernel].power, 0)
    model = ConditionalModel(space, inputs, kernel, data, rng.normal(size=N), space.paths_of(rows), context=context)
    theta = model.start() + 0.3 * rng.normal(size=len(model.start()))
    theta[0] = np.log(0.05)
    return Conditional(model, theta, 1.0 if context is None else 0.7)


@pytest.fixture(params=[(name, which) for name in CASES for which in ("models", "layers")], ids=" ".join)
def case(request):
    """A case, and rows of several paths to ask about, some never visited."""
    name, which = request.param
    space, rng = Space({"models": MODELS, "layers": LAYERS}[which]), np.random.default_rng(len(name))
    made = CASES[name](space, rng)
    some = [space.on_path(path, rng.random((1, space.d))) for path in space.paths()[:3]]
    rows = np.concatenate([space.sample(rng, NEW - 3), *some])
    rows = rows[rng.permutation(NEW)]
    return made, rows, space.paths_of(rows), rng


def agrees(fast, dense, rows, paths):
    """A posterior is what the dense one is: single rows, and all together in any order of paths."""
    mean, covariance = dense.joint(rows, paths)
    for k, path in enumerate(paths):
        single = fast.predict(path, rows[k : k + 1])
        np.testing.assert_allclose([single.mean[0], single.sd[0] ** 2], [mean[k], covariance[k, k]], atol=1e-8)
    together = fast.joint(rows, paths)
    np.testing.assert_allclose(together[0], mean, atol=1e-8)
    np.testing.assert_allclose(together[1], covariance, atol=1e-8)


def test_predictions_single_and_joint_are_those_of_the_dense_process(case):
    made, rows, paths, rng = case
    model, fast = made.model, made.fast()
    dense = Dense(made, model.rows, model.y, model.paths)
    agrees(fast, dense, rows, paths)
    if made.fidelities:  # rows that say their fidelity themselves
        agrees(fast, dense, np.column_stack([rows, rng.random(len(rows))]), paths)
    on_path = [fast.predict_path(path, row[None]) for row, path in zip(rows, paths, strict=True)]
    together = fast.predict_paths(paths, rows[:, None, :])
    mean, covariance = dense.joint(rows, paths, whole=False)
    for means, sds in (([p.mean[0] for p in on_path], [p.sd[0] for p in on_path]), (together.mean[:, 0], together.sd[:, 0])):
        np.testing.assert_allclose(means, mean, atol=1e-8)
        np.testing.assert_allclose(np.square(sds), np.diag(covariance), atol=1e-8)


def test_means_at_the_observations_and_the_lowest_are_those_of_the_dense_process(case):
    made, *_ = case
    model, fast = made.model, made.fast()
    dense = Dense(made, model.rows, model.y, model.paths)
    np.testing.assert_allclose(fast.observed_means(), dense.joint(model.rows, model.paths)[0], atol=1e-8)
    there = dense.joint(model.rows[:, : made.space.d], model.paths)[0]
    np.testing.assert_allclose(fast.target_means(), there, atol=1e-8)
    assert fast.lowest == pytest.approx(there.min() if made.fidelities else model.y.min(), abs=1e-8)


def test_gradients_are_differences_of_the_dense_process(case):
    made, rows, paths, _ = case
    fast, dense = made.fast(), Dense(made, made.model.rows, made.model.y, made.model.paths)
    moved = 0
    for row, path in zip(rows[:3], paths[:3], strict=True):
        for whole in (True, False):
            mean, sd, by_mean, by_sd = fast.gradient(path, row, whole)
            at = dense.joint(row[None], [path], whole)
            assert (mean, sd**2) == (pytest.approx(at[0][0], abs=1e-8), pytest.approx(at[1][0, 0], abs=1e-8))
            slopes = {i: (by_mean[i], by_sd[i]) for i in made.space.free(path)}
            if not fast.process.whole:
                assert not np.delete(by_mean, list(slopes)).any()
                assert not np.delete(by_sd, list(slopes)).any()
            for i, found in slopes.items():
                if isinstance(made.space.parameters[i].domain, Categorical) or sd < 1e-6:
                    continue
                sides = []
                for step in (1e-5, -1e-5):
                    other = row.copy()
                    other[i] += step
                    away = dense.joint(other[None], [path], whole)
                    sides.append([away[0][0], math.sqrt(max(away[1][0, 0], 0.0))])
                np.testing.assert_allclose(found, np.subtract(*sides) / 2e-5, rtol=1e-3, atol=1e-4)
                moved += 1
    assert moved


def test_conditioning_on_values_is_having_had_them_from_the_start(case):
    made, rows, paths, rng = case
    model, values = made.model, rng.normal(size=4)
    before = made.fast()
    grown = before.condition(rows[:4], paths[:4], values)
    data = np.vstack([model.rows, made.full(rows[:4])])
    agrees(grown, Dense(made, data, np.append(model.y, values), [*model.paths, *paths[:4]]), rows, paths)
    assert grown.lowest == min(before.lowest, values.min())
    agrees(before, Dense(made, model.rows, model.y, model.paths), rows, paths)  # which is as it was


def test_conditioning_without_values_is_believing_the_means(case):
    made, rows, paths, rng = case
    model, before = made.model, made.fast()
    believed = Dense(made, model.rows, model.y, model.paths).joint(rows[:4], paths[:4])[0]
    data = np.vstack([model.rows, made.full(rows[:4])])
    known = np.append(model.y, believed)
    grown = before.condition(rows[:4], paths[:4])
    agrees(grown, Dense(made, data, known, [*model.paths, *paths[:4]]), rows, paths)
    np.testing.assert_allclose(grown.joint(rows, paths)[0], before.joint(rows, paths)[0], atol=1e-8)  # no mean has moved
    values = rng.normal(size=2)  # of others, behind those that are believed
    again = Dense(made, np.vstack([data, made.full(rows[4:6])]), np.append(known, values), [*model.paths, *paths[:6]])
    agrees(grown.condition(rows[4:6], paths[4:6], values), again, rows, paths)
    assert before.condition(rows[:0], []) is before


def test_weights_are_those_of_a_bayesian_regression():
    rng = np.random.default_rng(3)
    made = CASES["tree"](Space(MODELS), rng)
    model = made.model
    dense = Dense(made, model.rows, model.y, model.paths)
    Z = np.array([made.features(row, path) for row, path in zip(model.rows, model.paths, strict=True)])
    gain = made.variance()[:, None] * Z.T @ np.linalg.inv(dense.inside)
    mean, sd = made.fast().weight_posterior()
    np.testing.assert_allclose(mean, gain @ dense.residual, atol=1e-8)
    np.testing.assert_allclose(sd**2, made.variance() - np.einsum("ij,ji->i", gain, Z * made.variance()), atol=1e-8)


def test_a_process_that_has_seen_nothing_predicts_its_prior():
    rng = np.random.default_rng(4)
    for name in ("tree", "one block"):
        made = CASES[name](Space(MODELS), rng)
        rows = made.space.sample(rng, NEW)
        paths = made.space.paths_of(rows)
        nothing = posterior(made.fast().process, rows[:0], np.empty(0), [])
        dense = Dense(made, made.model.rows, made.model.y, made.model.paths)
        mean, covariance = nothing.joint(rows, paths)
        np.testing.assert_allclose(mean, 0.0)
        np.testing.assert_allclose(covariance, dense.covariance(rows, paths, rows, paths), atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_previous_posterior_changes_nothing(name):
    """Other values, more rows, or as many other ones, of which the kernel may not see the difference."""
    rng = np.random.default_rng(5)
    made = CASES[name](Space(MODELS), rng)
    model, before = made.model, made.fast()
    other = made.full(made.space.sample(rng, N))
    rows = made.space.sample(rng, NEW)
    paths = made.space.paths_of(rows)
    shared = model.rows.copy()  # the same but for parameters that leaves have in common
    for i in sorted(made.space.shared):
        alive = ~np.isnan(shared[:, i])
        shared[alive, i] = made.space.parameters[i].domain.snap(1.0 - shared[alive, i])
    several = [
        (model.rows, rng.normal(size=N), model.paths),
        (np.vstack([model.rows, other]), rng.normal(size=2 * N), [*model.paths, *made.space.paths_of(other[:, : made.space.d])]),
        (shared, model.y, made.space.paths_of(shared[:, : made.space.d])),
    ]
    for data, y, data_paths in several:
        fresh = posterior(before.process, data, y, data_paths, made.target)
        reused = posterior(before.process, data, y, data_paths, made.target, before)
        np.testing.assert_array_equal(reused.joint(rows, paths)[0], fresh.joint(rows, paths)[0])
        np.testing.assert_array_equal(reused.joint(rows, paths)[1], fresh.joint(rows, paths)[1])
    moved = made.theta + 0.1
    elsewhere = [model.posterior(moved, made.target, previous).predict(paths[0], rows[:1]) for previous in (None, before)]
    np.testing.assert_array_equal(elsewhere[0], elsewhere[1])


def test_a_mixture_has_the_moments_of_its_parts():
    rng = np.random.default_rng(6)
    made = CASES["tree"](Space(MODELS), rng)
    parts = [made.model.posterior(made.theta + 0.5 * rng.normal(size=len(made.theta))) for _ in range(3)]
    weights = np.array([0.5, 0.3, 0.2])
    rows = made.space.sample(rng, NEW)
    paths = made.space.paths_of(rows)
    mean, covariance = Mixture(parts, weights).joint(rows, paths)
    each = [part.joint(rows, paths) for part in parts]
    first = sum(w * m for w, (m, _) in zip(weights, each, strict=True))
    second = sum(w * (C + np.outer(m, m)) for w, (m, C) in zip(weights, each, strict=True))
    np.testing.assert_allclose(mean, first)
    np.testing.assert_allclose(covariance, second - np.outer(first, first), atol=1e-10)
    single = [Mixture(parts, weights).predict(path, row[None]) for row, path in zip(rows, paths, strict=True)]
    np.testing.assert_allclose([p.mean[0] for p in single], mean)
    np.testing.assert_allclose([p.sd[0] ** 2 for p in single], np.diag(covariance), atol=1e-10)
    np.testing.assert_allclose(
        Mixture(parts, weights).target_means(), sum(w * p.target_means() for w, p in zip(weights, parts, strict=True))
    )
    one = mixed(np.array([0.25, 0.75]), [Prediction(np.zeros(1), np.ones(1)), Prediction(np.full(1, 2.0), np.zeros(1))])
    assert (one.mean[0], one.sd[0] ** 2) == (1.5, pytest.approx(0.25 * (1 + 1.5**2) + 0.75 * 0.5**2))


# The likelihood


def made_blocks(rng, groups, D, weighted=False):
    """Random blocks in stacks of about one size; what stands in padded places is garbage."""
    n = sum(len(index) for index in groups)
    X, Z, noise, y = rng.random((n, 2)), rng.normal(size=(n, D)), 0.1 + rng.random(n), rng.normal(size=n)
    blocks = []
    for chosen, stack in stacked(groups):
        places = stack.rows
        r = np.sqrt(np.sum((X[places][:, :, None] - X[places][:, None]) ** 2, axis=-1))
        K = np.exp(-r) + 77.0 * (1.0 - stack.both)
        garbage = 55.0 * (1.0 - stack.real)
        weight = np.array([0.3 + 0.2 * k for k in chosen]) if weighted else None
        features = Z[places] * stack.real[:, :, None]
        blocks.append(Blocks(stack, K, noise[places] + garbage, y[places] + garbage, features, weight))
    return blocks, X, Z, noise, y


GROUPS = [
    np.array([0]),
    np.array([1, 5, 9]),
    np.array([2, 3]),
    np.array([4, 6, 7, 8, 10, 11, 12]),
    np.array([13, 14, 15, 16, 17]),
]


def slow_likelihood(blocks, variance):
    """Minus log P(y) with one covariance matrix over all rows that are real."""
    n = sum(int(block.stack.real.sum()) for block in blocks)
    K, Z, y, at = np.zeros((n, n)), np.zeros((n, len(variance))), np.zeros(n), 0
    total = 0.0
    for block in blocks:
        for p, real in enumerate(block.stack.real.astype(bool)):
            m = int(real.sum())
            here = slice(at, at + m)
            K[here, here] = block.kernel[p][np.ix_(real, real)] + np.diag(block.noise[p][real])
            Z[here], y[here] = block.features[p][real], block.residual[p][real]
            if block.weight is not None:
                total -= block.weight[p] * stats.multivariate_normal(np.zeros(m), K[here, here]).logpdf(y[here])
            at += m
    return total if blocks[0].weight is not None else -stats.multivariate_normal(np.zeros(n), K + (Z * variance) @ Z.T).logpdf(y)


def changed(block, **fields):
    return block._replace(**fields)


@pytest.mark.parametrize(("D", "weighted"), [(0, False), (3, False), (0, True)], ids=["plain", "features", "weighted"])
def test_the_likelihood_and_all_its_slopes(D, weighted):
    rng = np.random.default_rng(7)
    blocks, *_ = made_blocks(rng, GROUPS, D, weighted)
    assert len(blocks) > 2
    assert any(block.stack.real.shape[0] > 1 and (block.stack.real == 0).any() for block in blocks)  # padded
    variance = np.exp(rng.normal(size=D))
    value, slopes, by_variance = negative_log_likelihood(blocks, variance)
    assert value == pytest.approx(slow_likelihood(blocks, variance), abs=1e-8)
    step = 1e-5

    def difference(k, field, place):
        sides = []
        for sign in (1, -1):
            array = getattr(blocks[k], field).copy()
            for one in place:
                array[one] += sign * step
            sides.append(slow_likelihood([*blocks[:k], changed(blocks[k], **{field: array}), *blocks[k + 1 :]], variance))
        return (sides[0] - sides[1]) / (2 * step)

    for k, (block, slope) in enumerate(zip(blocks, slopes, strict=True)):
        both = block.stack.both
        assert not slope.by_covariance[both == 0].any()
        assert not slope.by_mean[block.stack.real == 0].any()
        for p, i, j in zip(*np.nonzero(both), strict=True):
            if i == j:
                assert slope.by_covariance[p, i, i] == pytest.approx(difference(k, "noise", [(p, i)]), abs=1e-6, rel=1e-5)
                assert slope.by_mean[p, i] == pytest.approx(-difference(k, "residual", [(p, i)]), abs=1e-6, rel=1e-5)
            elif i < j:
                two = slope.by_covariance[p, i, j] + slope.by_covariance[p, j, i]
                assert two == pytest.approx(difference(k, "kernel", [(p, i, j), (p, j, i)]), abs=1e-6, rel=1e-5)
    for k in range(D):
        factor = np.exp(step * np.eye(D)[k])
        slow = (slow_likelihood(blocks, variance * factor) - slow_likelihood(blocks, variance / factor)) / (2 * step)
        assert by_variance[k] == pytest.approx(slow, abs=1e-6, rel=1e-5)
    assert len(by_variance) == D


def test_what_stands_in_padded_places_does_not_matter():
    rng = np.random.default_rng(8)
    blocks, *_ = made_blocks(rng, GROUPS, 2)
    value, slopes, by_variance = negative_log_likelihood(blocks, np.ones(2))
    for block in blocks:
        pad = block.stack.real == 0
        block.kernel[block.stack.both == 0] = -3.0
        block.noise[pad], block.residual[pad] = 1e9, -1e9
    again, same, also = negative_log_likelihood(blocks, np.ones(2))
    assert again == value
    np.testing.assert_array_equal(also, by_variance)
    for one, other in zip(slopes, same, strict=True):
        np.testing.assert_array_equal(one.by_covariance, other.by_covariance)


def test_groups_are_stacked_once_each_with_others_of_their_size():
    rng = np.random.default_rng(9)
    groups = np.split(rng.permutation(400), np.cumsum([1, 2, 2, 3, 7, 8, 16, 65, 100]))
    seen = []
    for chosen, stack in stacked(groups):
        for p, k in enumerate(chosen):
            seen.append(k)
            real = stack.real[p] == 1
            np.testing.assert_array_equal(stack.rows[p][real], groups[k])
            assert real.sum() == len(groups[k])
        lengths = [len(groups[k]) for k in chosen]
        assert max(lengths) == stack.rows.shape[1]
        assert len(chosen) == 1 or max(lengths) <= SIZES[-1]
        assert max(lengths) <= 2 * min(lengths)
    assert sorted(seen) == list(range(len(groups)))
    assert stack_of([np.array([3, 1])]).rows.tolist() == [[3, 1]]


# Kernels and scales


@pytest.mark.parametrize("warped", [True, False])
@pytest.mark.parametrize("structure", [{"x": Float(0, 1), "y": Float(0, 1)}, MODELS], ids=["flat", "models"])
def test_the_gradient_of_the_warped_kernel(structure, warped):
    rng, space = np.random.default_rng(10), Space(structure)
    inputs = Inputs(space, "hamming", True, 2, 0)
    ordered = np.array([k for k, mark in enumerate(inputs.indicator) if mark < 0 and warped], dtype=int)
    laws = 0.5 * rng.normal(size=2 * len(ordered))
    theta = np.concatenate([[-2.0, 0.4, 0.1], np.log(0.5) + 0.3 * rng.normal(size=inputs.n_lengths), laws])
    kernel = WarpedKernel(inputs, ordered, theta)
    rows = space.sample(rng, 9)
    X, row = kernel.inputs((), rows), rows[4].copy()
    row[~np.isnan(row)] = 0.2 + 0.6 * rng.random(int((~np.isnan(row)).sum()))
    x = kernel.inputs((), row[None])
    k, slopes = kernel.gradient((), X, x[0])
    np.testing.assert_allclose(k, kernel.matrix((), X, x)[:, 0], atol=1e-12)
    coordinates = kernel.coordinates(()).tolist()
    assert slopes.shape == (9, len(coordinates))
    moved = 0
    for column, i in enumerate(coordinates):
        if np.isnan(row[i]):
            continue  # imputed: it cannot move
        up, down = row.copy(), row.copy()
        up[i], down[i] = row[i] + 1e-6, row[i] - 1e-6
        slow = (kernel.matrix((), X, kernel.inputs((), up[None])) - kernel.matrix((), X, kernel.inputs((), down[None])))[
            :, 0
        ] / 2e-6
        np.testing.assert_allclose(slopes[:, column], slow, rtol=1e-4, atol=1e-6)
        moved += 1
    assert moved


def test_the_warped_kernel_is_a_matern_kernel_of_warped_numbers():
    rng, space = np.random.default_rng(11), Space({"x": Float(0, 1), "y": Float(0, 1)})
    inputs = Inputs(space, "hamming", True, 2, 0)
    theta = np.array([-2.0, 0.4, 0.1, np.log(0.3), np.log(0.7), *np.log([2.0, 0.5, 3.0, 0.8])])
    kernel = WarpedKernel(inputs, np.arange(2), theta)
    rows = rng.random((6, 2))
    X = kernel.inputs((), rows)
    w = np.column_stack([stats.beta(2.0, 3.0).cdf(rows[:, 0]), stats.beta(0.5, 0.8).cdf(rows[:, 1])]) / [0.3, 0.7]
    slow = [[math.exp(0.4) * matern(float(np.sum((a - b) ** 2))) for b in w] for a in w]
    np.testing.assert_allclose(kernel.matrix((), X, X), slow, atol=1e-9)
    np.testing.assert_allclose(kernel.diagonal((), X), math.exp(0.4))
    np.testing.assert_allclose(kernel.noise((), X), math.exp(-2.0))


def chosen_scale(losses_of, seed):
    """The name of the scale that a tree model finds most likely for 40 random places of a square."""
    rng, space = np.random.default_rng(seed), Space({"x": Float(0, 1), "y": Float(0, 1)})
    store = Observations(space)
    for k, row in enumerate(rng.random((40, 2))):
        store.add(str(k), space.decode(row))
        store.finish(str(k), losses_of(*row))
    data = store.losses()

    def fit(y):
        model = TreeModel(space, Features(space), data.rows, y, data.paths)
        return model, *model.fit(None, 30)

    scales = candidates(data.losses)
    assert set(scales) == {"bent", "straight"}
    found = most_likely(data, scales, fit)
    np.testing.assert_array_equal(found.model.y, found.scale.forward(data.losses))
    return found.name


@pytest.mark.parametrize("seed", range(3))
def test_the_data_choose_the_straight_scale_for_a_smooth_loss_and_the_bent_one_for_an_exponential_tail(seed):
    assert chosen_scale(lambda x, y: math.sin(4 * x) + (y - 0.4) ** 2, seed) == "straight"
    assert chosen_scale(lambda x, y: math.exp(7 * x + 3 * y), seed) == "bent"


def test_the_choice_of_a_scale_counts_its_jacobian():
    """A model that finds everything equally likely: what is left is how much each scale stretches the losses."""
    space = Space({"x": Float(0, 1)})
    store = Observations(space)
    for k in range(20):
        store.add(str(k), (k / 20,))
        store.finish(str(k), math.exp(0.4 * k))
    data = store.losses()
    scales = candidates(data.losses)
    stretch = {name: float(np.sum(scale.log_slope(data.losses))) for name, scale in scales.items()}
    assert len(scales) == 2
    assert most_likely(data, scales, lambda y: (None, y, 0.0)).name == max(stretch, key=stretch.__getitem__)
    gap = abs(stretch["bent"] - stretch["straight"])
    other = min(stretch, key=stretch.__getitem__)
    values = {name: 0.0 if name == other else 1.01 * gap for name in scales}
    order = iter(scales)
    assert most_likely(data, scales, lambda y: (None, y, values[next(order)])).name == other
