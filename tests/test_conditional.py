"""Kernels for conditional spaces (Levesque et al. 2017): oracles, structure, sampler, local search, optimizer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from raytree import CondKernelOptimizer, Optimizer, RandomOptimizer, Space, state
from raytree.acquisition.improvement import log_ei, log_mean
from raytree.acquisition.local_search import STEPS, climb, exchanges
from raytree.errors import SettingError
from raytree.gp import mondrian
from raytree.gp.kernels import GAUSSIAN, LAPLACE, MATERN52
from raytree.gp.priors import horseshoe
from raytree.gp.slice_sampler import along, sample
from raytree.models.conditional import KERNELS, ConditionalModel
from raytree.models.inputs import CATEGORIES, Inputs
from raytree.optimizers.conditional import PAPER
from raytree.space import Categorical, Float, Integer
from tests.spaces import LAYERS, MODELS, random_space

STATIONARY = {"matern": MATERN52, "squared": GAUSSIAN, "laplace": LAPLACE}
DUMMY = Space({"which": Categorical([{"a": Float(0, 1)}, {"b": Float(0, 1)}, {"c": Float(0, 1)}])})
"""Three classifiers with a parameter each: the example of section III-A."""


def spaces(count):
    rng = np.random.default_rng(7)
    yield from (Space(MODELS), Space(LAYERS), DUMMY)
    made = 0
    while made < count:
        space = random_space(rng)
        if space.d:
            made += 1
            yield space


def model_of(space, rng, kernel="conditional", categories="hamming", impute=True, n=25):
    inputs = Inputs(space, categories, impute, KERNELS[kernel].power, 0)
    rows = space.sample(rng, n)
    model = ConditionalModel(space, inputs, kernel, rows, rng.normal(size=n), space.paths_of(rows))
    theta = model.start() + 0.4 * rng.normal(size=len(model.start()))
    theta[0] = np.log(0.05)
    return model, theta, rows


def blocks_of(model):
    """The numbers of the rows of every block of the model's process."""
    process, groups = model.posterior(model.start()).process, {}
    for k, path in enumerate(model.paths):
        groups.setdefault(process.block_of(path), []).append(k)
    return groups


def slow_kernel(model, theta, row_a, row_b):
    """Eq. (8) and its kin, pair by pair, coordinate by coordinate."""
    space = model.space
    if model.kernel_name == "conditional" and space.path_of(row_a) != space.path_of(row_b):
        return 0.0
    a, b = model.inputs(row_a[None])[0], model.inputs(row_b[None])[0]
    lengths = np.exp(theta[2:])
    distance = sum(
        (abs(x - y) / lengths[k]) ** KERNELS[model.kernel_name].power for x, y, k in zip(a, b, model.inputs.length, strict=True)
    )
    if KERNELS[model.kernel_name] is MATERN52:
        r = math.sqrt(5 * distance)
        return math.exp(theta[1]) * (1 + r + r * r / 3) * math.exp(-r)
    return math.exp(theta[1]) * math.exp(-distance)


# The model


@pytest.mark.parametrize(
    ("kernel", "categories"),
    [("conditional", "hamming"), ("conditional", "onehot"), ("laplace", "hamming"), ("matern", "integer")],
)
def test_the_block_form_equals_the_dense_kernel_matrix(kernel, categories):
    rng = np.random.default_rng(0)
    for space in spaces(6):
        model, theta, rows = model_of(space, rng, kernel, categories, n=14)
        K = np.array([[slow_kernel(model, theta, a, b) for b in rows] for a in rows])
        assert np.linalg.eigvalsh(K).min() > -1e-9  # positive semi-definite
        noisy = K + np.exp(theta[0]) * np.eye(len(rows))
        solved = np.linalg.solve(noisy, model.y)
        expected = stats.multivariate_normal(np.zeros(len(rows)), noisy).logpdf(model.y)
        assert model.log_likelihood(theta)[0] == pytest.approx(expected, abs=1e-7)
        posterior = model.posterior(theta)
        np.testing.assert_allclose(posterior.observed_means(), K @ solved, atol=1e-8)
        for row in space.sample(rng, 3):
            k = np.array([slow_kernel(model, theta, other, row) for other in rows])
            prediction = posterior.predict(space.path_of(row), row[None])
            assert prediction.mean[0] == pytest.approx(k @ solved, abs=1e-8)
            variance = np.exp(theta[1]) - k @ np.linalg.solve(noisy, k)
            assert prediction.sd[0] ** 2 == pytest.approx(max(variance, 0), abs=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_positive_semi_definite_on_random_spaces(kernel):
    rng = np.random.default_rng(1)
    for space in spaces(8):
        for impute in (True, False):
            model, theta, _ = model_of(space, rng, kernel, impute=impute)
            for block, rows in blocks_of(model).items():
                X = model.kernel(theta).inputs(block, model.rows[rows])
                K = model.kernel(theta).matrix(block, X, X)
                np.testing.assert_allclose(np.diag(K), model.kernel(theta).diagonal(block, X))
                np.testing.assert_allclose(K, K.T)
                np.testing.assert_allclose(np.diag(K), np.exp(theta[1]))
                assert np.linalg.eigvalsh(K).min() > -1e-8


@pytest.mark.parametrize("kernel", ["conditional", "laplace", "squared"])
def test_gradient_of_the_likelihood_and_of_the_prior(kernel):
    rng = np.random.default_rng(2)
    for space in spaces(3):
        model, theta, _ = model_of(space, rng, kernel)
        for function in (model.log_likelihood, model.log_prior, model.negative_log_posterior):
            _, gradient = function(theta)
            for k in range(len(theta)):
                step = 1e-5 * np.eye(len(theta))[k]
                numeric = (function(theta + step)[0] - function(theta - step)[0]) / 2e-5
                assert gradient[k] == pytest.approx(numeric, abs=1e-5, rel=1e-4)


@pytest.mark.parametrize("kernel", ["conditional", "laplace", "matern"])
def test_gradient_of_the_prediction(kernel):
    rng = np.random.default_rng(3)
    for space in spaces(4):
        model, theta, _ = model_of(space, rng, kernel)
        part = model.posterior(theta)
        row = space.sample(rng, 1)[0]
        path = space.path_of(row)
        _, _, d_mean, d_sd = part.gradient(path, row)
        for i in space.free(path):
            if math.isinf(space.parameters[i].domain.size):
                values = []
                for sign in (1, -1):
                    moved = row.copy()
                    moved[i] += sign * 1e-6
                    values.append([column[0] for column in part.predict(path, moved[None])])
                numeric = (np.array(values[0]) - np.array(values[1])) / 2e-6
                np.testing.assert_allclose([d_mean[i], d_sd[i]], numeric, atol=1e-5)


def test_one_block_equals_scikit_learns_gaussian_process():
    space = Space({"x": Float(0, 1), "y": Float(0, 1)})
    rng = np.random.default_rng(4)
    model, theta, rows = model_of(space, rng)
    kernel = ConstantKernel(np.exp(theta[1]), "fixed") * Matern(np.exp(theta[2:]), "fixed", nu=2.5)
    oracle = GaussianProcessRegressor(kernel, alpha=np.exp(theta[0]), optimizer=None).fit(rows, model.y)
    test = rng.random((20, 2))
    mean, sd = oracle.predict(test, return_std=True)
    prediction = model.posterior(theta).predict((), test)
    np.testing.assert_allclose(prediction.mean, mean, atol=1e-8)
    np.testing.assert_allclose(prediction.sd, sd, atol=1e-8)


def test_covariance_structure_of_figures_2_to_4():
    rows = DUMMY.mask(np.column_stack([np.repeat([1 / 6, 0.5, 5 / 6], 20), np.random.default_rng(5).random((60, 3))]))
    across = np.repeat([0, 1, 2], 20)[:, None] != np.repeat([0, 1, 2], 20)[None]

    def matrix(kernel, impute):
        inputs = Inputs(DUMMY, "integer", impute, KERNELS[kernel].power, 0)
        model = ConditionalModel(DUMMY, inputs, kernel, rows, np.zeros(60), DUMMY.paths_of(rows))
        length = 0.5 * math.log(0.75) if kernel == "squared" else math.log(0.75)
        theta = np.array([np.log(1e-6), 0.0, *[length] * inputs.n_lengths])
        K = np.zeros((60, 60))
        for block, index in blocks_of(model).items():
            X = model.kernel(theta).inputs(block, rows[index])
            K[np.ix_(index, index)] = model.kernel(theta).matrix(block, X, X)
        return K

    blind, imputed = matrix("squared", impute=False), matrix("squared", impute=True)
    inside = ~across
    assert imputed[inside].mean() > blind[inside].mean() + 0.1  # imputing: rows of one branch are alike again
    assert imputed[across].min() > 0.1  # but neighbouring branches are still confused
    conditional, laplace, random_features = (matrix(k, impute=True) for k in ("conditional", "laplace", "mondrian"))
    assert np.all(conditional[across] == 0)
    assert conditional[inside].min() > 0
    assert laplace[across].min() > 0
    assert laplace[across].mean() < imputed[across].mean()
    assert np.abs(laplace - random_features).mean() < 0.05  # at a glance identical


def test_blocks_without_data_predict_the_prior_and_childless_branches_differ():
    space = Space({"model": Categorical([{"kind": "gnb"}, {"kind": "lda"}, {"kind": "knn", "n": Integer(1, 9)}])})
    rows = np.array([space.encode(space.point({"model": {"kind": "gnb"}}))])
    model = ConditionalModel(
        space, Inputs(space, "hamming", True, 2, 0), "conditional", rows, np.array([1.5]), space.paths_of(rows)
    )
    theta = model.start()
    posterior = model.posterior(theta)
    lda = space.encode(space.point({"model": {"kind": "lda"}}))
    assert posterior.predict(space.path_of(lda), lda[None]).mean[0] == 0.0
    assert posterior.predict(space.path_of(lda), lda[None]).sd[0] == pytest.approx(np.exp(theta[1] / 2))
    assert posterior.predict(space.path_of(rows[0]), rows).mean[0] > 1.0
    assert len(posterior.blocks) == 1


@pytest.mark.parametrize("kernel", ["conditional", "matern", "mondrian"])
def test_conditioning_on_rows_without_value_equals_believing_the_mean(kernel):
    rng = np.random.default_rng(6)
    for space in spaces(3):
        model, theta, rows = model_of(space, rng, kernel)
        extra = space.sample(rng, 4)
        paths = space.paths_of(extra)
        posterior = model.posterior(theta)
        grown = posterior.condition(extra, paths)
        believed = np.array([posterior.predict(p, r[None]).mean[0] for p, r in zip(paths, extra, strict=True)])
        both = ConditionalModel(
            space, model.inputs, kernel, np.vstack([rows, extra]), np.append(model.y, believed), space.paths_of(rows) + paths
        ).posterior(theta)
        for row in space.sample(rng, 5):
            ours, theirs = (p.predict(space.path_of(row), row[None]) for p in (grown, both))
            assert ours.mean[0] == pytest.approx(theirs.mean[0], abs=1e-6)
            assert ours.sd[0] == pytest.approx(theirs.sd[0], abs=1e-5)


# Inputs


@pytest.mark.parametrize("categories", CATEGORIES)
@pytest.mark.parametrize("impute", [True, False])
def test_equal_configurations_have_equal_numbers(categories, impute):
    rng = np.random.default_rng(8)
    for space in spaces(6):
        inputs = Inputs(space, categories, impute, 2, 0)
        rows = space.sample(rng, 10)
        again = np.array([space.encode(space.decode(row)) for row in rows])
        numbers = inputs(rows)
        assert np.isfinite(numbers).all()
        if impute:
            np.testing.assert_allclose(inputs(again), numbers, atol=1e-9)
        np.testing.assert_array_equal(inputs(rows[::-1])[::-1], numbers)


@pytest.mark.parametrize("power", [1, 2])
def test_categories_are_one_apart_whatever_the_kernel(power):
    space = Space({"c": Categorical("abcd"), "x": Float(0, 1)})
    rows = np.array([[u, 0.3] for u in (0.125, 0.375, 0.875)])
    for categories in ("hamming", "onehot"):
        numbers = Inputs(space, categories, True, power, 0)(rows)
        for a, b in itertools.combinations(numbers, 2):
            assert np.sum(np.abs(a - b) ** power) == pytest.approx(1.0)
    assert Inputs(space, "hamming", True, power, 0).n_lengths == 2
    assert Inputs(space, "onehot", True, power, 0).n_lengths == 5
    assert Inputs(space, "integer", True, power, 0)(rows).tolist() == rows.tolist()


@pytest.mark.parametrize("categories", CATEGORIES)
def test_equal_categories_are_one(categories):
    space = Space({"c": Categorical(["a", "a", "b"]), "x": Float(0, 1)})
    numbers = Inputs(space, categories, True, 2, 0)(np.array([[1 / 6, 0.5], [0.5, 0.5], [5 / 6, 0.5]]))
    np.testing.assert_array_equal(numbers[0], numbers[1])
    assert not np.array_equal(numbers[0], numbers[2])


def test_imputation_makes_inactive_coordinates_equal_and_noimpute_does_not():
    rows = DUMMY.mask(np.array([[0.1, 0.2, 0.9, 0.9], [0.1, 0.2, 0.1, 0.3], [0.9, 0.5, 0.5, 0.7]]))
    imputed = Inputs(DUMMY, "integer", True, 2, 0)(rows)
    np.testing.assert_allclose(imputed[0], imputed[1])
    assert imputed[0, 2:].tolist() == [0.5, 0.5]
    blind = Inputs(DUMMY, "integer", False, 2, 0)(rows)
    assert len(np.unique(blind[:, 2])) > 1
    np.testing.assert_array_equal(blind, Inputs(DUMMY, "integer", False, 2, 0)(rows))  # but always the same


# The Mondrian kernel


def test_the_mondrian_kernel_converges_to_the_laplace_kernel():
    rng = np.random.default_rng(9)
    lengths = np.array([0.3, 0.75, 2.0])
    points = rng.random((30, 3)) / lengths
    laplace = np.exp(-np.abs(points[:, None] - points[None]).sum(-1))
    errors = []
    for m in (20, 200, 2000):
        cells = mondrian.cells(points, 1 / lengths, m, seed=1)
        errors.append(np.sqrt(np.mean((mondrian.kernel(cells, cells) - laplace) ** 2)))
        assert errors[-1] < 0.6 / np.sqrt(m)  # a mean of m indicators
    assert errors[0] > 3 * errors[2]
    two = np.full((2, 30), 0.5)
    two[1, 0] += 0.01  # many coordinates, short length-scales: hundreds of levels
    cells = mondrian.cells(two / 0.01, np.full(30, 100.0), 1000, seed=1)
    assert mondrian.kernel(cells[:1], cells[1:])[0, 0] == pytest.approx(math.exp(-1), abs=0.06)


def test_a_points_mondrian_cell_does_not_depend_on_the_other_points():
    points = np.random.default_rng(10).random((20, 4)) * 3
    together = mondrian.cells(points, np.full(4, 3.0), 16, seed=2)
    apart = np.vstack([mondrian.cells(p[None], np.full(4, 3.0), 16, seed=2) for p in points])
    np.testing.assert_array_equal(together, apart)
    assert not np.array_equal(together, mondrian.cells(points, np.full(4, 3.0), 16, seed=3))


# The sampler


def test_slice_sampling_draws_from_known_densities():
    rng = np.random.default_rng(11)
    covariance = np.array([[1.0, 0.8], [0.8, 2.0]])
    inverse = np.linalg.inv(covariance)
    draws = sample(lambda x: -0.5 * x @ inverse @ x, np.array([5.0, -5.0]), (), rng, 6000, 100)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.2)
    np.testing.assert_allclose(draws.mean(axis=0), 0, atol=0.15)
    gamma = sample(lambda x: 2 * math.log(x[0]) - x[0] if x[0] > 0 else -np.inf, np.ones(1), (), rng, 4000, 50)[::4, 0]
    assert stats.kstest(gamma, stats.gamma(3.0).cdf).pvalue > 1e-3
    coupled = sample(lambda x: -0.5 * x @ inverse @ x, np.zeros(2), (0, 1), rng, 6000, 100)
    np.testing.assert_allclose(np.cov(coupled.T), covariance, atol=0.3)


def test_slice_sampling_of_two_modes_and_of_an_impossible_neighbourhood():
    rng = np.random.default_rng(12)
    modes = sample(lambda x: float(np.logaddexp(-0.5 * (x[0] - 2) ** 2, -0.5 * (x[0] + 2) ** 2)), np.zeros(1), (), rng, 4000)[
        :, 0
    ]
    assert 0.35 < np.mean(modes > 0) < 0.65
    lonely = along(lambda x: 0.0 if np.all(x == 0) else -np.inf, np.zeros(2), np.array([1.0, 0.0]), rng)
    assert lonely.tolist() == [0, 0]


def test_the_horseshoe_prior_and_its_slope():
    for log_variance in (-12.0, -2.0, 0.0, 3.0):
        value, slope = horseshoe(log_variance, 0.7)
        s = math.exp(log_variance / 2)
        assert value == pytest.approx(-math.log(math.log(1 + (0.7 / s) ** 2) * s))
        numeric = (horseshoe(log_variance + 1e-6, 0.7)[0] - horseshoe(log_variance - 1e-6, 0.7)[0]) / 2e-6
        assert slope == pytest.approx(numeric, abs=1e-6)


def test_sampled_hyperparameters_surround_the_map_estimate():
    space = Space({"x": Float(0, 1), "y": Float(0, 1)})
    rng = np.random.default_rng(13)
    rows = rng.random((40, 2))
    y = np.sin(8 * rows[:, 0]) + 0.05 * rng.normal(size=40)  # y does not depend on the second coordinate
    model = ConditionalModel(space, Inputs(space, "hamming", True, 2, 0), "conditional", rows, y, [()] * 40)
    draws = model.sample(None, rng, 60, 100)
    assert np.all(draws >= model.bounds[:, 0])
    assert np.all(draws <= model.bounds[:, 1])
    best = model.fit(None, 100).theta
    for k in range(3):
        assert draws[:, k].min() - 0.5 < best[k] < draws[:, k].max() + 0.5
    assert np.mean(draws[:, 2]) < np.mean(draws[:, 3])


# Acquisition


def test_expected_improvement_is_averaged_over_hyperparameters():
    values, gradients = np.array([-3.0, -1.0, -700.0]), np.array([[1.0, 0.0], [0.0, 2.0], [5.0, 5.0]])
    value, gradient = log_mean(values, gradients, np.full(3, -math.log(3)))
    assert value == pytest.approx(math.log((math.exp(-3) + math.exp(-1)) / 3))
    np.testing.assert_allclose(
        gradient, (math.exp(-3) * gradients[0] + math.exp(-1) * gradients[1]) / (math.exp(-3) + math.exp(-1))
    )
    optimizer = CondKernelOptimizer(MODELS, seed=0, num_initial=6, inference="slice")
    minimise(optimizer, lambda config: len(str(config)), 8)
    mixture = optimizer.strategy.fit().posterior
    assert len(mixture.parts) == 10
    row = optimizer.space.sample(np.random.default_rng(0), 1)
    path = optimizer.space.path_of(row[0])
    each = [np.exp(log_ei(*part.predict(path, row), part.lowest))[0] for part in mixture.parts]
    assert np.exp(optimizer.strategy.gain(mixture, None).score(path, row)[0]) == pytest.approx(np.mean(each))


def test_neighbours_change_one_active_parameter_and_decisions_too():
    rng = np.random.default_rng(14)
    for space in spaces(8):
        row = space.sample(rng, 1)[0]
        around = exchanges(space, row)
        points = {space.key(space.decode(r)) for r in around}
        assert space.key(space.decode(row)) not in points or space.size < 3
        for neighbour in around:
            alive = ~np.isnan(row) & ~np.isnan(neighbour)
            changed = np.flatnonzero(alive & (np.abs(np.where(alive, row - neighbour, 0)) > 1e-12))
            assert len(changed) <= 1  # what comes to life beside it was not there before
    space = Space(MODELS)
    svm = space.encode(
        space.point({"scaler": "none", "model": {"kind": "svm", "C": 1.0, "kernel": {"name": "rbf", "gamma": 0.1}}})
    )
    found = exchanges(space, svm)
    assert len(space.paths_of(found)) == len(found) == 1 + 2 + 1 + 2 * 2 * len(STEPS)
    assert len(set(space.paths_of(found))) == 4  # rbf itself, linear, knn, gnb


def test_local_search_finds_the_best_of_a_conditional_space_from_anywhere():
    space = Space(MODELS)
    knn = space.parameters[
        [p.name for p in space.parameters].index(next(p.name for p in space.parameters if "n_neigh" in p.name))
    ]
    column = list(space.parameters).index(knn)

    def score(rows):
        alive = ~np.isnan(rows[:, column])
        return np.where(alive, 1.0 - np.abs(np.nan_to_num(rows[:, column]) - knn.domain.unit(17)), -np.nan_to_num(rows[:, 0]))

    ends, values = climb(space, space.sample(np.random.default_rng(15), 6), score)
    for end in ends:
        assert space.config(space.decode(end))["model"] == {"kind": "knn", "n_neighbors": 17}
    np.testing.assert_allclose(values, 1.0)


# The optimizer


def minimise(optimizer, function, n):
    best = math.inf
    for _ in range(n):
        suggestion = optimizer.ask()
        value = function(suggestion.config)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
    return best


def svm_like(config):
    model = config["model"]
    if model["kind"] == "svm":
        gamma = model["kernel"].get("gamma", 1.0)
        return 0.1 + 0.05 * math.log10(model["C"]) ** 2 + 0.1 * (math.log10(gamma) + 2) ** 2
    return 0.4 + 0.001 * abs(model["n_neighbors"] - 9) if model["kind"] == "knn" else 0.5


VARIANTS = {
    "default": {},
    "paper": PAPER,
    "random": {"search": "random"},
    "local": {"search": "local"},
    "laplace": {"kernel": "laplace"},
    "laplace-gradient": {"kernel": "laplace", "search": "gradient"},
    "mondrian": {"kernel": "mondrian"},
    "matern": {"kernel": "matern", "categories": "onehot"},
    "noimpute": {"kernel": "matern", "impute": False, "categories": "integer"},
    "squared": {"kernel": "squared"},
}


@pytest.mark.parametrize("structure", [MODELS, LAYERS, {"x": Float(0, 1)}], ids=["models", "layers", "flat"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_runs_and_is_restored_exactly(variant, structure, caplog):
    optimizer = CondKernelOptimizer(structure, seed=0, num_initial=4, **VARIANTS[variant])
    minimise(optimizer, lambda config: math.sin(len(str(config))), 7)
    optimizer.ask()
    other = Optimizer.from_state(state.read(optimizer.save()))
    assert other.save() == optimizer.save()
    for _ in range(2):
        mine, theirs = optimizer.ask(), other.ask()
        assert mine == theirs
        optimizer.tell(mine.id, 0.3)
        other.tell(mine.id, 0.3)
    assert not caplog.records


@pytest.mark.parametrize("variant", ["default", "local", "laplace", "matern"])
def test_it_finds_the_best_branch_and_its_minimum(variant):
    optimizer = CondKernelOptimizer(MODELS, seed=1, **VARIANTS[variant])
    assert minimise(optimizer, svm_like, 40) < 0.13
    recommended = optimizer.recommend()
    assert recommended.config["model"]["kind"] == "svm"
    assert recommended.value == pytest.approx(0.1, abs=0.05)
    table = optimizer.explain().table
    assert table["path"][0].startswith("model=svm, ") or "svm" in table["path"][0]
    assert {"model_mean", "model_sd"} <= set(table.columns)
    assert "length-scales" in str(optimizer.explain())


def test_looking_changes_nothing_whatever_the_inference():
    for inference in ("map", "slice"):
        one, other = (CondKernelOptimizer(MODELS, seed=3, num_initial=4, inference=inference) for _ in range(2))
        for k in range(7):
            a, b = one.ask(), other.ask()
            assert a == b
            one.tell(a.id, svm_like(a.config))
            other.tell(b.id, svm_like(b.config))
            if k > 3:
                other.explain()
                other.recommend()


def test_eight_suggestions_at_once_are_different_and_in_sensible_places():
    """Sensible: what is typical of the eight would be in the best fifth of random ones."""
    medians = []
    for seed in range(1, 7):
        optimizer = CondKernelOptimizer(MODELS, seed=seed, num_initial=10)
        minimise(optimizer, svm_like, 14)
        asked = [optimizer.ask().config for _ in range(8)]
        assert len({str(config) for config in asked}) == 8
        medians.append(np.median([svm_like(config) for config in asked]))
    blind = RandomOptimizer(MODELS, seed=0)
    assert np.median(medians) < np.quantile([svm_like(blind.ask().config) for _ in range(200)], 0.2)


def test_settings_are_checked():
    for settings in (
        {"kernel": "rbf"},
        {"search": "best"},
        {"inference": "mcmc"},
        {"categories": "ordinal"},
        {"kernel": "mondrian", "search": "gradient"},
    ):
        with pytest.raises(SettingError):
            CondKernelOptimizer(MODELS, **settings)
