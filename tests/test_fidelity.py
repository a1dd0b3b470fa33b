"""Evaluations that are not complete: context kernels, models with fidelities, running trials, and searches that use them."""

from __future__ import annotations

import itertools
import json
import math
import warnings

import numpy as np
import pytest

from raytree import CondKernelOptimizer, TreeOptimizer
from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import Gain, box_of, numeric_slope
from raytree.acquisition.rounds import NEWS
from raytree.errors import SettingError, SpaceError
from raytree.gp.context import CONTEXTS, trend
from raytree.gp.kernels import matern52, squared_differences
from raytree.models.conditional import TREND_VARIANCE, ConditionalModel
from raytree.models.cost import CostModel
from raytree.models.features import Features
from raytree.models.inputs import Inputs
from raytree.models.leaf import Settings, kernel_dims
from raytree.models.tree import TreeModel
from raytree.optimizers.htbo import HTBOOptimizer
from raytree.space import Categorical, Float, Space
from raytree.store import Observations, Status, fidelity
from raytree.strategies.fitted import enough
from tests.spaces import LAYERS, MODELS, random_space

OPTIMIZERS = [TreeOptimizer, CondKernelOptimizer]


@pytest.mark.parametrize("name", CONTEXTS)
def test_context_kernels_are_valid_and_leave_complete_evaluations_alone(name):
    rng, context = np.random.default_rng(0), CONTEXTS[name]
    for _ in range(20):
        theta = np.array([p.mean + p.sd * rng.normal() for p in context.parameters])
        s = np.append(rng.random(12), 1.0)
        K = context(theta, s, s)
        np.testing.assert_allclose(K, K.T)
        assert np.linalg.eigvalsh(K).min() > -1e-9
        assert K[-1, -1] == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(context.diagonal(theta, s), np.diag(K))
        _, slopes = context.slopes(theta, s, s)
        for k in range(len(theta)):
            step = np.zeros(len(theta))
            step[k] = 1e-6
            difference = (context(theta + step, s, s) - context(theta - step, s, s)) / 2e-6
            np.testing.assert_allclose(slopes[k], difference, atol=1e-7)
    assert not trend(np.ones(3)).any()


def spaces(count: int):
    rng = np.random.default_rng(7)
    yield Space(MODELS)
    yield Space(LAYERS)
    while count:
        space = random_space(rng)
        if space.d:
            count -= 1
            yield space


def tree_model(space, rng, n, context="quadratic", complete=False):
    rows = space.sample(rng, n)
    s = np.ones(n) if complete else rng.random(n)
    model = TreeModel(
        space,
        Features(space, fidelity=True),
        np.column_stack([rows, s]),
        rng.normal(size=n),
        space.paths_of(rows),
        Settings(context=context),
    )
    theta = model.layout.mean + 0.3 * rng.normal(size=len(model.layout.mean))
    theta[model.layout.at["noise", None]] = np.log(0.05)
    theta[model.layout.at["early_noise", None]] = np.log(0.1)
    return model, theta


def dense_tree(model, h, rows, paths):
    """The covariance between all rows, without noise: eq. (4) with leaf kernels times the context kernel."""
    n = len(rows)
    Z, K = np.zeros((n, model.features.D)), np.zeros((n, n))
    for path in set(paths):
        index = np.array([k for k, p in enumerate(paths) if p == path])
        dims = np.array(kernel_dims(model.space, path, model.settings), dtype=int)
        X = rows[index][:, dims]
        r2 = np.einsum("kij,k->ij", squared_differences(X, X, model.categorical[dims]), h.inverse_squared_length[dims])
        between = model.context(h.context, rows[index, -1], rows[index, -1])
        K[np.ix_(index, index)] = h.amplitude.get(path, h.common_amplitude) * matern52(r2)[0] * between
        on = model.features.on(path)
        Z[np.ix_(index, on.columns)] = on.values(rows[index])
    return K + Z @ np.diag(h.weight_variance) @ Z.T


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_tree_model_with_fidelities_equals_the_dense_gp(context):
    rng = np.random.default_rng(1)
    for space in spaces(6):
        model, theta = tree_model(space, rng, 18, context)
        h = model.unpack(theta)
        new = np.column_stack([space.sample(rng, 5), rng.random(5)])
        paths, new_paths = space.paths_of(model.rows[:, :-1]), space.paths_of(new[:, :-1])
        K = dense_tree(model, h, np.vstack([model.rows, new]), paths + new_paths)
        n = len(paths)
        inside = K[:n, :n] + np.diag(h.noise + h.early_noise * (1 - model.rows[:, -1]) ** 2)
        value = 0.5 * (model.y @ np.linalg.solve(inside, model.y) + np.linalg.slogdet(2 * np.pi * inside)[1])
        assert model.negative_log_likelihood(theta)[0] == pytest.approx(value, abs=1e-8)
        posterior = model.posterior(theta)
        mean, covariance = posterior.joint(new, new_paths)
        solved = np.linalg.solve(inside, K[:n, n:])
        np.testing.assert_allclose(mean, solved.T @ model.y, atol=1e-8)
        np.testing.assert_allclose(covariance, K[n:, n:] - K[n:, :n] @ solved, atol=1e-8)
        for k, path in enumerate(new_paths):
            single = posterior.predict(path, new[k : k + 1])
            np.testing.assert_allclose([single.mean[0], single.sd[0] ** 2], [mean[k], covariance[k, k]], atol=1e-8)
        # what an evaluation at one fidelity says about another, at the same row
        pair = np.vstack([np.append(new[0, :-1], 0.4), np.append(new[0, :-1], 1.0)])
        _, both = posterior.joint(pair, [new_paths[0]] * 2)
        expected = both[0, 1] ** 2 / ((both[0, 0] + h.noise + h.early_noise * 0.6**2) * both[1, 1])
        assert posterior.explained(new_paths[0], new[:1, :-1], 0.4)[0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("context", CONTEXTS)
def test_gradients_of_the_tree_model_with_fidelities(context):
    rng = np.random.default_rng(2)
    for space in spaces(3):
        model, theta = tree_model(space, rng, 15, context)
        _, gradient = model.negative_log_posterior(theta)
        for k in range(len(theta)):
            step = np.zeros(len(theta))
            step[k] = 1e-5
            difference = (model.negative_log_posterior(theta + step)[0] - model.negative_log_posterior(theta - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(difference, abs=1e-4, rel=1e-4)
        posterior = model.posterior(theta, target=0.7)
        row = space.sample(rng, 1)[0]
        path = space.path_of(row)
        _, _, d_mean, d_sd = posterior.gradient(path, row)
        for i in space.free(path):
            if isinstance(space.parameters[i].domain, Categorical):
                continue
            sides = []
            for sign in (1, -1):
                moved = row.copy()
                moved[i] += sign * 1e-6
                sides.append(np.array([column[0] for column in posterior.predict(path, moved[None])]))
            np.testing.assert_allclose([d_mean[i], d_sd[i]], (sides[0] - sides[1]) / 2e-6, atol=1e-4)


def block_model(space, rng, n, kernel="conditional", context="quadratic", complete=False):
    inputs = Inputs(space, "hamming", True, 2, 0)
    rows = space.sample(rng, n)
    s = np.ones(n) if complete else rng.random(n)
    full = np.column_stack([rows, s])
    model = ConditionalModel(space, inputs, kernel, full, rng.normal(size=n), space.paths_of(rows), context=context)
    theta = model.start() + 0.2 * rng.normal(size=len(model.bounds))
    theta[0] = np.log(0.05)
    return model, theta


@pytest.mark.parametrize("kernel", ["conditional", "matern"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_the_conditional_model_with_fidelities_equals_the_dense_gp(kernel, context):
    rng = np.random.default_rng(3)
    for space in spaces(4):
        model, theta = block_model(space, rng, 14, kernel, context)
        new = np.column_stack([space.sample(rng, 4), rng.random(4)])
        rows = np.vstack([model.rows, new])
        paths = space.paths_of(rows[:, :-1])
        numbers = model.inputs(rows[:, :-1])
        lengths = np.exp(theta[2 : 2 + model.inputs.n_lengths])[np.array(model.inputs.length, dtype=int)]
        begin = 2 + model.inputs.n_lengths
        r2 = np.sum(((numbers[:, None] - numbers[None]) / lengths) ** 2, axis=-1)
        same = np.array([[a == b or kernel == "matern" for b in paths] for a in paths])
        K = np.exp(theta[1]) * matern52(r2)[0] * same * model.context(theta[begin + 1 :], rows[:, -1], rows[:, -1])
        K += TREND_VARIANCE * trend(rows[:, -1]) @ trend(rows[:, -1]).T  # the weights of the common curve, integrated out
        n, y = len(model.y), model.y
        early_noise = np.exp(theta[begin])
        inside = K[:n, :n] + np.diag(np.exp(theta[0]) + early_noise * (1 - rows[:n, -1]) ** 2)
        value = -0.5 * (y @ np.linalg.solve(inside, y) + np.linalg.slogdet(2 * np.pi * inside)[1])
        assert model.log_likelihood(theta)[0] == pytest.approx(value, abs=1e-8)
        posterior = model.posterior(theta)
        mean, covariance = posterior.joint(new, paths[n:])
        solved = np.linalg.solve(inside, K[:n, n:])
        np.testing.assert_allclose(mean, solved.T @ y, atol=1e-8)
        np.testing.assert_allclose(covariance, K[n:, n:] - K[n:, :n] @ solved, atol=1e-8)
        _, gradient = model.negative_log_posterior(theta)
        for k in range(len(theta)):
            step = np.zeros(len(theta))
            step[k] = 1e-5
            difference = (model.negative_log_posterior(theta + step)[0] - model.negative_log_posterior(theta - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(difference, abs=1e-4, rel=1e-4)
        pair = np.vstack([np.append(new[0, :-1], 0.4), np.append(new[0, :-1], 1.0)])
        _, both = posterior.joint(pair, [paths[n]] * 2)
        expected = both[0, 1] ** 2 / ((both[0, 0] + np.exp(theta[0]) + early_noise * 0.6**2) * both[1, 1])
        assert posterior.explained(paths[n], new[:1, :-1], 0.4)[0] == pytest.approx(expected, abs=1e-8)


def test_complete_data_reproduce_the_plain_models():
    rng = np.random.default_rng(4)
    for space in spaces(4):
        model, theta = tree_model(space, rng, 12, complete=True)
        rows, paths = model.rows[:, :-1], space.paths_of(model.rows[:, :-1])
        plain = TreeModel(space, Features(space), rows, model.y, paths)
        shared = np.array([theta[model.layout.at[name]] for name in plain.layout.names])
        assert plain.negative_log_likelihood(shared)[0] == pytest.approx(model.negative_log_likelihood(theta)[0], abs=1e-9)
        new = space.sample(rng, 3)
        for row in new:
            path = space.path_of(row)
            a, b = model.posterior(theta).predict(path, row[None]), plain.posterior(shared).predict(path, row[None])
            np.testing.assert_allclose([a.mean[0], a.sd[0]], [b.mean[0], b.sd[0]], atol=1e-9)
        blocks, theta = block_model(space, rng, 12, complete=True)
        rows = blocks.rows[:, :-1]
        simple = ConditionalModel(space, blocks.inputs, "conditional", rows, blocks.y, space.paths_of(rows))
        assert simple.log_likelihood(theta[: len(simple.bounds)])[0] == pytest.approx(blocks.log_likelihood(theta)[0], abs=1e-9)


@pytest.mark.parametrize("kind", ["tree", "blocks"])
def test_values_given_to_running_rows_equal_a_posterior_that_had_them_from_the_start(kind):
    rng = np.random.default_rng(5)
    for space in spaces(4):
        model, theta = tree_model(space, rng, 12) if kind == "tree" else block_model(space, rng, 12)
        paths = space.paths_of(model.rows[:, :-1])
        new = np.column_stack([space.sample(rng, 4), rng.random(4)])
        values = rng.normal(size=4)
        rows, y = np.vstack([model.rows, new]), np.append(model.y, values)
        both = paths + space.paths_of(new[:, :-1])
        if kind == "tree":
            larger = TreeModel(space, model.features, rows, y, both, model.settings)
            moved = larger.layout.mean.copy()
            for name, at in model.layout.at.items():
                moved[larger.layout.at[name]] = theta[at]
        else:
            larger, moved = ConditionalModel(space, model.inputs, "conditional", rows, y, both, context="quadratic"), theta
        grown = model.posterior(theta).condition(new, both[12:], values)
        believed = model.posterior(theta).condition(new, both[12:])
        expected = larger.posterior(moved)
        for row in space.sample(rng, 6):
            path = space.path_of(row)
            if kind == "tree" and path not in model.members:
                continue  # its amplitude has no deviation yet
            a, b, c = (p.predict(path, row[None]) for p in (grown, expected, believed))
            np.testing.assert_allclose([a.mean[0], a.sd[0]], [b.mean[0], b.sd[0]], atol=1e-7)
            assert c.sd[0] == pytest.approx(a.sd[0], abs=1e-7)  # the believer has the same variance
            before = model.posterior(theta).predict(path, row[None])
            assert c.mean[0] == pytest.approx(before.mean[0], abs=1e-7)  # and the mean from before


def test_fidelities_are_logarithms_and_curves_are_thinned():
    assert fidelity(100, 100) == 1.0
    assert fidelity(1, 100) == pytest.approx(0.0, abs=1e-12)
    assert fidelity(10, 100) == pytest.approx(0.5)
    assert fidelity(1, 1) == 1.0
    assert fidelity(0.1, 1) == pytest.approx(0.0, abs=1e-12)
    assert fidelity(500, 100) == 1.0
    space = Space({"x": Float(0, 1)})
    store = Observations(space, "min", max_t=81)
    for k, last in enumerate((81, 10, 4)):
        store.add(str(k), (0.1 * k,))
        for t in range(1, last + 1):
            store.report(str(k), 1.0 / t + k, t)
    store.finish("0", 1.0 / 81, 81)
    store.end("1")
    assert [t.id for t in store.complete()] == ["0"]
    assert store.best().id == "0"
    assert store.losses().losses.tolist() == [1.0 / 81]
    curves = store.curves()
    assert [t.id for t in curves.trials] == ["0"] * 5 + ["1"] * 4 + ["2"] * 3
    np.testing.assert_allclose(curves.losses[:5], [1 / t for t in (1, 3, 9, 27, 81)])
    np.testing.assert_allclose(curves.rows[:, -1], [fidelity(t, 81) for t in (1, 3, 9, 27, 81, 1, 3, 9, 10, 1, 3, 4)])
    store.report("2", float("nan"), 5)
    store.end("2")
    assert store.trials["2"].status is Status.FINISHED
    assert store.trials["2"].t == 4
    with pytest.raises(SettingError, match="max_t"):
        Observations(space, max_t=0)


def curve_objective(config, t, max_t=27):
    branch = config["branch"]
    final = (branch["a"] - 0.3) ** 2 if branch["kind"] == "a" else 0.1 + abs(branch["b"] - 0.6)
    return final + (0.5 + final) * (max_t / t) ** 0.7 / max_t**0.7


BRANCHES = {"branch": Categorical([{"kind": "a", "a": Float(0, 1)}, {"kind": "b", "b": Float(0, 1)}])}


def successive_halving(optimizer, trials, max_t=27):
    """A toy ASHA: a trial goes on from a rung if it is in the best third there. Returns epochs spent and the best end."""
    rungs: dict[int, list[float]] = {1: [], 3: [], 9: []}
    spent, best = 0, np.inf
    for _ in range(trials):
        suggestion = optimizer.ask()
        for t in range(1, max_t + 1):
            spent += 1
            value = curve_objective(suggestion.config, t)
            if t == max_t:
                best = min(best, value)
            stopped = False
            if t in rungs:
                rungs[t].append(value)
                stopped = sorted(rungs[t]).index(value) >= max(1, len(rungs[t]) // 3)
            if t == max_t or stopped:
                optimizer.tell(suggestion.id, value, t, cost=float(t))
                break
            optimizer.report(suggestion.id, value, t)
    return spent, best


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_stopped_trials_teach_and_a_restored_search_goes_on_alike(make):
    optimizer = make(BRANCHES, seed=3, num_initial=6, max_t=27)
    successive_halving(optimizer, 16)
    again = make.from_state(json.loads(json.dumps(optimizer.state())))
    assert again.ask() == optimizer.ask()
    data = optimizer.strategy.data()
    assert data.rows.shape[1] == optimizer.space.d + 1
    assert len(data.losses) > 16
    best = optimizer.recommend()
    assert best.config["branch"]["kind"] == "a"
    assert abs(best.config["branch"]["a"] - 0.3) < 0.1
    assert "path" in optimizer.explain().table


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_what_is_recommended_was_complete_once_anything_was(make):
    optimizer = make({"x": Float(0, 1)}, seed=0, num_initial=4, max_t=9)
    for k in range(12):
        suggestion = optimizer.ask()
        value = (suggestion.config["x"] - 0.4) ** 2
        if k < 6 or value > 0.01:  # the best ones are stopped
            optimizer.tell(suggestion.id, value + 0.1, t=9)
        else:
            optimizer.tell(suggestion.id, value, t=1)
    found = optimizer.recommend()
    assert optimizer.observations.trials[found.trial_id].t == 9


def plain_gain(posterior):
    """Log-EI alone."""
    return Gain(
        lambda path, rows: log_improvement(posterior, path, rows), lambda path, row: log_improvement_slope(posterior, path, row)
    )


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_path_whose_trials_never_get_to_the_end_loses_its_attraction(make):
    optimizer = make(BRANCHES, seed=0, num_initial=2, max_t=27)
    rng = np.random.default_rng(0)
    for x in rng.random(6):  # complete
        trial = optimizer.adopt(optimizer.fresh_id(), {"branch": {"kind": "a", "a": float(x)}})
        for t in (1, 3, 9):
            optimizer.report(trial.id, 1.0 + (x - 0.3) ** 2 + 0.1 / t, t)
        optimizer.tell(trial.id, 1.0 + (x - 0.3) ** 2, 27)
    for x in rng.random(30):  # always stopped, and by its curve going to be better
        trial = optimizer.adopt(optimizer.fresh_id(), {"branch": {"kind": "b", "b": float(x)}})
        optimizer.report(trial.id, 3.0, 1)
        optimizer.tell(trial.id, 1.9, 3)
    path = {kind: optimizer.space.path(optimizer.point({"branch": {"kind": kind, kind: 0.5}})) for kind in "ab"}
    posterior = optimizer.strategy.fit().posterior
    nearer = optimizer.strategy.fidelity.nearer(posterior, plain_gain)
    assert set(nearer) == {path["b"]}  # the others have got to the end
    score, slope = optimizer.strategy.gain(posterior, None)
    for kind in "ab":
        rows = optimizer.space.on_path(path[kind], rng.random((5, optimizer.space.d)))
        plain = log_improvement(posterior, path[kind], rows)
        less = plain if kind == "a" else np.minimum(plain, nearer[path[kind]].score(path[kind], rows))
        np.testing.assert_allclose(score(path[kind], rows), less)
        slow = numeric_slope(score, box_of(optimizer.space, path[kind]))(path[kind], rows[0])
        value, gradient = slope(path[kind], rows[0])
        assert value == pytest.approx(slow[0])
        np.testing.assert_allclose(gradient, slow[1], rtol=1e-3, atol=1e-4)
    assert optimizer.recommend().config["branch"]["kind"] == "a"  # whatever the model thinks of the other
    asked = [optimizer.ask().config["branch"]["kind"] for _ in range(4)]
    assert "a" in asked
    assert optimizer.failures == 0


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_longest_trial_that_is_alone_is_not_the_only_complete_one(make):
    optimizer = make({"x": Float(0, 1)}, seed=0, num_initial=4, max_t="auto")
    for k, x in enumerate(np.linspace(0, 1, 12)):
        optimizer.give({"x": float(x)}, (x - 0.3) ** 2, t=21 if k == 11 else 20)
    assert optimizer.recommend().config["x"] == pytest.approx(0.3, abs=0.06)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_trials_that_all_broke_down_on_their_way_do_no_harm(make):
    optimizer = make(BRANCHES, seed=0, num_initial=2, max_t=27)
    for k in range(6):
        suggestion = optimizer.ask()
        optimizer.report(suggestion.id, 1.0 + 0.1 * k, 1)
        optimizer.tell(suggestion.id, math.nan, 3)
    assert optimizer.ask() is not None
    assert optimizer.failures == 0
    posterior = optimizer.strategy.fit().posterior
    score, _ = optimizer.strategy.gain(posterior, None)
    path = optimizer.space.paths()[0]
    assert np.all(np.isfinite(score(path, optimizer.space.on_path(path, np.full((1, optimizer.space.d), 0.4)))))


def test_a_trial_that_failed_says_nothing_about_how_far_trials_got():
    optimizer = TreeOptimizer({"x": Float(0, 1)}, seed=0, num_initial=4, max_t=27)
    for _ in range(12):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, suggestion.config["x"], t=1)
    optimizer.tell(optimizer.ask().id, math.nan)
    assert optimizer.strategy.fidelity.target(optimizer.strategy.data()) == 0.0


def seen_by(optimizer):
    """The trials whose rows the model of a method without fidelities is fitted to."""
    rows = optimizer.strategy.fit(remember=False).posterior.rows
    known = {trial.row.tobytes(): trial for trial in optimizer.observations}
    return [known[row.tobytes()] for row in rows]


def test_methods_without_a_model_of_fidelity_use_complete_trials_only():
    optimizer = HTBOOptimizer(BRANCHES, seed=1, num_initial=4, max_t=27)
    successive_halving(optimizer, 10)
    assert {trial.t for trial in seen_by(optimizer)} == {27.0}


def test_methods_without_a_model_of_fidelity_learn_from_the_longest_trials_while_none_is_complete():
    optimizer = HTBOOptimizer(BRANCHES, seed=1, num_initial=2, max_t=27)
    for t in (1, 1, 9, 9, 3):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, curve_objective(suggestion.config, t), t)
    assert [trial.t for trial in seen_by(optimizer)] == [9.0, 9.0]
    assert optimizer.recommend().trial_id in {trial.id for trial in seen_by(optimizer)}


def test_a_scheduler_that_pauses_turns_fidelities_on():
    for make in OPTIMIZERS:
        optimizer = make(BRANCHES, seed=0, num_initial=4)
        for _ in range(6):
            suggestion = optimizer.ask()
            optimizer.tell(suggestion.id, curve_objective(suggestion.config, 27), 27)
        optimizer.expect_curves()
        suggestion = optimizer.ask()
        optimizer.report(suggestion.id, 1.0, 1)
        assert optimizer.settings()["max_t"] == "auto"
        assert optimizer.failures == 0
        optimizer.ask()
        assert optimizer.failures == 0
        again = make.from_state(json.loads(json.dumps(optimizer.state())))
        assert again.ask() == optimizer.ask()


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_the_search_chooses_how_long_and_spends_less_than_complete_trials_would(make):
    errors = []
    for seed in range(3):
        optimizer = make(BRANCHES, seed=seed, num_initial=6, fidelity_key="beta")
        fractions = []
        for _ in range(32):
            suggestion = optimizer.ask()
            beta = suggestion.config["beta"]
            fractions.append(beta)
            optimizer.tell(suggestion.id, curve_objective(suggestion.config, 27 * beta), cost=0.1 + 10 * beta)
        assert optimizer.failures == 0
        assert {round(1 / f) for f in fractions} <= {1, 3, 9, 27}
        assert len(set(fractions[6:])) > 1
        assert np.mean(fractions) < 0.7
        best = optimizer.recommend()
        assert "beta" not in best.config
        errors.append(abs(best.config["branch"].get("a", 9.0) - 0.3))
    assert np.median(errors) < 0.1
    again = make.from_state(json.loads(json.dumps(optimizer.state())))
    assert again.ask() == optimizer.ask()
    optimizer.give({"branch": {"kind": "a", "a": 0.3}}, 0.0)  # without a fraction: complete
    assert optimizer.observations.trials["given-0"].point[-1] == 1.0


def test_what_a_trial_costs_is_learnt():
    rng = np.random.default_rng(6)
    space = Space(BRANCHES)
    rows = space.sample(rng, 60)
    paths = space.paths_of(rows)
    fractions = rng.choice([1 / 27, 1 / 9, 1 / 3, 1.0], 60)
    first = space.paths()[0]
    costs = np.array([5.0 if path == first else 0.5 for path in paths]) * fractions**0.8
    model = CostModel(space, rows, paths, fractions, costs)
    for path, cost in zip(space.paths(), (5.0, 0.5), strict=True):
        row = space.on_path(path, np.full((1, space.d), 0.5))
        assert model.log_cost(row, [path], np.ones(1))[0] == pytest.approx(np.log(cost), abs=0.25)
        ratio = model.log_cost(row, [path], np.ones(1))[0] - model.log_cost(row, [path], np.full(1, 1 / 27))[0]
        assert ratio == pytest.approx(0.8 * np.log(27), rel=0.1)
    nothing = CostModel(space, rows[:0], [], fractions[:0], costs[:0])
    assert nothing.log_cost(rows[:1], paths[:1], np.full(1, 1 / 3))[0] == pytest.approx(np.log(1 / 3))


@pytest.mark.parametrize("make", [*OPTIMIZERS, HTBOOptimizer])
@pytest.mark.parametrize("pending", ["believer", "fantasy", "thompson", "ignore"])
def test_every_treatment_of_running_trials_works_and_repeats_nothing(make, pending):
    optimizer = make(MODELS, seed=2, num_initial=6, pending=pending)
    running = [optimizer.ask() for _ in range(6)]
    for k in range(14):
        done = running.pop(0)
        optimizer.tell(done.id, len(str(done.config)) + 0.1 * k)
        running.append(optimizer.ask())
    assert optimizer.failures == 0
    points = [optimizer.space.key(trial.point) for trial in optimizer]
    assert len(set(points)) == len(points)
    again = make.from_state(json.loads(json.dumps(optimizer.state())))
    assert again.ask() == optimizer.ask()


def test_believers_spread_where_ignorers_do_not():
    space = {"x": Float(0, 1), "y": Float(0, 1)}
    spread: dict[str, list[float]] = {"believer": [], "ignore": []}
    for pending, seed in itertools.product(spread, range(3)):
        optimizer = TreeOptimizer(space, seed=seed, num_initial=6, pending=pending)
        for _ in range(10):
            s = optimizer.ask()
            optimizer.tell(s.id, (s.config["x"] - 0.4) ** 2 + (s.config["y"] - 0.7) ** 2)
        asked = np.array([list(optimizer.ask().config.values()) for _ in range(8)])
        distances = np.linalg.norm(asked[:, None] - asked[None], axis=-1)
        spread[pending].append(float(np.median(distances[np.triu_indices(8, 1)])))
    assert np.median(spread["believer"]) > 5 * np.median(spread["ignore"])
    assert min(spread["believer"]) > 1e-3


def test_very_many_observations_are_thinned_and_hyperparameters_go_on_being_estimated(monkeypatch):
    monkeypatch.setattr("raytree.strategies.fitted.MOST_KNOWN", 20)
    rng = np.random.default_rng(8)
    for make in (*OPTIMIZERS, HTBOOptimizer):
        optimizer = make({"x": Float(0, 1)}, seed=0, num_initial=2)
        for x in rng.random(60):
            optimizer.give({"x": float(x)}, (x - 0.3) ** 2)
        known = optimizer.observations.losses()
        data = enough(known, optimizer.strategy.inference.block_of)
        assert len(data.losses) == 20
        assert np.sort(data.losses)[:10].tolist() == np.sort(known.losses)[:10].tolist()
        assert len(optimizer.strategy.fit(remember=False).posterior.target_means()) == 20
        optimizer.ask()
        assert optimizer.failures == 0
        assert optimizer.strategy.inference.fitted_to == 60
        assert abs(optimizer.recommend().config["x"] - 0.3) < 0.05


def test_what_is_found_together_is_saved_and_all_different():
    optimizer = TreeOptimizer(MODELS, seed=4, num_initial=6)
    for _ in range(2 * NEWS):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, len(str(suggestion.config)))
    asked = [optimizer.ask() for _ in range(20)]
    assert optimizer.failures == 0
    assert len({str(suggestion.config) for suggestion in asked}) == 20
    while not optimizer.strategy.queue:
        optimizer.ask()
    again = TreeOptimizer.from_state(json.loads(json.dumps(optimizer.state())))
    assert [again.ask() for _ in range(3)] == [optimizer.ask() for _ in range(3)]


def test_few_results_make_short_rounds():
    optimizer = TreeOptimizer(MODELS, seed=4, num_initial=6)
    for known in (NEWS, 2 * NEWS, 5 * NEWS):
        while len(optimizer.observations) < known:
            suggestion = optimizer.ask()
            optimizer.tell(suggestion.id, len(str(suggestion.config)))
        optimizer.strategy.queue.clear()
        copy = TreeOptimizer.from_state(optimizer.state())
        found = []  # suggestions of a round, by the first of them
        for _ in range(20):
            copy.ask()
            found.append(1 + len(copy.strategy.queue))
        assert max(found) == known // NEWS


def test_wrong_settings_say_so():
    with pytest.raises(SettingError, match="pending"):
        TreeOptimizer(BRANCHES, pending="hope")
    with pytest.raises(SettingError, match="drawn function"):
        TreeOptimizer(BRANCHES, pending="thompson", fidelity_key="beta")
    with pytest.raises(SettingError, match="two ways"):
        TreeOptimizer(BRANCHES, max_t=10, fidelity_key="beta")
    with pytest.raises(SettingError, match="min_fidelity"):
        TreeOptimizer(BRANCHES, fidelity_key="beta", min_fidelity=1.0)
    with pytest.raises(SpaceError, match="fidelity_key"):
        TreeOptimizer({"beta": Float(0, 1)}, fidelity_key="beta")
    with pytest.raises(SettingError, match="context"):
        TreeOptimizer(BRANCHES, context="soup")


@pytest.mark.parametrize("optimizer_class", [TreeOptimizer, CondKernelOptimizer])
def test_reports_that_diverge_on_the_way_break_nothing(optimizer_class):
    """Every other trial says 1e300 once, and ends as well as the others: the scale comes from the ends."""
    optimizer = optimizer_class({"x": Float(0, 1)}, seed=0, num_initial=4, max_t=9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(16):
            suggestion = optimizer.ask()
            for t in (1, 3, 9):
                diverged = k % 2 and t == 3
                value = 1e300 if diverged else (suggestion.config["x"] - 0.3) ** 2 + 1.0 / t
                optimizer.report(suggestion.id, value, t)
            optimizer.tell(suggestion.id, value, 9)
    assert optimizer.failures == 0
    assert optimizer.recommend().config["x"] == pytest.approx(0.3, abs=0.1)
