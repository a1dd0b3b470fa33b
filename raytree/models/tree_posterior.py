"""The posterior of the tree model (section 2.2 and below eq. (5) of Jenatton et al. 2017), with pending rows.

    m_p(x) = k_p(x)' beta_p + z_p' m_c + b_p,        beta_p = inv(M_p) (y_p - b_p - Z_p' m_c)
    S_p(x, x) = K_p(x, x) - k' inv(M_p) k + t' inv(Lambda) t,        t = z_p - Z_p inv(M_p) k_p(x)

Rows whose value is not known yet (running trials) are appended to their leaf's factor and to Lambda, with no share in beta
or m_c: that is conditioning on their posterior mean (the "believer"), which leaves every mean as it is and shrinks
variances, those of the weights included. They can be given values as well, such as draws from the posterior.

Where the model has fidelities, rows (m, d) without one are meant at `target`.

Notation as in `tree`; m rows to predict, L_p the factor of M_p, A_p = inv(L_p) Z_p'.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
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

    X: Array  # (n_p, d_p), and the fidelity if there is one
    L: Array  # (n_p, n_p)
    A: Array  # (n_p, D_p)
    v: Array  # (n_p,) inv(L) (y - b)
    beta: Array  # (n_p,), 0 for rows without a value


class Prediction(NamedTuple):
    """Normal predictions of the function without noise: mean (m,) and sd (m,)."""

    mean: Array
    sd: Array


_TINY = 1e-18
FREEDOM = 20
"""Degrees of freedom of a leaf's amplitude before anything is known."""
CERTAIN = 200
"""From so many degrees of freedom on a Student t is a normal."""


class TreePosterior:
    """Predictions on any path, visited or not.

    Args:
        model: the model and its data.
        h: hyperparameters.
        target: the fidelity of rows that have none.
    """

    def __init__(self, model: TreeModel, h: Hyperparameters, target: float = 1.0) -> None:
        self.model, self.h, self.target = model, h, target
        self.space, self.features = model.space, model.features
        self._inverse_length = h.inverse_squared_length
        self.leaves = {}
        for path, index in model.members.items():
            X = self._inputs(path, model.rows[index])
            L = linalg.cholesky(self._kernel(path, X, X)[0] + np.diag(self._noise(X)))
            A = linalg.solve_lower(L, self.features.on(path).values(model.rows[index]))
            v = linalg.solve_lower(L, model.y[index] - h.offset[path])
            self.leaves[path] = Leaf(X, L, A, v, np.empty(0))
        self._index_columns(self.leaves)
        self._factor_weights()
        self._solve()
        self.noise = h.noise if model.settings.improvement == "known" else 0.0
        self.lowest = float(self.target_means().min(initial=np.inf))  # what improvement is measured from

    def at(self, fidelity: float, which: np.ndarray) -> TreePosterior:
        """This posterior for improvement, at another fidelity, on the median of some observations' configurations."""
        other = copy(self)
        other.target = fidelity
        other.lowest = float(np.median(other.target_means()[which]))
        return other

    def freedom(self, path: Path) -> int:
        """How many degrees of freedom the estimate of a leaf's amplitude has: those of its prior, and one per observation."""
        return FREEDOM + len(self.model.members.get(path, ())) if self.model.settings.improvement == "known" else CERTAIN

    @property
    def parts(self) -> list[TreePosterior]:
        """Itself: see `Together`."""
        return [self]

    def together(self, others: Sequence[TreePosterior]) -> Together:
        """This and other posteriors with equal weights."""
        return Together([self, *others])

    def _solve(self) -> None:
        """The means m_c and beta_p that the values in the leaves' v imply."""
        projection = np.zeros(self.D)
        for path, leaf in self.leaves.items():
            projection[self.columns_of(path)[0]] += leaf.A.T @ leaf.v
        self.weights = linalg.solve(self._L, projection)  # m_c
        for path, leaf in self.leaves.items():
            residual = leaf.v - leaf.A @ self.weights[self.columns_of(path)[0]]
            self.leaves[path] = leaf._replace(beta=linalg.solve_upper(leaf.L, residual))

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

    def _factor_weights(self) -> None:
        precision = np.zeros((self.D, self.D))
        for path, leaf in self.leaves.items():
            at = self.columns_of(path)[0]
            precision[np.ix_(at, at)] += leaf.A.T @ leaf.A
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

    def numbers(self, rows: Array) -> Array:
        """Rows (m, d) or (m, d + 1) with a fidelity, if the model has them."""
        if self.model.context is None or rows.shape[1] > self.space.d:
            return rows
        return np.column_stack([rows, np.full(len(rows), self.target)])

    def _inputs(self, path: Path, rows: Array) -> Array:
        """(m, d_p) what a leaf's kernel sees of full rows: its dimensions, and the fidelity."""
        dims = self.dims(path)
        return rows[:, dims] if self.model.context is None else rows[:, np.append(dims, self.space.d)]

    def _kernel(self, path: Path, a: Array, b: Array) -> tuple[Array, Array]:
        """The leaf kernel (n, m) and its slope."""
        dims = self.dims(path)
        squared = squared_differences(a[:, : len(dims)], b[:, : len(dims)], self.model.categorical[dims])
        k, slope = matern52(np.einsum("kij,k->ij", squared, self._inverse_length[dims]))
        factor: float | Array = self.amplitude(path)
        if self.model.context is not None:
            factor = factor * self.model.context(self.h.context, a[:, -1], b[:, -1])
        return factor * k, factor * slope

    def _noise(self, X: Array) -> Array:
        """(m,) the variance of evaluations around the function."""
        return np.full(len(X), self.h.noise) if self.model.context is None else self.h.noise_at(X[:, -1])

    def _prior_variance(self, path: Path, X: Array) -> Array:
        """(m,) the leaf kernel of each row with itself."""
        variance = np.full(len(X), self.amplitude(path))
        return variance if self.model.context is None else variance * self.model.context.diagonal(self.h.context, X[:, -1])

    def _kernel_gradient(self, path: Path, X: Array, x: Array) -> tuple[Array, Array]:
        """The kernel (n,) between rows X (n, d_p) and one x (d_p,), and its derivatives (n, d_p) by x."""
        dims = self.dims(path)
        factor: float | Array = self.amplitude(path)
        if self.model.context is not None:
            factor = factor * self.model.context(self.h.context, X[:, -1], x[-1:])[:, 0]
        difference, categorical = self._differences(X, x[: len(dims)], dims), self.model.categorical[dims]
        scaled = difference * self._inverse_length[dims]
        k, slope = matern52(np.sum(difference * scaled, axis=1))
        scaled[:, categorical] = 0.0
        return factor * k, (factor * slope)[:, None] * scaled

    def _differences(self, X: Array, x: Array, dims: np.ndarray) -> Array:
        """(n, d_p) of rows X and one x; 1 between categories."""
        difference = X[:, : len(dims)] - x
        categorical = self.model.categorical[dims]
        if categorical.any():
            difference[:, categorical] = np.abs(difference[:, categorical]) > 1e-9
        return difference

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - s2 alpha."""
        means = self.model.y.copy()
        for path, index in self.model.members.items():
            leaf = self.leaves[path]
            means[index] -= (self._noise(leaf.X) * leaf.beta)[: len(index)]
        return means

    def target_means(self) -> Array:
        """(n,) posterior means at the observations' configurations, at the target fidelity."""
        if self.model.context is None:
            return self.observed_means()
        means = np.empty(len(self.model.y))
        for path, index in self.model.members.items():
            means[index] = self.predict(path, self.model.rows[index][:, : self.space.d]).mean
        return means

    # Prediction

    def _project(self, path: Path, rows: Array) -> tuple[Array, Array, Array, Array]:
        """For full rows: means (m,), inv(L_p) k (n_p, m), inv(L) t (D, m), and features of untouched weights (m, u)."""
        on = self.features.on(path)
        z = on.values(rows)
        seen, inside, outside = self.columns_of(path)
        mean = z[:, inside] @ self.weights[seen] + self.h.offset.get(path, 0.0)
        t = z[:, inside]
        leaf = self.leaves.get(path)
        w = np.empty((0, len(rows)))
        if leaf is not None:
            k, _ = self._kernel(path, leaf.X, self._inputs(path, rows))
            w = linalg.solve_lower(leaf.L, k)
            mean = mean + leaf.beta @ k
            t = t - w.T @ leaf.A[:, inside]
        scaled = z[:, outside] * np.sqrt(self.h.weight_variance[on.columns[outside]])
        return mean, w, linalg.solve_lower(self._L, self._scatter(seen, t)), scaled

    def predict(self, path: Path, rows: Array) -> Prediction:
        """The function g_p(x) + z_p' c + b_p at rows (m, d) on one path."""
        rows = self.numbers(rows)
        mean, w, q, apart = self._project(path, rows)
        variance = self._prior_variance(path, self._inputs(path, rows))
        variance = variance - np.sum(w**2, axis=0) + np.sum(q**2, axis=0) + np.sum(apart**2, axis=1)
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def joint(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the function at rows (m, d), each on its path."""
        rows = self.numbers(rows)
        mean, covariance = np.empty(len(rows)), np.zeros((len(rows), len(rows)))
        weights = np.zeros((self.D, len(rows)))
        untouched = np.zeros((self.features.D, len(rows)))
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            groups.setdefault(path, []).append(k)
        for path, index in groups.items():
            X = self._inputs(path, rows[index])
            mean[index], w, weights[:, index], apart = self._project(path, rows[index])
            covariance[np.ix_(index, index)] = self._kernel(path, X, X)[0] - w.T @ w
            untouched[np.ix_(self.features.on(path).columns[self.columns_of(path)[2]], index)] = apart.T
        return mean, covariance + weights.T @ weights + untouched.T @ untouched

    def informs(self, path: Path, rows: Array, fidelity: float) -> Array:
        """(m,) which share of what is unknown at rows (m, d) an evaluation at another fidelity would explain."""
        there, here = np.column_stack([rows, np.full(len(rows), fidelity)]), self.numbers(rows)
        (_, w, q, apart), (_, w_here, q_here, apart_here) = self._project(path, there), self._project(path, here)
        assert self.model.context is not None
        between = self.model.context(self.h.context, np.array([fidelity]), np.array([self.target]))[0, 0]
        covariance = between * self.amplitude(path) - np.sum(w * w_here, axis=0) + np.sum(q * q_here, axis=0)
        covariance = covariance + np.sum(apart * apart_here, axis=1)
        noise = float(self.h.noise_at(np.array(fidelity)))
        spread = (self.predict(path, there).sd ** 2 + noise) * self.predict(path, here).sd ** 2
        return np.asarray(np.clip(covariance**2 / spread, 0.0, 1.0))

    def predict_path(self, path: Path, rows: Array) -> Prediction:
        """The path alone, z_p' c + b_p, eq. (6): without the leaf's own function."""
        rows = self.numbers(rows)
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
        row = self.numbers(row[None])[0]
        z, slopes = on.with_slopes(row)
        seen, inside, outside = self.columns_of(path)
        dims = self.dims(path)
        mean = float(z[inside] @ self.weights[seen]) + self.h.offset.get(path, 0.0)
        d_mean, d_variance = np.zeros(self.space.d), np.zeros(self.space.d)
        x = self._inputs(path, row[None])
        variance = float(self._prior_variance(path, x)[0]) if whole else 0.0
        t = z.copy()
        leaf = self.leaves.get(path) if whole else None
        dk = w_dk = np.empty((0, 0))
        if leaf is not None:
            k, dk = self._kernel_gradient(path, leaf.X, x[0])
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

    def condition(self, rows: Array, paths: Sequence[Path], values: Array | None = None) -> TreePosterior:
        """This posterior with more rows (m, d): their values (m,), or their means taken for values."""
        if not len(rows):
            return self
        rows = self.numbers(rows)
        grown = object.__new__(TreePosterior)
        grown.model, grown.h, grown.space, grown.features = self.model, self.h, self.space, self.features
        grown._inverse_length, grown.target = self._inverse_length, self.target
        grown.leaves = dict(self.leaves)
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            groups.setdefault(path, []).append(k)
        for path, index in groups.items():
            grown.leaves[path] = self._grow(path, rows[index], None if values is None else values[index])
        grown._index_columns(grown.leaves)
        grown._factor_weights()
        grown.lowest, grown.noise = self.lowest, self.noise
        if values is not None:
            grown._solve()
            grown.lowest = min(self.lowest, float(values.min()))
        else:
            grown.weights = np.zeros(grown.D)
            grown.weights[grown._position[self.columns]] = self.weights
        return grown

    def _grow(self, path: Path, rows: Array, values: Array | None) -> Leaf:
        X = self._inputs(path, rows)
        z = self.features.on(path).values(rows)
        corner = self._kernel(path, X, X)[0] + np.diag(self._noise(X))
        y = (self.predict(path, rows).mean if values is None else values) - self.h.offset.get(path, 0.0)
        leaf = self.leaves.get(path)
        if leaf is None:
            L = linalg.cholesky(corner)
            return Leaf(X, L, linalg.solve_lower(L, z), linalg.solve_lower(L, y), np.zeros(len(rows)))
        n = len(leaf.X)
        L = linalg.append(leaf.L, self._kernel(path, leaf.X, X)[0], corner)
        A = np.vstack([leaf.A, linalg.solve_lower(L[n:, n:], z - L[n:, :n] @ leaf.A)])
        v = np.append(leaf.v, linalg.solve_lower(L[n:, n:], y - L[n:, :n] @ leaf.v))
        return Leaf(np.vstack([leaf.X, X]), L, A, v, np.append(leaf.beta, np.zeros(len(rows))))


class Together:
    """Several posteriors, such as one for every guess at the values of running trials.

    Args:
        parts: the posteriors.
        weights: (k,) of each; equal if left out.
    """

    def __init__(self, parts: Sequence[TreePosterior], weights: Array | None = None) -> None:
        self.parts = list(parts)
        self.weights = np.full(len(self.parts), 1.0 / len(self.parts)) if weights is None else weights

    def at(self, fidelity: float, which: np.ndarray) -> Together:
        """These posteriors for improvement at another fidelity."""
        return Together([part.at(fidelity, which) for part in self.parts], self.weights)

    def numbers(self, rows: Array) -> Array:
        """What the parts see of rows (m, d)."""
        return self.parts[0].numbers(rows)

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd of the mixture at rows (m, d) on one path."""
        every = [part.predict(path, rows) for part in self.parts]
        means, sds = np.array([p.mean for p in every]), np.array([p.sd for p in every])
        mean = self.weights @ means
        return Prediction(mean, np.sqrt(self.weights @ (sds**2 + (means - mean) ** 2)))

    def target_means(self) -> Array:
        """(n,) means of the mixture at the observations' configurations, at the target fidelity."""
        return np.asarray(self.weights @ np.array([part.target_means() for part in self.parts]))

    def condition(self, rows: Array, paths: Sequence[Path]) -> Together:
        """These posteriors with more rows (m, d), their means taken for values."""
        return Together([part.condition(rows, paths) for part in self.parts], self.weights)
