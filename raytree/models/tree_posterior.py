"""The posterior of the tree model (section 2.2 and below eq. (5) of Jenatton et al. 2017), with pending rows.

    m_p(x) = k_p(x)' beta_p + z_p' m_c + b_p,        beta_p = inv(M_p) (y_p - b_p - Z_p' m_c)
    S_p(x, x) = K_p(x, x) - k' inv(M_p) k + t' inv(Lambda) t,        t = z_p - Z_p inv(M_p) k_p(x)

Rows whose value is not known yet (running trials) are appended to their leaf's factor and to Lambda, with no share in beta
or m_c: that is conditioning on their posterior mean (the "believer"), which leaves every mean as it is and shrinks
variances, those of the weights included.

Notation as in `tree`; m rows to predict, L_p the factor of M_p, A_p = inv(L_p) Z_p'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.kernels import matern52, squared_differences
from raytree.gp.linalg import Array
from raytree.models.features import PathFeatures
from raytree.space import Path

if TYPE_CHECKING:
    from raytree.models.tree import Hyperparameters, TreeModel


class Leaf(NamedTuple):
    """One leaf: its rows, observed ones first."""

    X: Array  # (n_p, d_p)
    L: Array  # (n_p, n_p)
    A: Array  # (n_p, D_p)
    beta: Array  # (n_p,), 0 for rows without a value


class Prediction(NamedTuple):
    """Normal predictions of the function without noise: mean (m,) and sd (m,)."""

    mean: Array
    sd: Array


_TINY = 1e-18


class TreePosterior:
    """Predictions on any path, visited or not.

    Args:
        model: the model and its data.
        h: hyperparameters.
    """

    def __init__(self, model: TreeModel, h: Hyperparameters) -> None:
        self.model, self.h = model, h
        self.space, self.features = model.space, model.features
        self._inverse_length = h.inverse_squared_length
        factored = {}
        for path, index in model.members.items():
            X = model.rows[index][:, self.dims(path)]
            L = linalg.cholesky(self._kernel(path, X, X)[0] + h.noise * np.eye(len(X)))
            A = linalg.solve_lower(L, self.features.on(path).values(model.rows[index]))
            v = linalg.solve_lower(L, model.y[index] - h.offset[path])
            factored[path] = (X, L, A, v)
        self._index_columns(factored)
        projection = np.zeros(self.D)
        for path, (_, _, A, v) in factored.items():
            projection[self.columns_of(path)[0]] += A.T @ v
        self._factor_weights({path: A for path, (_, _, A, _) in factored.items()})
        self.weights = linalg.solve(self._L, projection)  # m_c
        self.leaves = {
            path: Leaf(X, L, A, linalg.solve_upper(L, v - A @ self.weights[self.columns_of(path)[0]]))
            for path, (X, L, A, v) in factored.items()
        }

    # Weights

    def _index_columns(self, paths: Sequence[Path] | dict) -> None:
        """Numbers the weights that some row has touched; the others keep their prior."""
        known = [self.features.on(path).columns for path in paths]
        self.columns = np.unique(np.concatenate(known)) if known else np.empty(0, int)
        self._position = np.full(self.features.D, -1)
        self._position[self.columns] = np.arange(len(self.columns))
        self._columns_of: dict[Path, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    @property
    def D(self) -> int:
        return len(self.columns)

    def columns_of(self, path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For a path's features: positions among the touched weights, which features those are, and the other ones."""
        found = self._columns_of.get(path)
        if found is None:
            position = self._position[self.features.on(path).columns]
            found = self._columns_of[path] = (
                position[position >= 0],
                np.flatnonzero(position >= 0),
                np.flatnonzero(position < 0),
            )
        return found

    def _factor_weights(self, A_of: dict[Path, Array]) -> None:
        precision = np.zeros((self.D, self.D))
        for path, A in A_of.items():
            at = self.columns_of(path)[0]
            precision[np.ix_(at, at)] += A.T @ A
        precision[np.diag_indices(self.D)] += 1.0 / self.h.weight_variance[self.columns]
        self._L = linalg.cholesky(precision)  # of Lambda

    def weight_posterior(self) -> tuple[Array, Array]:
        """Posterior means (D,) and standard deviations (D,) of all weights of the space."""
        mean, sd = np.zeros(self.features.D), np.sqrt(self.h.weight_variance)
        mean[self.columns] = self.weights
        inverse = linalg.solve_lower(self._L, np.eye(self.D))
        sd[self.columns] = np.sqrt(np.sum(inverse**2, axis=0))
        return mean, sd

    # Leaves

    def dims(self, path: Path) -> np.ndarray:
        """The dimensions of a leaf's kernel."""
        return self.model.kernel_dims(path)

    def amplitude(self, path: Path) -> float:
        """The prior variance of a leaf's function."""
        return self.h.amplitude.get(path, self.h.common_amplitude)

    def _kernel(self, path: Path, a: Array, b: Array) -> tuple[Array, Array]:
        """The leaf kernel (n, m) and its slope."""
        dims = self.dims(path)
        squared = squared_differences(a, b, self.model.categorical[dims])
        k, slope = matern52(np.einsum("kij,k->ij", squared, self._inverse_length[dims]))
        amplitude = self.amplitude(path)
        return amplitude * k, amplitude * slope

    def _kernel_gradient(self, path: Path, X: Array, x: Array, dims: np.ndarray) -> tuple[Array, Array]:
        """The kernel (n,) between rows X (n, d_p) and one x (d_p,), and its derivatives (n, d_p) by x."""
        difference = X - x
        categorical = self.model.categorical[dims]
        if categorical.any():
            difference[:, categorical] = np.abs(difference[:, categorical]) > 1e-9
        scaled = difference * self._inverse_length[dims]
        k, slope = matern52(np.sum(difference * scaled, axis=1))
        scaled[:, categorical] = 0.0
        amplitude = self.amplitude(path)
        return amplitude * k, (amplitude * slope)[:, None] * scaled

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - s2 alpha."""
        means = self.model.y.copy()
        for path, index in self.model.members.items():
            means[index] -= self.h.noise * self.leaves[path].beta[: len(index)]
        return means

    # Prediction

    def predict(self, path: Path, rows: Array) -> Prediction:
        """The function g_p(x) + z_p' c + b_p at rows (m, d) on one path."""
        on = self.features.on(path)
        z = on.values(rows)
        seen, inside, outside = self.columns_of(path)
        mean = z[:, inside] @ self.weights[seen] + self.h.offset.get(path, 0.0)
        t = z[:, inside]
        variance = np.full(len(rows), self.amplitude(path))
        leaf = self.leaves.get(path)
        if leaf is not None:
            k, _ = self._kernel(path, leaf.X, rows[:, self.dims(path)])
            w = linalg.solve_lower(leaf.L, k)
            mean = mean + leaf.beta @ k
            variance = variance - np.sum(w**2, axis=0)
            t = t - w.T @ leaf.A[:, inside]
        q = linalg.solve_lower(self._L, self._scatter(seen, t))
        variance = variance + np.sum(q**2, axis=0)
        if len(outside):
            variance = variance + z[:, outside] ** 2 @ self.h.weight_variance[on.columns[outside]]
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def predict_path(self, path: Path, rows: Array) -> Prediction:
        """The path alone, z_p' c + b_p, eq. (6): without the leaf's own function."""
        on = self.features.on(path)
        z = on.values(rows)
        seen, inside, outside = self.columns_of(path)
        mean = z[:, inside] @ self.weights[seen] + self.h.offset.get(path, 0.0)
        q = linalg.solve_lower(self._L, self._scatter(seen, z[:, inside]))
        variance = np.sum(q**2, axis=0) + z[:, outside] ** 2 @ self.h.weight_variance[on.columns[outside]]
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def _scatter(self, seen: np.ndarray, t: Array) -> Array:
        full = np.zeros((self.D, len(t)))
        full[seen] = t.T
        return full

    def gradient(self, path: Path, row: Array, whole: bool = True) -> tuple[float, float, Array, Array]:
        """Mean and sd at one row (d,), and their derivatives (d,), 0 where the path does not vary.

        Of `predict`, or with `whole=False` of `predict_path`.
        """
        on: PathFeatures = self.features.on(path)
        z, slopes = on.with_slopes(row)
        seen, inside, outside = self.columns_of(path)
        dims = self.dims(path)
        mean = float(z[inside] @ self.weights[seen]) + self.h.offset.get(path, 0.0)
        d_mean, d_variance = np.zeros(len(row)), np.zeros(len(row))
        variance = self.amplitude(path) if whole else 0.0
        t = z.copy()
        leaf = self.leaves.get(path) if whole else None
        dk = w_dk = np.empty((0, 0))
        if leaf is not None:
            k, dk = self._kernel_gradient(path, leaf.X, row[dims], dims)
            solved = linalg.solve_lower(leaf.L, np.column_stack([k, dk]))
            w, w_dk = solved[:, 0], solved[:, 1:]
            mean += float(leaf.beta @ k)
            variance -= float(w @ w)
            d_mean[dims] += leaf.beta @ dk
            d_variance[dims] -= 2.0 * (w @ w_dk)
            t -= w @ leaf.A
        full = np.zeros(self.D)
        full[seen] = t[inside]
        q = linalg.solve_lower(self._L, full)
        variance += float(q @ q)
        weighted = np.zeros(len(z))  # 2 inv(Lambda) t, and the prior for weights that nothing has touched
        weighted[inside] = 2.0 * linalg.solve_upper(self._L, q)[seen]
        prior = self.h.weight_variance[on.columns[outside]]
        variance += float(z[outside] ** 2 @ prior)
        weighted[outside] = 2.0 * z[outside] * prior
        if leaf is not None:
            d_variance[dims] -= (leaf.A @ weighted) @ w_dk
        contribution = np.zeros(len(z))
        contribution[inside] = self.weights[seen]
        on.pull_back(slopes, contribution, d_mean)
        on.pull_back(slopes, weighted, d_variance)
        sd = float(np.sqrt(max(variance, _TINY)))
        return mean, sd, d_mean, d_variance / (2.0 * sd)

    # Pending rows

    def condition(self, rows: Array, paths: Sequence[Path]) -> TreePosterior:
        """This posterior with rows (m, d) whose values are taken to be their means."""
        if not len(rows):
            return self
        grown = object.__new__(TreePosterior)
        grown.model, grown.h, grown.space, grown.features = self.model, self.h, self.space, self.features
        grown._inverse_length = self._inverse_length
        grown.leaves = dict(self.leaves)
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            groups.setdefault(path, []).append(k)
        for path, index in groups.items():
            grown.leaves[path] = self._grow(path, rows[index])
        grown._index_columns(grown.leaves)
        grown.weights = np.zeros(grown.D)
        grown.weights[grown._position[self.columns]] = self.weights
        grown._factor_weights({path: leaf.A for path, leaf in grown.leaves.items()})
        return grown

    def _grow(self, path: Path, rows: Array) -> Leaf:
        X = rows[:, self.dims(path)]
        z = self.features.on(path).values(rows)
        corner = self._kernel(path, X, X)[0] + self.h.noise * np.eye(len(rows))
        leaf = self.leaves.get(path)
        if leaf is None:
            L = linalg.cholesky(corner)
            return Leaf(X, L, linalg.solve_lower(L, z), np.zeros(len(rows)))
        n = len(leaf.X)
        L = linalg.append(leaf.L, self._kernel(path, leaf.X, X)[0], corner)
        A = np.vstack([leaf.A, linalg.solve_lower(L[n:, n:], z - L[n:, :n] @ leaf.A)])
        return Leaf(np.vstack([leaf.X, X]), L, A, np.append(leaf.beta, np.zeros(len(rows))))
