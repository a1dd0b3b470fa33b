"""Treed Gaussian processes (Assael et al. 2014): splits, weights, warping, leaves, the optimizer."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from raytree import HTBOOptimizer, Optimizer, Space, state
from raytree.errors import SettingError, StateError
from raytree.gp import warping
from raytree.models.inputs import Inputs
from raytree.models.partition import SMALLEST, best_split, boxes, grow, leaf_numbers
from raytree.models.treed import THIN, TreedGP
from raytree.objectives import gramacy, rkhs
from raytree.optimizers.htbo import BO, BO_WARP
from raytree.space import Categorical, Float, Integer
from tests.spaces import LAYERS, MODELS, random_space

PLANE = Space({"x": Float(0, 1), "y": Float(0, 1)})


def brute_force(rows, y, categorical, smallest):
    """Every split of every coordinate, from the definition (1)."""

    def error(part):
        return float(np.mean((part - part.mean()) ** 2))

    best = 0.0
    for i in range(rows.shape[1]):
        if np.isnan(rows[:, i]).any():
            continue
        for at in np.unique(rows[:, i]):
            low, high = (rows[:, i] == at, rows[:, i] != at) if categorical[i] else (rows[:, i] <= at, rows[:, i] >= at)
            sizes = low.sum(), high.sum()
            if min(sizes) >= smallest and max(sizes) < len(y):
                gain = error(y) - sizes[0] / len(y) * error(y[low]) - sizes[1] / len(y) * error(y[high])
                best = max(best, gain)
    return best


def test_the_split_search_finds_what_brute_force_finds():
    rng = np.random.default_rng(0)
    for _ in range(60):
        m = int(rng.integers(9, 30))
        rows = np.column_stack([rng.random(m), rng.integers(0, 4, m) / 4, rng.integers(0, 3, m) / 3, rng.random(m)])
        rows[rng.random(m) < 0.3, 3] = np.nan
        y = rng.normal(size=m) + 2 * (rows[:, 0] > 0.6)
        categorical = [False, False, True, False]
        found = best_split(rows, y, categorical, 5)
        expected = brute_force(rows, y, categorical, 5)
        if found is None:
            assert expected == pytest.approx(0, abs=1e-9)
            continue
        _, _, _, low, high = found
        error = [len(side) / m * np.var(y[side]) for side in (low, high)]
        assert np.var(y) - sum(error) == pytest.approx(expected, abs=1e-9)


def test_a_split_point_is_in_both_leaves_and_leaves_are_large_enough():
    rng = np.random.default_rng(1)
    for space in (PLANE, Space(MODELS), Space(LAYERS), random_space(rng)):
        rows = space.sample(rng, 60)
        root = grow(space, rows, rng.normal(size=60))
        for path in root.walk():
            assert len(path[-1].rows) >= SMALLEST
            for node, child in itertools.pairwise(path):
                assert len(child.rows) < len(node.rows)
                if not node.equality:
                    low, high = node.children()
                    both = set(low.rows) & set(high.rows)
                    assert both
                    assert all(rows[k, node.parameter] == node.at for k in both)
                    assert set(low.rows) | set(high.rows) == set(node.rows)
        numbers = leaf_numbers(root, rows)
        leaves = [path[-1] for path in root.walk()]
        assert all(k in leaves[number].rows for k, number in enumerate(numbers))
        for row, number in zip(rows, numbers, strict=True):
            box = boxes(root, space.d)[number]
            inside = ~np.isnan(row)
            assert np.all(row[inside] >= box[inside, 0] - 1e-12)
            assert np.all(row[inside] <= box[inside, 1] + 1e-12)


def model_of(rng, space=PLANE, n=40, warped=False, conditioning="all", treed=True):
    rows = space.sample(rng, n)
    y = np.nan_to_num(rows[:, 0]) * 3 + rng.normal(size=n)
    model = TreedGP(space, Inputs(space, "hamming", True, 2, 0), rows, (y - y.mean()) / y.std(), warped, treed, conditioning, 0)
    theta = model._center + 0.2 * rng.normal(size=len(model._center))
    theta[0] = np.log(0.05)
    return model, theta, rows


def test_weights_of_the_nodes_on_a_path():
    model, _, _ = model_of(np.random.default_rng(2), n=THIN)
    for path in model.paths:
        leaf = path[-1]
        parts = model.parts(path)
        assert parts[-1].weight == 1.0
        for node, part in zip(path, parts, strict=True):
            assert part.weight == pytest.approx(len(leaf.rows) / len(node.rows) / (1 + leaf.depth - node.depth))
    model, _, _ = model_of(np.random.default_rng(2), n=THIN + 50)
    path = model.paths[0]
    first = model.parts(path)[0]
    assert len(first.rows) == THIN
    assert first.weight == pytest.approx(len(path[-1].rows) / THIN / (1 + path[-1].depth))


def test_the_objective_of_a_leaf_is_the_weighted_sum():
    model, theta, rows = model_of(np.random.default_rng(3), n=THIN)
    path = max(model.paths, key=len)
    expected = model.log_prior(theta)[0]
    scale = np.exp(theta[3:])
    for node in path:
        X = rows[node.rows]
        r = np.sqrt(5 * (((X[:, None] - X[None]) / scale) ** 2).sum(-1))
        K = np.exp(theta[1]) * (1 + r + r**2 / 3) * np.exp(-r) + np.exp(theta[0]) * np.eye(len(X))
        weight = len(path[-1].rows) / len(node.rows) / (1 + path[-1].depth - node.depth)
        expected += weight * stats.multivariate_normal(np.full(len(X), theta[2]), K).logpdf(model.y[node.rows])
    assert model.objective(model.stacked(model.parts(path)), theta)[0] == pytest.approx(expected, abs=1e-8)


def test_the_prior_of_a_leaf_is_centred_at_the_whole(monkeypatch):
    model, theta, _ = model_of(np.random.default_rng(5))
    center = np.append(theta[0], theta[1:] + 1.0)
    apart = model.log_prior(center, center)[0] - model.log_prior(theta, center)[0]
    assert apart == pytest.approx(0.5 * np.sum(model._sd[1:] ** -2.0))
    centers = []
    plain = model.log_prior
    monkeypatch.setattr(model, "log_prior", lambda theta, center=None: (centers.append(center), plain(theta, center))[1])
    whole = model.fit_whole(None, 20).theta
    leaves = model.fit_leaves(whole, 5)
    assert len(leaves) > 1
    assert centers[0] is None
    assert np.array_equal(centers[-1], whole)


@pytest.mark.parametrize("warped", [False, True])
@pytest.mark.parametrize("structure", [{"x": Float(0, 1), "y": Float(0, 1)}, MODELS], ids=["flat", "models"])
def test_gradient_of_the_objective(structure, warped):
    model, theta, _ = model_of(np.random.default_rng(4), Space(structure), 25, warped)
    stack = model.stacked(model.parts(model.paths[0]))
    _, gradient = model.objective(stack, theta)
    for k in range(len(theta)):
        step = 1e-5 * np.eye(len(theta))[k]
        numeric = (model.objective(stack, theta + step)[0] - model.objective(stack, theta - step)[0]) / 2e-5
        assert gradient[k] == pytest.approx(numeric, rel=1e-3, abs=1e-4)


def test_warping_is_monotone_from_the_unit_interval_onto_itself():
    x = np.linspace(0, 1, 101)[:, None]
    for a, b in ((0.2, 3.0), (1.0, 1.0), (5.0, 0.5)):
        laws = np.log([a]), np.log([b])
        w = warping.warp(x, *laws)
        assert w[0, 0] == 0.0
        assert w[-1, 0] == pytest.approx(1.0)
        assert np.all(np.diff(w[:, 0]) >= 0)
        numeric = (warping.warp(x + 1e-6, *laws) - warping.warp(x - 1e-6, *laws))[5:-5] / 2e-6
        np.testing.assert_allclose(warping.slope(x, *laws)[5:-5], numeric, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(w[:, 0], stats.beta(a, b).cdf(x[:, 0]), atol=1e-12)
    np.testing.assert_allclose(warping.warp(x, np.zeros(1), np.zeros(1)), x, atol=1e-12)


def test_a_leaf_conditions_on_everything_or_on_its_own():
    for conditioning in ("all", "leaf"):
        model, theta, rows = model_of(np.random.default_rng(5), conditioning=conditioning)
        thetas = [theta[None] for _ in model.paths]
        posterior = model.posterior(thetas)
        kernel = ConstantKernel(np.exp(theta[1]), "fixed") * Matern(np.exp(theta[3:]), "fixed", nu=2.5)
        test = np.random.default_rng(6).random((15, 2))
        leaves = posterior.leaf_of(test)
        for row, leaf in zip(test, leaves, strict=True):
            index = np.arange(len(rows)) if conditioning == "all" else model.paths[leaf][-1].rows
            oracle = GaussianProcessRegressor(kernel, alpha=np.exp(theta[0]), optimizer=None)
            oracle.fit(rows[index], model.y[index] - theta[2])
            mean, sd = oracle.predict(row[None], return_std=True)
            prediction = posterior.predict((), row[None])
            assert prediction.mean[0] == pytest.approx(mean[0] + theta[2], abs=1e-7)
            assert prediction.sd[0] == pytest.approx(sd[0], abs=1e-7)


def test_no_spike_of_variance_between_two_leaves():
    """Figure 1: with the split point in both leaves, the deviation at the border is as small as at a data point."""
    space = Space({"x": Float(0, 1)})
    x = np.linspace(0, 1, 12)
    y = np.where(x < 0.5, 0.0, 3.0) + 0.1 * np.sin(20 * x)
    model = TreedGP(space, Inputs(space, "hamming", True, 2, 0), x[:, None], (y - y.mean()) / y.std(), False, True, "leaf", 0)
    assert len(model.paths) == 2
    posterior = model.posterior(model.fit_leaves(model.fit_whole(None, 60).theta, 30))
    border = model.root.at
    at_border = posterior.predict((), np.array([[border - 1e-4], [border + 1e-4]])).sd
    at_points = posterior.predict((), x[:, None]).sd
    assert at_border.max() < 1.5 * at_points.max()


def test_conditioning_on_running_trials_is_believing_their_mean():
    rng = np.random.default_rng(7)
    for conditioning in ("all", "leaf"):
        model, theta, _ = model_of(rng, conditioning=conditioning)
        posterior = model.posterior([theta[None] for _ in model.paths])
        extra = rng.random((3, 2))
        grown = posterior.condition(extra, [()] * 3)
        test = np.vstack([rng.random((10, 2)), extra])
        before, after = posterior.predict((), test), grown.predict((), test)
        np.testing.assert_allclose(after.mean, before.mean, atol=1e-8)
        assert np.all(after.sd <= before.sd + 1e-9)
        assert np.all(after.sd[-3:] < before.sd[-3:])


# The optimizer


def minimise(optimizer, function, n):
    best = math.inf
    for _ in range(n):
        suggestion = optimizer.ask()
        value = function(suggestion.config)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
    return best


VARIANTS = {"default": {}, "warp": {"warp": True}, "leaf": {"conditioning": "leaf"}, "bo": BO, "bo-warp": BO_WARP}


STRUCTURES = {"models": MODELS, "layers": LAYERS, "flat": {"x": Float(0, 1)}}


@pytest.mark.parametrize(("variant", "space"), [*itertools.product(VARIANTS, STRUCTURES), ("slice", "models"), ("slice", "flat")])
def test_every_variant_runs_and_is_restored_exactly(variant, space, caplog):
    settings, structure = {**VARIANTS, "slice": {"inference": "slice"}}[variant], STRUCTURES[space]
    optimizer = HTBOOptimizer(structure, seed=0, num_initial=4, **settings)
    minimise(optimizer, lambda config: math.sin(len(str(config))), 6 if variant == "slice" else 12)
    optimizer.ask()
    other = Optimizer.from_state(state.read(optimizer.save()))
    assert other.save() == optimizer.save()
    mine, theirs = optimizer.ask(), other.ask()
    assert mine == theirs
    assert not caplog.records


def test_the_papers_functions_have_their_optima():
    grid = np.linspace(0, 1, 200_001)
    values = np.array([rkhs()({"x": x}) for x in grid[::20]])
    assert values.min() == pytest.approx(rkhs().minimum, abs=1e-3)
    assert rkhs()({"x": 0.89235975}) == pytest.approx(rkhs().minimum, abs=1e-6)
    assert rkhs()({"x": 0.07773}) == pytest.approx(-4.96777, abs=1e-4)  # the trap
    assert gramacy()({"x": -(0.5**0.5), "y": 0.0}) == pytest.approx(gramacy().minimum)


def test_a_hole_in_a_plain_is_found():
    optimizer = HTBOOptimizer(gramacy().space, seed=0)
    assert minimise(optimizer, gramacy(), 40) < -0.42
    text = str(optimizer.explain())
    assert "leaves" in text
    assert "points" in text
    assert optimizer.recommend().value < -0.4


def stepped(config):
    """A step between two categories, a slope in each."""
    return (3.0 if config["c"] == "a" else 0.0) + (config["x"] - 0.3) ** 2 + 0.1 * abs(config["n"] - 4)


def test_mixed_spaces_split_on_categories_and_decisions():
    space = {"c": Categorical("ab"), "n": Integer(1, 9), "x": Float(0, 1)}
    optimizer = HTBOOptimizer(space, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(16):  # both categories well known
        row = optimizer.space.config(optimizer.space.decode(optimizer.space.sample(rng, 1)[0]))
        optimizer.give(row, stepped(row))
    assert "c is" in str(optimizer.explain())
    assert minimise(optimizer, stepped, 20) < 0.02


def drill(config):
    return -math.exp(-10 * ((config["x"] - 0.7) ** 2 + (config["y"] - 0.2) ** 2))


@pytest.mark.parametrize("form", ["list", "frame", "array"])
def test_a_pool_is_searched_each_once_and_then_the_search_ends(form):
    import pandas

    places = np.random.default_rng(8).random((40, 2))
    frame = pandas.DataFrame(places, columns=["x", "y"])
    candidates = {"list": frame.to_dict("records"), "frame": frame, "array": places}[form]
    optimizer = HTBOOptimizer(PLANE, seed=0, candidates=candidates, num_initial=5)
    seen = []
    while (suggestion := optimizer.ask()) is not None:
        seen.append((suggestion.config["x"], suggestion.config["y"]))
        optimizer.tell(suggestion.id, drill(suggestion.config))
    assert sorted(seen) == sorted(map(tuple, places.tolist()))
    best = min(range(40), key=lambda k: drill({"x": places[k, 0], "y": places[k, 1]}))
    assert seen.index(tuple(places[best])) < 20


def test_a_pool_is_not_saved_but_must_be_the_same_when_restored():
    places = np.random.default_rng(9).random((30, 2))
    optimizer = HTBOOptimizer(PLANE, seed=0, candidates=places, num_initial=3)
    minimise(optimizer, drill, 8)
    text = optimizer.save()
    assert str(places[0, 0]) not in text or len(text) < 20_000
    other = Optimizer.from_state(state.read(text), candidates=places)
    assert other.ask() == optimizer.ask()
    for wrong in ({}, {"candidates": places[:-1]}):
        with pytest.raises(StateError, match="candidates"):
            Optimizer.from_state(state.read(text), **wrong)


def test_settings_are_checked():
    for settings in (
        {"conditioning": "some"},
        {"inference": "mcmc"},
        {"candidates": []},
        {"candidates": 3},
        {"candidates": np.zeros((3, 5))},
        {"candidates": [{"x": 0.5, "y": 0.5}, {"x": 2.0, "y": 0.5}]},
    ):
        with pytest.raises(SettingError):
            HTBOOptimizer(PLANE, **settings)


def test_a_suggestion_is_close_to_a_trial_by_numbers_and_never_by_neighbouring_names():
    space = {"x": Float(0, 1), "kind": Categorical([str(k) for k in range(30)])}
    optimizer = HTBOOptimizer(space, seed=0)
    optimizer.give({"x": 0.5, "kind": "3"}, 1.0)
    rows = [optimizer.space.encode(optimizer.point({"x": x, "kind": kind})) for x, kind in ((0.52, "3"), (0.6, "3"), (0.5, "4"))]
    assert [optimizer.strategy.is_close(row) for row in rows] == [True, False, False]


def test_candidates_of_a_nested_space_as_a_frame_or_an_array():
    places = np.random.default_rng(0).random((8, 2))
    nested = Space({"a": {"x": Float(0, 1)}, "y": Float(0, 1)})
    frame = pandas.DataFrame(places, columns=["a/x", "y"])
    for candidates in (frame, places):
        optimizer = HTBOOptimizer(nested, seed=0, candidates=candidates, num_initial=3)
        asked = [optimizer.ask().config for _ in range(8)]
        assert sorted((c["a"]["x"], c["y"]) for c in asked) == sorted(map(tuple, places.tolist()))
    branches = Space({"m": Categorical([{"k": "a", "x": Float(0, 1)}, {"k": "b", "n": Integer(1, 9)}])})
    frame = pandas.DataFrame([{"m/k": "a", "m/x": 0.5}, {"m/k": "b", "m/n": 3}])
    optimizer = HTBOOptimizer(branches, seed=0, candidates=frame, num_initial=1)
    assert sorted(optimizer.ask().config["m"]["k"] for _ in range(2)) == ["a", "b"]
    with pytest.raises(SettingError, match="must be a list, a DataFrame or an array"):
        HTBOOptimizer(branches, candidates=frame["m/x"])
