"""The tree model against the dense GP with the kernel of eq. (4), oracles, differences and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import box_of, numeric_slope
from raytree.gp.kernels import matern52, squared_differences
from raytree.gp.posterior import posterior
from raytree.models.features import Features
from raytree.models.leaf import Settings, kernel_dims
from raytree.models.tree import TreeModel
from raytree.space import Categorical, Float, Space
from tests.spaces import LAYERS, MODELS, random_space

VARIANTS = [
    ("smooth", "edges", Settings()),
    ("linear", "nodes", Settings(leaf="own", offsets=True)),
    ("fourier", "edges", Settings(leaf="own")),
    ("none", "none", Settings(tied=False, offsets=True)),
]


def spaces(count: int):
    rng = np.random.default_rng(4)
    yield Space(MODELS)
    yield Space(LAYERS)
    made = 0
    while made < count:
        space = random_space(rng)
        if space.d:
            made += 1
            yield space


def random_model(space, rng, variant, n=None):
    shared, weights, settings = variant
    n = n or int(rng.integers(1, 30))
    rows = space.sample(rng, n)
    model = TreeModel(
        space, Features(space, shared, weights), rows, rng.normal(size=n), [space.path_of(r) for r in rows], settings
    )
    theta = model.layout.mean + 0.3 * rng.normal(size=len(model.layout.mean))
    theta[model.layout.at["noise", None]] = np.log(0.05)
    return model, theta


def dense(model, h, rows, paths):
    """The covariance of eq. (4) between all given rows, without noise, and their prior means."""
    n = len(rows)
    Z, K, b = np.zeros((n, model.features.D)), np.zeros((n, n)), np.zeros(n)
    for path in set(paths):
        index = np.array([k for k, p in enumerate(paths) if p == path])
        dims = np.array(kernel_dims(model.space, path, model.settings), dtype=int)
        X = rows[index][:, dims]
        r2 = np.einsum("kij,k->ij", squared_differences(X, X, model.categorical[dims]), h.inverse_squared_length[dims])
        K[np.ix_(index, index)] = h.amplitude.get(path, h.common_amplitude) * matern52(r2)[0]
        on = model.features.on(path)
        Z[np.ix_(index, on.columns)] = on.values(rows[index])
        b[index] = h.offset.get(path, 0.0)
    return K + Z @ np.diag(h.weight_variance) @ Z.T, b


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v[0]}-{v[1]}")
def test_likelihood_posterior_mean_and_covariance_equal_the_dense_gp(variant):
    rng = np.random.default_rng(0)
    for space in spaces(25):
        model, theta = random_model(space, rng, variant)
        h = model.unpack(theta)
        new = space.sample(rng, 6)
        paths = [space.path_of(r) for r in model.rows]
        new_paths = [space.path_of(r) for r in new]
        K, b = dense(model, h, np.vstack([model.rows, new]), paths + new_paths)
        n = len(paths)
        inside, y = K[:n, :n] + h.noise * np.eye(n), model.y - b[:n]
        value = 0.5 * (y @ np.linalg.solve(inside, y) + np.linalg.slogdet(inside)[1] + n * np.log(2 * np.pi))
        assert model.negative_log_likelihood(theta)[0] == pytest.approx(value, rel=1e-8, abs=1e-8)
        posterior = model.posterior(theta)
        weights = np.linalg.solve(inside, K[:n, n:])
        mean, variance = b[n:] + weights.T @ y, np.diag(K[n:, n:] - K[n:, :n] @ weights)
        for k, (row, path) in enumerate(zip(new, new_paths, strict=True)):
            prediction = posterior.predict(path, row[None])
            assert prediction.mean[0] == pytest.approx(mean[k], abs=1e-8)
            assert prediction.sd[0] == pytest.approx(np.sqrt(variance[k]), abs=1e-7)
        np.testing.assert_allclose(posterior.observed_means(), b[:n] + K[:n, :n] @ np.linalg.solve(inside, y), atol=1e-8)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v[0]}-{v[1]}")
def test_gradients_of_the_likelihood_by_differences(variant):
    rng = np.random.default_rng(1)
    for space in spaces(6):
        if variant[0] == "fourier" and len(space.shared) > 3:
            continue
        model, theta = random_model(space, rng, variant, n=12)
        _, gradient = model.negative_log_posterior(theta)
        for k in range(len(theta)):
            step = np.zeros(len(theta))
            step[k] = 1e-5
            numeric = (model.negative_log_posterior(theta + step)[0] - model.negative_log_posterior(theta - step)[0]) / 2e-5
            assert gradient[k] == pytest.approx(numeric, rel=1e-4, abs=1e-4), model.layout.names[k]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v[0]}-{v[1]}")
def test_gradients_of_predictions_by_differences(variant):
    rng = np.random.default_rng(2)
    for space in spaces(12):
        model, theta = random_model(space, rng, variant)
        posterior = model.posterior(theta)
        for row in np.vstack([space.sample(rng, 2), model.rows[:1] + 0.0]):
            path = space.path_of(row)
            for whole in (True, False):
                predict = posterior.predict if whole else posterior.predict_path
                mean, sd, by_mean, by_sd = posterior.gradient(path, row, whole)
                at = predict(path, row[None])
                assert (mean, sd) == (pytest.approx(at.mean[0]), pytest.approx(at.sd[0]))
                for i in space.free(path):
                    step = np.zeros(space.d)
                    step[i] = 1e-6
                    if model.categorical[i] or not 1e-6 < row[i] < 1 - 1e-6:
                        continue
                    up, down = predict(path, (row + step)[None]), predict(path, (row - step)[None])
                    assert by_mean[i] == pytest.approx((up.mean[0] - down.mean[0]) / 2e-6, rel=1e-3, abs=1e-4)
                    assert by_sd[i] == pytest.approx((up.sd[0] - down.sd[0]) / 2e-6, rel=1e-3, abs=1e-3)


def test_gradients_of_improvement_by_differences():
    rng = np.random.default_rng(8)
    for space in spaces(10):
        model, theta = random_model(space, rng, VARIANTS[0], n=12)
        posterior = model.posterior(theta)
        for path in list(model.members)[:2]:
            row = space.on_path(path, rng.random((1, space.d)))[0]
            box = box_of(space, path)
            value, gradient = log_improvement_slope(posterior, path, row)
            assert value == pytest.approx(log_improvement(posterior, path, row[None])[0], rel=1e-9)
            slow = numeric_slope(lambda p, rows, at=posterior: log_improvement(at, p, rows), box)(path, row)[1]
            np.testing.assert_allclose(gradient[box.continuous], slow[box.continuous], rtol=1e-3, atol=1e-4)


def test_noise_is_found_from_a_start_without_any():
    rng = np.random.default_rng(0)
    space = Space({f"x{k}": Float(0, 1) for k in range(4)})
    rows = rng.random((40, 4))
    y = 3.0 * np.sum((rows - 0.4) ** 2, axis=1) + 0.5 * rng.normal(size=40)
    model = TreeModel(space, Features(space), (rows), (y - y.mean()) / y.std(), [()] * 40)
    noise = model.unpack(model.fit({("noise", None): np.log(1e-9)}, 15).theta).noise
    assert 0.05 < noise < 1.0
    exact = 3.0 * np.sum((rows - 0.4) ** 2, axis=1)
    model = TreeModel(space, Features(space), rows, (exact - exact.mean()) / exact.std(), [()] * 40)
    assert model.unpack(model.fit(None, 15).theta).noise < 1e-3


@pytest.mark.parametrize("ordered", [True, False])
def test_ordered_categories_keep_their_order(ordered):
    sizes = Categorical(["s", "m", "l", "xl"], ordered=ordered)
    rows = np.array([[sizes.unit(code)] for code in range(4)])
    space = Space({"size": sizes})
    model = TreeModel(space, Features(space), rows, np.zeros(4), [()] * 4)
    kernel = model.process(model.unpack(model.start())).kernel.matrix((), rows, rows)
    assert (kernel[0, 1] > kernel[0, 3] + 1e-3) == ordered
    shared = Space({"size": sizes, "d": Categorical([{"x": Float(0, 1)}, {}])})
    basis = Features(shared)._bases[0][1]
    assert basis.onehot == (not ordered)


def test_categories_have_a_length_scale_of_their_own():
    space = Space({"d": Categorical([{"x": Float(0, 1), "k": Categorical(["a", "b", "c"])}, {}]), "s": Float(0, 1)})
    model = TreeModel(space, Features(space), space.sample(np.random.default_rng(0), 9), np.arange(9.0), [(0,)] * 9)
    lengths = {name for name, which in model.layout.names if which is None and name.startswith("length")}
    assert lengths == {"length", "length_category", "length_shared"}
    theta = model.start({("length_category", None): 0.3, ("length", None): -0.4, ("length_shared", None): 1.1})
    by_name = {p.name.split("/")[-1].split(".")[-1]: k for k, p in enumerate(space.parameters)}
    scales = -0.5 * np.log(model.unpack(theta).inverse_squared_length)
    found = {name: float(scales[k]) for name, k in by_name.items() if name in ("x", "k", "s")}
    assert sorted(found.values()) == pytest.approx([-0.4, 0.3, 1.1])


def test_pending_rows_equal_conditioning_on_the_posterior_mean():
    rng = np.random.default_rng(3)
    for space in spaces(12):
        model, theta = random_model(space, rng, VARIANTS[0])
        before = model.posterior(theta)
        rows = space.sample(rng, 5)
        paths = [space.path_of(row) for row in rows]
        means = [before.predict(path, row[None]).mean[0] for path, row in zip(paths, rows, strict=True)]
        known = [space.path_of(row) for row in model.rows]
        after = before.condition(rows, paths)
        direct = posterior(before.process, np.vstack([model.rows, rows]), np.append(model.y, means), known + paths)
        for row in space.sample(rng, 6):
            path = space.path_of(row)
            a, b, c = (p.predict(path, row[None]) for p in (after, direct, before))
            assert a.mean[0] == pytest.approx(b.mean[0], abs=1e-7) == pytest.approx(c.mean[0], abs=1e-7)
            assert a.sd[0] == pytest.approx(b.sd[0], abs=1e-7)
            assert a.sd[0] <= c.sd[0] + 1e-9
            assert after.predict_path(path, row[None]).sd[0] <= before.predict_path(path, row[None]).sd[0] + 1e-9


def test_equal_weight_variances_give_the_path_overlap_kernel():
    """Below eq. (4): z_p'z_q counts the inner nodes that two paths have in common."""
    space = Space({"d": Categorical([{"d": Categorical([{"x": Float(0, 1)}, {"x": Float(0, 1)}])}, {"x": Float(0, 1)}])})
    features = Features(space, "none", "nodes")
    paths = {space.path_label(p): p for p in space.paths()}
    overlap = {}
    for a, p in paths.items():
        for b, q in paths.items():
            overlap[a, b] = len(set(features.on(p).columns) & set(features.on(q).columns)) - 1  # less the root's own weight
    left, right, other = "d=#0, d[0].d=#0", "d=#0, d[0].d=#1", "d=#1"
    assert set(paths) == {left, right, other}
    assert overlap[left, left] == overlap[left, right] == 2
    assert overlap[left, other] == overlap[other, other] == 1


def test_without_weights_the_leaves_are_independent_gps():
    rng = np.random.default_rng(5)
    space = Space(MODELS)
    model, theta = random_model(space, rng, ("none", "none", Settings()), n=24)
    together = model.posterior(theta)
    for path, index in model.members.items():
        single = posterior(together.process, model.rows[index], model.y[index], [path] * len(index))
        row = space.on_path(path, rng.random((1, space.d)))
        np.testing.assert_allclose(together.predict(path, row).mean, single.predict(path, row).mean, atol=1e-9)
        np.testing.assert_allclose(together.predict(path, row).sd, single.predict(path, row).sd, atol=1e-9)


def test_one_leaf_equals_scikit_learns_gp():
    rng = np.random.default_rng(6)
    space = Space({"a": Float(0, 1), "b": Float(0, 1)})
    model, theta = random_model(space, rng, ("none", "none", Settings()), n=15)
    h = model.unpack(theta)
    kernel = ConstantKernel(h.amplitude[()]) * Matern(h.inverse_squared_length**-0.5, nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=h.noise, optimizer=None).fit(model.rows, model.y)
    rows = rng.random((10, 2))
    mean, sd = theirs.predict(rows, return_std=True)
    ours = model.posterior(theta).predict((), rows)
    np.testing.assert_allclose(ours.mean, mean, atol=1e-8)
    np.testing.assert_allclose(ours.sd, sd, atol=1e-7)
    assert -model.negative_log_likelihood(theta)[0] == pytest.approx(theirs.log_marginal_likelihood_value_)


def test_the_order_of_siblings_does_not_matter():
    rng = np.random.default_rng(7)
    branches = [{"k": "a", "x": Float(0, 1)}, {"k": "b", "y": Float(0, 1), "z": Float(0, 1)}, {"k": "c"}]
    one = Space({"m": Categorical(branches), "s": Float(0, 1)})
    two = Space({"m": Categorical(branches[::-1]), "s": Float(0, 1)})
    configs = [one.config(one.decode(row)) for row in one.sample(rng, 20)]
    y = rng.normal(size=20)
    values, predictions = [], []
    for space in (one, two):
        rows = np.array([space.encode(space.point(config)) for config in configs])
        model = TreeModel(space, Features(space), rows[:15], y[:15], [space.path_of(r) for r in rows[:15]])
        values.append(model.negative_log_posterior(model.layout.mean)[0])
        posterior = model.posterior(model.layout.mean)
        predictions.append([posterior.predict(space.path_of(row), row[None]).mean[0] for row in rows[15:]])
    assert values[0] == pytest.approx(values[1])
    np.testing.assert_allclose(predictions[0], predictions[1], atol=1e-8)


def test_inactive_coordinates_do_not_matter():
    rng = np.random.default_rng(8)
    space = Space(MODELS)
    rows = space.sample(rng, 15)
    paths = [space.path_of(row) for row in rows]
    y = rng.normal(size=15)
    noisy = np.where(np.isnan(rows), rng.random(rows.shape), rows)
    values = [TreeModel(space, Features(space), X, y, paths) for X in (rows, noisy)]
    assert (
        values[0].negative_log_posterior(values[0].layout.mean)[0] == values[1].negative_log_posterior(values[1].layout.mean)[0]
    )


def test_fourier_features_approach_the_sum_of_their_kernels():
    """Supplement, section 3: gamma is the squared length-scale; the three kernels have equal shares."""
    space = Space({"m": Categorical([{"x": Float(0, 1)}, {}]), "s": Float(0, 1)})
    u = np.linspace(0, 1, 9)
    exact = np.mean([np.exp(-((u[:, None] - u) ** 2) / (2 * gamma)) for gamma in (0.1, 1.0, 10.0)], axis=0)
    total = np.zeros((9, 9))
    for seed in range(400):
        rows = np.full((9, space.d), np.nan)
        rows[:, [i for i, p in enumerate(space.parameters) if p.name == "s"]] = u[:, None]
        features = Features(space, "fourier", "none", seed=seed)
        z = features.on(space.paths()[1]).values(rows)
        total += z @ z.T / 400
    np.testing.assert_allclose(total, exact, atol=0.03)


def test_sharing_is_by_position_above_the_choice():
    assert Space(MODELS).names(sorted(Space(MODELS).shared)) == ["scaler", "model[0].C"]
    layers = Space(LAYERS)
    assert set(layers.names(layers.shared)) == {"units_1", "units_2", "units_3", "units_4", "rate", "decay"}
    assert Space({"x": Float(0, 1)}).shared == frozenset()
