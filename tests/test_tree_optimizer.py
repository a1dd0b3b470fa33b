"""TreeOptimizer: proposals, pending trials, many paths, variants, baselines, explanations."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from raytree import CondKernelOptimizer, Optimizer, TreeOptimizer, state
from raytree.acquisition.improvement import log_ei
from raytree.acquisition.maximize import Candidate, Gain, box_of, maximize, neighbours, refine, transplanted
from raytree.acquisition.paths import known_paths, log_path_ei, optimistic, promising
from raytree.errors import SettingError
from raytree.models.arc import ArcGP
from raytree.objectives import mixed_leaves, narrow_leaf, tree_function, twelve
from raytree.optimizers.arc import ArcOptimizer
from raytree.optimizers.conditional import FLAT
from raytree.optimizers.tree import INDEPENDENT, MARGINAL, PAPER, PAPER_NONLINEAR
from raytree.space import Categorical, Float, Integer, Space
from tests.spaces import LAYERS, MODELS

VARIANTS = {"default": {}, "paper": PAPER, "nonlinear": PAPER_NONLINEAR, "independent": INDEPENDENT, "marginal": MARGINAL}


def minimise(optimizer: Optimizer, function, n: int) -> list[float]:
    """n evaluations; the best so far after each."""
    best, trace = math.inf, []
    for _ in range(n):
        suggestion = optimizer.ask()
        assert suggestion is not None
        value = function(suggestion.config)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
        trace.append(best)
    return trace


# Quality, in small: the benchmark has the figures


def test_it_finds_the_best_leaf_and_its_minimum_on_a_synthetic_tree():
    objective = tree_function("small", "balanced", "linear", shift=0.37)
    optimizer = TreeOptimizer(objective.space, seed=0, num_initial=4)
    trace = minimise(optimizer, objective, 50)
    assert trace[-1] - objective.minimum < 1e-3
    assert objective.in_best_leaf(optimizer.recommend().config)
    assert optimizer.recommend().config["d"]["r"] == 0.0  # the boundary is reached exactly


def test_a_leaf_that_is_bad_on_average_and_best_at_a_narrow_optimum_is_found():
    objective = narrow_leaf()
    assert minimise(TreeOptimizer(objective.space, seed=1), objective, 60)[-1] < 0.05


def test_leaves_of_different_dimension_and_scale():
    objective = mixed_leaves()
    assert minimise(TreeOptimizer(objective.space, seed=0), objective, 45)[-1] < 0.02


def test_a_flat_space_is_plain_gp_optimization():
    space = {"x": Float(-5, 10), "y": Float(0, 15)}

    def branin(c):
        x, y = c["x"], c["y"]
        bowl = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
        return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10

    assert minimise(TreeOptimizer(space, seed=0), branin, 35)[-1] < 0.3979 + 1e-2


def test_mixed_leaves_with_categories_and_integers():
    space = {
        "m": Categorical(
            [{"n": Integer(1, 50), "c": Categorical("abcd"), "x": Float(0, 1, step=0.1)}, {"k": Integer(1, 900, log=True)}]
        )
    }

    def function(c):
        m = c["m"]
        return (
            abs(math.log(m["k"] / 30)) + 0.5
            if "k" in m
            else 0.02 * abs(m["n"] - 17) + 0.3 * (m["c"] != "c") + (m["x"] - 0.4) ** 2
        )

    assert minimise(TreeOptimizer(space, seed=0), function, 45)[-1] < 0.05


# Pending


def test_eight_suggestions_at_once_are_eight_sensible_points():
    objective = tree_function("small", "balanced", "none")
    optimizer = TreeOptimizer(objective.space, seed=0, num_initial=8)
    minimise(optimizer, objective, 16)
    asked = [optimizer.ask().config for _ in range(8)]
    space = objective.space
    rows = np.array([space.encode(space.point(config)) for config in asked])
    paths = [space.path_of(row) for row in rows]
    for a in range(8):
        for b in range(a):
            if paths[a] == paths[b]:
                assert np.nanmax(np.abs(rows[a] - rows[b])) > 1e-4
    assert len(set(paths)) >= 2
    random = [objective(space.config(space.decode(row))) for row in space.sample(np.random.default_rng(0), 200)]
    assert min(objective(config) for config in asked) < np.quantile(random, 0.05)


def test_asking_eight_times_equals_asking_for_eight():
    one, two = (TreeOptimizer(MODELS, seed=0, num_initial=4) for _ in range(2))
    for optimizer in (one, two):
        minimise(optimizer, lambda config: len(str(config)), 8)
    assert [one.ask() for _ in range(4)] == [two.ask() for _ in range(4)]


def test_looking_changes_nothing():
    one, two = (TreeOptimizer(MODELS, seed=0, num_initial=4) for _ in range(2))
    for optimizer in (one, two):
        for k in range(10):
            suggestion = optimizer.ask()
            optimizer.tell(suggestion.id, math.sin(k))
            if optimizer is one:
                optimizer.recommend()
                optimizer.explain()
    assert one.save() == two.save()


def test_a_path_that_fails_is_avoided_but_never_given_up():
    space = {"m": Categorical([{"x": Float(0, 1)}, {"y": Float(0, 1)}])}
    optimizer = TreeOptimizer(space, seed=0, num_initial=4)
    seen = Counter()
    for _ in range(24):
        suggestion = optimizer.ask()
        broken = "x" in suggestion.config["m"]
        seen[broken] += 1
        optimizer.tell(suggestion.id, math.nan if broken else 1.0 + (suggestion.config["m"]["y"] - 0.5) ** 2)
    assert seen[True] < seen[False]


# Many paths


def test_a_category_seen_only_in_bad_company_is_not_given_up():
    def value(config):
        return abs(config["rate"] - 0.8) + {"slow": 0.3, "fair": 0.25, "good": 0.0}[config["kind"]]

    optimizer = TreeOptimizer({"rate": Float(0, 1), "kind": Categorical(["slow", "fair", "good"])}, seed=0, num_initial=2)
    for rate in (0.0, 0.02, 0.1):
        optimizer.give({"rate": rate, "kind": "good"}, value({"rate": rate, "kind": "good"}) + 1.0)
    for rate in (0.5, 0.7, 0.9):
        optimizer.give({"rate": rate, "kind": "slow"}, value({"rate": rate, "kind": "slow"}))
    minimise(optimizer, value, 12)
    assert optimizer.recommend().config["kind"] == "good"


def test_of_many_paths_those_that_are_best_at_a_glance_are_searched():
    space = Space({"m": Categorical([{"k": k, "x": Float(0, 1)} for k in range(9)])})
    paths = space.paths()
    looked: dict[tuple[int, ...], int] = dict.fromkeys(paths, 0)

    def score(path, rows):
        looked[path] += len(rows)
        return -((rows[:, 1 + path[0]] - 0.7) ** 2) - path[0] % 7

    def slope(path, row):
        gradient = np.zeros(len(row))
        gradient[1 + path[0]] = -2.0 * (row[1 + path[0]] - 0.7)
        return float(score(path, row[None])[0]), gradient

    found = maximize(space, paths, Gain(score, slope), {}, np.random.default_rng(0))
    assert found[0].path in (paths[0], paths[7])
    assert found[0].row[1 + found[0].path[0]] == pytest.approx(0.7, abs=1e-4)
    assert [looked[path] > 100 for path in paths] == [True, True, False, False, False, False, False, True, True]
    assert all(count > 0 for count in looked.values())
    assert {candidate.path for candidate in found} == set(paths)  # the others are a reserve


def test_thousands_of_paths():
    space = Space({f"d{k}": Categorical([{"a": Float(0, 1)}, {"b": Float(0, 1)}]) for k in range(12)})

    def function(config):
        return sum((m["a"] - 0.3) ** 2 if "a" in m else 0.2 + (m["b"] - 0.6) ** 2 for m in config.values())

    optimizer = TreeOptimizer(space, seed=0)
    trace = minimise(optimizer, function, 60)
    random = np.mean([function(space.config(space.decode(row))) for row in space.sample(np.random.default_rng(0), 500)])
    assert trace[-1] < 0.4 * random
    assert len(optimizer.space._alive) < 4096


def test_known_and_promising_paths():
    space = Space(MODELS)
    rng = np.random.default_rng(0)
    assert known_paths(space, [], rng) == space.paths()
    optimizer = TreeOptimizer(space, seed=0, num_initial=8)
    minimise(optimizer, lambda config: len(str(config)), 12)
    fitted = optimizer.strategy.fit()
    best = promising(space, space.paths(), lambda p, rows: optimistic(fitted.posterior.parts[0], p, rows, fitted.best), 2, rng)
    assert len(best) == 2
    assert set(best) <= set(space.paths())


# Acquisition


def test_path_ei_against_monte_carlo():
    optimizer = TreeOptimizer(tree_function("small", "balanced", "linear").space, seed=0, num_initial=8)
    minimise(optimizer, tree_function("small", "balanced", "linear"), 10)
    (posterior,) = optimizer.strategy.fit().posterior.parts
    space = optimizer.space
    rng = np.random.default_rng(0)
    for path in space.paths():
        row = space.on_path(path, rng.random((1, space.d)))
        prediction = posterior.predict_path(path, row)
        draws = prediction.mean[0] + prediction.sd[0] * rng.normal(size=2_000_000)
        best = float(prediction.mean[0] - prediction.sd[0])
        improvement = np.maximum(0, best - draws).mean()
        assert np.exp(log_path_ei(posterior, path, row, best)[0]) == pytest.approx(improvement, rel=0.02)


def test_two_step_search_takes_the_path_and_shared_setting_of_the_best_path_ei():
    objective = tree_function("small", "balanced", "linear")
    optimizer = TreeOptimizer(objective.space, seed=0, num_initial=4, **PAPER)
    minimise(optimizer, objective, 12)
    space = objective.space
    fitted = optimizer.strategy.fit()
    row = next(iter(optimizer.strategy.propose(0, np.random.default_rng(1))))
    chosen = log_path_ei(fitted.posterior.parts[0], space.path_of(row), row[None], fitted.best)[0]
    others = [
        log_path_ei(
            fitted.posterior.parts[0], path, space.on_path(path, np.random.default_rng(2).random((400, space.d))), fitted.best
        ).max()
        for path in space.paths()
    ]
    assert chosen >= max(others) - 1e-3


def test_boundaries_are_reached_exactly_and_refining_never_makes_worse():
    space = Space({"x": Float(2, 5), "y": Float(1e-3, 1, log=True), "k": Integer(1, 100)})

    def score(path, rows):
        return rows[:, 0] - rows[:, 1] - np.abs(rows[:, 2] - 0.305)

    def slope(path, row):
        return float(score(path, row[None])[0]), np.array([1.0, -1.0, 0.0])

    best = maximize(space, [()], Gain(score, slope), {}, np.random.default_rng(0))[0]
    config = space.config(space.decode(best.row))
    assert (config["x"], config["y"]) == (5.0, 1e-3)
    assert config["k"] == 31
    start = Candidate(-5.0, (), best.row)
    flat = Gain(lambda path, rows: np.full(len(rows), -9.0), lambda path, row: (-9.0, np.zeros(3)))
    assert refine(space, start, box_of(space, ()), flat, 10, 1e-6) == start


@pytest.mark.parametrize(
    "structure", [{f"c{k}": Categorical("abcd") for k in range(5)}, {"n": Integer(0, 500)}], ids=["words", "integer"]
)
def test_proposals_on_discrete_spaces_are_distinct(structure):
    for kind in (TreeOptimizer, CondKernelOptimizer):
        optimizer = kind(structure, seed=0, num_initial=6)
        minimise(optimizer, lambda config: math.sin(3 * sum(number_of(v) for v in config.values())), 20)
        rows = list(optimizer.strategy.propose(0, np.random.default_rng(0)))
        points = {optimizer.space.decode(row) for row in rows}
        assert len(points) >= 4
        assert any(not optimizer.observations.used(point) for point in points)


def number_of(value):
    return value if isinstance(value, int) else ord(value)


def test_a_row_transplanted_to_another_path_keeps_what_is_alive_there():
    rng = np.random.default_rng(0)
    for structure in (MODELS, LAYERS):
        space = Space(structure)
        rows = space.sample(rng, 10)
        for row, path in itertools.product(rows, space.paths(20)):
            (moved,) = transplanted(space, row, [path])
            assert space.path_of(moved) == path
            np.testing.assert_array_equal(np.isnan(moved), ~space.active(path))
            if path == space.path_of(row):
                np.testing.assert_array_equal(moved, row)
            for i in np.flatnonzero(~np.isnan(row) & space.active(path)).tolist():
                assert moved[i] == row[i] or i in space.cells


def test_neighbours_are_other_values_of_the_domain():
    space = Space({"a": Integer(1, 1000), "b": Categorical("abc"), "c": Float(0, 1, step=0.01), "d": Integer(1, 5)})
    for i, parameter in enumerate(space.parameters):
        domain = parameter.domain
        for code in list(domain.codes())[:: max(1, int(domain.size) // 7)]:
            units = neighbours(space, i, domain.unit(code))
            codes = [domain.code(u) for u in units]
            assert code not in codes
            assert len(set(codes)) == len(codes) >= 2
    assert {space.parameters[0].domain.code(u) for u in neighbours(space, 0, space.parameters[0].domain.unit(500))} >= {
        499,
        501,
    }


# Variants, state, settings


@pytest.mark.parametrize("structure", [MODELS, LAYERS, {"x": Float(0, 1)}], ids=["models", "layers", "flat"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_runs_and_is_restored_exactly(variant, structure):
    optimizer = TreeOptimizer(structure, seed=0, num_initial=4, **VARIANTS[variant])
    minimise(optimizer, lambda config: math.sin(len(str(config))), 9)
    optimizer.ask()
    other = Optimizer.from_state(state.read(optimizer.save()))
    assert other.save() == optimizer.save()
    for _ in range(2):
        mine, theirs = optimizer.ask(), other.ask()
        assert mine == theirs
        optimizer.tell(mine.id, 0.3)
        other.tell(mine.id, 0.3)


@pytest.mark.parametrize(("kind", "settings"), [(ArcOptimizer, {}), (CondKernelOptimizer, FLAT)], ids=["arc", "flat"])
def test_the_dense_baselines_search_and_are_restored(kind, settings):
    objective = tree_function("small", "balanced", "none")
    optimizer = kind(objective.space, seed=0, num_initial=4, **settings)
    trace = minimise(optimizer, objective, 22)
    assert trace[-1] < trace[3]
    other = Optimizer.from_state(state.read(optimizer.save()))
    assert other.ask() == optimizer.ask()


def test_gradients_of_the_arc_kernel_and_its_embedding():
    rng = np.random.default_rng(0)
    rows = Space(MODELS).sample(rng, 14)
    categorical = np.array([isinstance(p.domain, Categorical) for p in Space(MODELS).parameters])
    model = ArcGP(rows, rng.normal(size=14), categorical)
    theta = np.minimum(model.mean + 0.2 * rng.normal(size=len(model.mean)), model.bounds[:, 1] - 0.05)
    theta[0] = -3
    _, gradient = model.objective(theta)
    for k in range(len(theta)):
        step = np.eye(len(theta))[k] * 1e-6
        numeric = (model.objective(theta + step)[0] - model.objective(theta - step)[0]) / 2e-6
        assert gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-4)
    d = rows.shape[1]
    radius, rho = np.exp(-theta[2 : 2 + d]), np.exp(theta[2 + d :])
    i = next(k for k in range(d) if not categorical[k] and np.isnan(rows[:, k]).any())
    inactive = np.isnan(rows[:, i])
    u = np.nan_to_num(rows[:, i])
    points = np.where(
        inactive[:, None], 0.0, radius[i] * np.column_stack([np.sin(np.pi * rho[i] * u), np.cos(np.pi * rho[i] * u)])
    )
    exact = ((points[:, None] - points[None]) ** 2).sum(-1)
    only = model._difference[0] * 0.0, model._difference[1] * 0.0
    only[0][i], only[1][i] = model._difference[0][i], model._difference[1][i]
    np.testing.assert_allclose(model._distance(theta, only)[0], exact, atol=1e-12)


@pytest.mark.parametrize(
    "bad", [{"shared": "x"}, {"weights": "x"}, {"leaf": "x"}, {"search": "x"}, {"search": 0}, {"search": True}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(SettingError, match=next(iter(bad))):
        TreeOptimizer(MODELS, **bad)


def test_the_explanation_has_paths_and_edges():
    optimizer = TreeOptimizer(MODELS, seed=0, num_initial=4)
    assert len(optimizer.explain().table) == 0
    minimise(optimizer, lambda config: 1.0 if config["model"]["kind"] == "svm" else 2.0, 14)
    explanation = optimizer.explain()
    assert {"path", "trials", "best", "path_mean", "path_sd", "model_mean", "model_sd", "share"} <= set(explanation.table)
    assert explanation.table["trials"].sum() == 14
    assert (explanation.table["path_sd"] > 0).all()
    edges = dict(zip(explanation.edges["edge"], explanation.edges["mean"], strict=True))
    assert edges["model=svm"] < edges["model=knn"]
    assert "model=svm" in str(explanation)


def test_the_recommendation_is_in_the_users_units():
    optimizer = TreeOptimizer({"x": Float(0, 1)}, seed=0, mode="max")
    minimise(optimizer, lambda config: 1e6 - 1e5 * (config["x"] - 0.3) ** 2, 15)
    recommendation = optimizer.recommend()
    assert recommendation.value == pytest.approx(1e6, rel=1e-3)
    assert 0 <= recommendation.sd < 1e4
    assert recommendation.config["x"] == pytest.approx(0.3, abs=0.05)


# Objectives


def test_the_twelve_functions_are_the_papers():
    leaves = {"small balanced": 4, "small unbalanced": 5, "large balanced": 8, "large unbalanced": 9}
    for objective in twelve():
        assert objective.space.n_paths == leaves[objective.name.split(",")[0]]
        rng = np.random.default_rng(0)
        values = []
        for row in objective.space.sample(rng, 2000):
            config = objective.space.config(objective.space.decode(row))
            values.append(objective(config))
        assert objective.minimum <= min(values) < 0.35
    large = tree_function("large", "balanced", "linear").space
    categorical = sum(isinstance(p.domain, Categorical) for p in large.parameters)
    assert (categorical, large.d - categorical, len(large.shared)) == (7, 10, 2)


def test_log_ei_prefers_what_it_should():
    assert log_ei(np.array(0.0), np.array(1.0), 0.0) > log_ei(np.array(1.0), np.array(1.0), 0.0)
