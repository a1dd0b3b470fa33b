"""The posterior of a Gaussian process: one for every model, frozen; more data make a new one.

    f(x) = m_p + g(x) + z(x)' c,    g ~ GP(0, K),    c ~ N(0, S),    y_i = f(x_i) + noise_i

Rows belong to paths, paths to blocks; the kernel K is 0 between blocks. Each block b is factorised alone, M_b = K_b + noise =
L_b L_b', and blocks meet only in the weights c, through Lambda = inv(S) + sum_b Z_b' inv(M_b) Z_b: no n x n matrix exists.
With A_b = inv(L_b) Z_b and v_b = inv(L_b) (y_b - m_p),

    mean of c     m_c = inv(Lambda) sum_b A_b' v_b,    beta_b = inv(L_b)' (v_b - A_b m_c)
    mean at x     m_p + z' m_c + k' beta_b,                       k = K(X_b, x),  w = inv(L_b) k
    variance      K(x, x) - w' w + t' inv(Lambda) t,              t = z - A_b' w

(below eq. (5) of Jenatton et al. 2017; a model without weights has D = 0, one with a single block is a plain GP).

Rows whose value is not known yet (running trials) are appended with no share in beta or m_c: that is conditioning on their
posterior mean (the "believer"), which leaves every mean as it is and shrinks variances. They can be given values as well.

Notation: n observations, n_b in block b, m rows to predict, d coordinates, D weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from raytree.gp import linalg
from raytree.gp.linalg import Array
from raytree.gp.process import FeatureMap, Key, Process
from raytree.gp.weights import Weights

_TINY = 1e-18


class Prediction(NamedTuple):
    """Normal predictions of the function without noise: mean (m,) and sd (m,)."""

    mean: Array
    sd: Array


class Gradient(NamedTuple):
    """Mean and sd at one row, and their derivatives (d,) by its coordinates."""

    mean: float
    sd: float
    by_mean: Array
    by_sd: Array


class Block(NamedTuple):
    """The rows of one block, observed ones first."""

    X: Array  # (n_b, c) inputs
    signature: bytes  # of the kernel, and of the observed rows
    L: Array  # (n_b, n_b)
    A: Array  # (n_b, D_b)
    v: Array  # (n_b,)
    beta: Array  # (n_b,), 0 for rows without a value


class Observed(NamedTuple):
    """What a posterior was fitted to; `members` has the numbers of each block's rows, `paths` a path of each block."""

    rows: Array  # (n, d), and the fidelity if there is one
    y: Array  # (n,)
    members: dict[Key, np.ndarray]
    paths: dict[Key, Key]


class Posterior(Protocol):
    """What a strategy asks of any posterior."""

    def predict(self, path: Key, rows: Array) -> Prediction:
        """Mean and sd of the function at rows (m, d) on one path."""
        ...

    def joint(self, rows: Array, paths: Sequence[Key]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the function at rows (m, d), each on its path."""
        ...

    def target_means(self) -> Array:
        """(n,) posterior means at the observations' configurations, at the target fidelity."""
        ...


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The posterior of one process at one set of hyperparameters. Make it with `posterior`.

    Args:
        process: what it is a posterior of.
        observed: the data.
        blocks: by block, its rows and their factor.
        weights: of the features.
        target: the fidelity of rows that have none.
        lowest: what improvement is measured from: the best value, or with fidelities the lowest mean at the target.
    """

    process: Process
    observed: Observed
    blocks: dict[Key, Block]
    weights: Weights
    target: float
    lowest: float

    @property
    def parts(self) -> list[Gaussian]:
        """Itself, see `Mixture`."""
        return [self]

    def full(self, rows: Array) -> Array:
        """Rows (m, d), or (m, d + 1) with a fidelity if the process has them."""
        if not self.process.fidelities or rows.shape[1] > self.process.d:
            return rows
        return np.column_stack([rows, np.full(len(rows), self.target)])

    # Prediction

    def _project(self, path: Key, rows: Array) -> tuple[Array, Array, Array, Array]:
        """For full rows: means (m,), w (n_b, m), inv(L) t (k, m), and scaled features of untouched weights (m, u)."""
        process, block_key = self.process, self.process.block_of(path)
        on = process.features.on(path)
        z = on.values(rows)
        places, inside, outside = self.weights.where(process.features, path)
        mean = process.mean(path) + z[:, inside] @ self.weights.mean[places]
        t = z[:, inside]
        block = self.blocks.get(block_key)
        w = np.empty((0, len(rows)))
        if block is not None:
            k = process.kernel.matrix(block_key, block.X, process.kernel.inputs(block_key, rows))
            w = linalg.solve_lower(block.L, k)
            mean = mean + block.beta @ k
            t = t - w.T @ block.A[:, inside]
        scaled = z[:, outside] * np.sqrt(process.variance[on.columns[outside]])
        return mean, w, self.weights.spread(places, t), scaled

    def predict(self, path: Key, rows: Array) -> Prediction:
        """The function at rows (m, d) on one path."""
        rows = self.full(rows)
        mean, w, q, apart = self._project(path, rows)
        block = self.process.block_of(path)
        prior = self.process.kernel.diagonal(block, self.process.kernel.inputs(block, rows))
        variance = prior - np.sum(w**2, axis=0) + np.sum(q**2, axis=0) + np.sum(apart**2, axis=1)
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def joint(self, rows: Array, paths: Sequence[Key]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the function at rows (m, d), each on its path."""
        rows, kernel, features = self.full(rows), self.process.kernel, self.process.features
        mean, covariance = np.empty(len(rows)), np.zeros((len(rows), len(rows)))
        q, untouched = np.zeros((len(self.weights.columns), len(rows))), np.zeros((len(self.process.variance), len(rows)))
        w = {}
        for path, index in _grouped(paths).items():
            mean[index], w[path], q[:, index], apart = self._project(path, rows[index])
            untouched[np.ix_(features.on(path).columns[self.weights.where(features, path).outside], index)] = apart.T
        for block, index in _grouped([self.process.block_of(path) for path in paths]).items():
            X = kernel.inputs(block, rows[index])
            solved = np.concatenate([w[path] for path in _grouped([paths[k] for k in index])], axis=1)
            order = np.concatenate(list(_grouped([paths[k] for k in index]).values()))
            within = np.empty((len(index), len(index)))
            within[np.ix_(order, order)] = solved.T @ solved
            covariance[np.ix_(index, index)] = kernel.matrix(block, X, X) - within
        return mean, covariance + q.T @ q + untouched.T @ untouched

    def predict_path(self, path: Key, rows: Array) -> Prediction:
        """The path alone, m_p + z' c, eq. (6) of Jenatton et al. 2017: without the function g."""
        rows, features = self.full(rows), self.process.features
        on = features.on(path)
        z = on.values(rows)
        places, inside, outside = self.weights.where(features, path)
        mean = z[:, inside] @ self.weights.mean[places] + self.process.mean(path)
        q = self.weights.spread(places, z[:, inside])
        variance = np.sum(q**2, axis=0) + z[:, outside] ** 2 @ self.process.variance[on.columns[outside]]
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def predict_paths(self, paths: Sequence[Key], rows: Array) -> Prediction:
        """`predict_path` of rows (p, m, d) on p paths, all in one product: mean and sd (p, m)."""
        p, m, d = rows.shape
        features, columns = self.process.features, self.weights.columns
        z = features.matrix(paths, self.full(rows.reshape(p * m, d)).reshape(p, m, -1)).reshape(p * m, -1)
        means = np.repeat([self.process.mean(path) for path in paths], m)
        q = linalg.solve_lower(self.weights.L, z[:, columns].T)
        prior = self.process.variance.copy()
        prior[columns] = 0.0
        variance = np.sum(q**2, axis=0) + z**2 @ prior
        mean = means + z[:, columns] @ self.weights.mean
        return Prediction(mean.reshape(p, m), np.sqrt(np.maximum(variance, _TINY)).reshape(p, m))

    def gradient(self, path: Key, row: Array, whole: bool = True) -> Gradient:
        """Mean and sd at one row (d,), and their derivatives (d,) by the coordinates that the kernel and the features have.

        Of `predict`, or with `whole=False` of `predict_path`.
        """
        process, key = self.process, self.process.block_of(path)
        on = process.features.on(path)
        row = self.full(row[None])[0]
        z, slopes = on.with_slopes(row)
        weights = self.weights.on(process, path)
        mean, variance = process.mean(path) + float(z @ weights.mean), 0.0
        by_mean, by_variance = np.zeros(process.d), np.zeros(process.d)
        block, t = (self.blocks.get(key) if whole else None), z
        if whole:
            x = process.kernel.inputs(key, row[None])
            variance = float(process.kernel.diagonal(key, x)[0])
        if block is not None:
            k, dk = process.kernel.gradient(key, block.X, x[0])
            w = linalg.solve_lower(block.L, k)
            mean += float(block.beta @ k)
            variance -= float(w @ w)
            t = z - w @ block.A
        q = weights.root @ t
        variance += float(q @ q)
        by_t = q @ weights.root  # half of the derivative of the variance
        if block is not None:
            coordinates = process.kernel.coordinates(key)
            by_mean[coordinates] = block.beta @ dk
            by_variance[coordinates] = -2.0 * (linalg.solve_upper(block.L, w + block.A @ by_t) @ dk)
        on.pull_back(slopes, weights.mean, by_mean)
        on.pull_back(slopes, 2.0 * by_t, by_variance)
        sd = float(np.sqrt(max(variance, _TINY)))
        return Gradient(mean, sd, by_mean, by_variance / (2.0 * sd))

    def weight_posterior(self) -> tuple[Array, Array]:
        """Posterior means (D,) and standard deviations (D,) of all weights."""
        mean, sd, k = np.zeros(len(self.process.variance)), np.sqrt(self.process.variance), self.weights.columns
        mean[k] = self.weights.mean
        sd[k] = np.sqrt(np.sum(linalg.solve_lower(self.weights.L, np.eye(len(k))) ** 2, axis=0))
        return mean, sd

    # At the observations

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - noise beta."""
        means = self.observed.y.copy()
        for key, index in self.observed.members.items():
            block = self.blocks[key]
            means[index] -= (self.process.kernel.noise(key, block.X) * block.beta)[: len(index)]
        return means

    def target_means(self) -> Array:
        """(n,) posterior means at the observations' configurations, at the target fidelity."""
        if not self.process.fidelities:
            return self.observed_means()
        means = np.empty(len(self.observed.y))
        for key, index in self.observed.members.items():
            means[index] = self.predict(self.observed.paths[key], self.observed.rows[index][:, : self.process.d]).mean
        return means

    def at(self, fidelity: float, which: np.ndarray) -> Gaussian:
        """This posterior for improvement, at another fidelity, on the median of some observations' configurations."""
        other = replace(self, target=fidelity)
        return replace(other, lowest=float(np.median(other.target_means()[which])))

    def explained(self, path: Key, rows: Array, fidelity: float) -> Array:
        """(m,) which share of what is unknown at rows (m, d) an evaluation at another fidelity would explain."""
        kernel, block = self.process.kernel, self.process.block_of(path)
        there, here = np.column_stack([rows, np.full(len(rows), fidelity)]), self.full(rows)
        (_, w, q, apart), (_, w_here, q_here, apart_here) = self._project(path, there), self._project(path, here)
        X, X_here = kernel.inputs(block, there), kernel.inputs(block, here)
        covariance = np.diagonal(kernel.matrix(block, X, X_here)) - np.sum(w * w_here, axis=0)
        covariance = covariance + np.sum(q * q_here, axis=0) + np.sum(apart * apart_here, axis=1)
        spread = (self.predict(path, there).sd ** 2 + kernel.noise(block, X)) * self.predict(path, here).sd ** 2
        return np.asarray(np.clip(covariance**2 / spread, 0.0, 1.0))

    def same(self, features: FeatureMap, key: Key, signature: bytes) -> Block | None:
        """The block of a key, if it was made of the same rows with these features and hyperparameters."""
        block = self.blocks.get(key)
        return block if block is not None and features is self.process.features and block.signature == signature else None

    # More data

    def condition(self, rows: Array, paths: Sequence[Key], values: Array | None = None) -> Gaussian:
        """This posterior with more rows (m, d): their values (m,), or their means taken for values."""
        if not len(rows):
            return self
        rows, blocks, members = self.full(rows), dict(self.blocks), self._path_of_block()
        for key, index in _grouped([self.process.block_of(path) for path in paths]).items():
            members.setdefault(key, paths[index[0]])
            blocks[key] = self._grown(key, [paths[k] for k in index], rows[index], None if values is None else values[index])
        if values is None:  # neither the means of the weights nor those of the blocks change
            weights, _ = _weights(self.process, blocks, members)
            mean = np.zeros(len(weights.columns))
            mean[weights.position[self.weights.columns]] = self.weights.mean
            return replace(self, blocks=blocks, weights=replace(weights, mean=mean))
        weights, solved = _solved(self.process, blocks, members)
        return replace(self, blocks=solved, weights=weights, lowest=min(self.lowest, float(values.min())))

    def _path_of_block(self) -> dict[Key, Key]:
        return {key: self.observed.paths.get(key, key) for key in self.blocks}

    def _grown(self, key: Key, paths: Sequence[Key], rows: Array, values: Array | None) -> Block:
        kernel, features = self.process.kernel, self.process.features
        X = kernel.inputs(key, rows)
        means = np.array([self.process.mean(path) for path in paths])
        z, expected = np.empty((len(rows), len(features.on(paths[0]).columns))), np.empty(len(rows))
        for path, index in _grouped(paths).items():
            z[index] = features.on(path).values(rows[index])
            expected[index] = self._project(path, rows[index])[0] if values is None else values[index]
        corner = kernel.matrix(key, X, X) + np.diag(kernel.noise(key, X))
        block = self.blocks.get(key)
        if block is None:
            L = linalg.cholesky(corner)
            A, v = linalg.solve_lower(L, z), linalg.solve_lower(L, expected - means)
            return Block(X, kernel.signature(key), L, A, v, np.zeros(len(rows)))
        n = len(block.X)
        L = linalg.append(block.L, kernel.matrix(key, block.X, X), corner)
        A = np.vstack([block.A, linalg.solve_lower(L[n:, n:], z - L[n:, :n] @ block.A)])
        v = np.append(block.v, linalg.solve_lower(L[n:, n:], expected - means - L[n:, :n] @ block.v))
        return Block(np.vstack([block.X, X]), block.signature, L, A, v, np.append(block.beta, np.zeros(len(rows))))


def posterior(
    process: Process, rows: Array, y: Array, paths: Sequence[Key], target: float = 1.0, previous: Gaussian | None = None
) -> Gaussian:
    """The posterior of a process given rows (n, d), or (n, d + 1) with fidelities, their losses (n,) and paths.

    Blocks that are as they were in a previous posterior keep their factors: the result is the same, to the last digit.
    """
    members = {key: np.array(index) for key, index in _grouped([process.block_of(path) for path in paths]).items()}
    path_of = {key: paths[int(index[0])] for key, index in members.items()}
    blocks = {}
    for key, index in members.items():
        of_block = rows[index]
        signature = process.kernel.signature(key) + of_block.tobytes()
        known = None if previous is None else previous.same(process.features, key, signature)
        if known is not None:
            X, L, A = known.X, known.L, known.A
        else:
            X = process.kernel.inputs(key, of_block)
            L = linalg.cholesky(process.kernel.matrix(key, X, X) + np.diag(process.kernel.noise(key, X)))
            A = linalg.solve_lower(L, process.features.on(path_of[key]).values(of_block))
        v = linalg.solve_lower(L, y[index] - process.mean(path_of[key]))
        blocks[key] = Block(X, signature, L, A, v, np.empty(0))
    weights, solved = _solved(process, blocks, path_of)
    made = Gaussian(process, Observed(rows, y, members, path_of), solved, weights, target, np.inf)
    return replace(made, lowest=float((made.target_means() if process.fidelities else y).min(initial=np.inf)))


class Stacked(NamedTuple):
    """The features of all blocks' rows, one below the other, each solved by its block's factor."""

    A: Array  # (n, k)
    starts: list[int]  # of each block, and the end


def _weights(process: Process, blocks: dict[Key, Block], path_of: dict[Key, Key]) -> tuple[Weights, Stacked]:
    """The posterior of the weights given some blocks, their means left at 0."""
    touched = [process.features.on(path_of[key]).columns for key in blocks]
    columns = np.unique(np.concatenate(touched)) if touched else np.empty(0, int)
    position = np.full(len(process.variance), -1)
    position[columns] = np.arange(len(columns))
    starts = [0, *accumulate(len(block.X) for block in blocks.values())]
    A = np.zeros((starts[-1], len(columns)))
    for block, mine, start, stop in zip(blocks.values(), touched, starts, starts[1:], strict=False):
        A[start:stop, position[mine]] = block.A
    L = linalg.cholesky(A.T @ A + np.diag(1.0 / process.variance[columns]))
    return Weights(columns, position, L, np.zeros(len(columns))), Stacked(A, starts)


def _solved(process: Process, blocks: dict[Key, Block], path_of: dict[Key, Key]) -> tuple[Weights, dict[Key, Block]]:
    """The weights given the values of all blocks, and the blocks with the beta that those imply."""
    weights, (A, starts) = _weights(process, blocks, path_of)
    v = np.concatenate([block.v for block in blocks.values()]) if blocks else np.empty(0)
    weights = replace(weights, mean=linalg.solve(weights.L, A.T @ v))
    left = v - A @ weights.mean
    parts = zip(blocks.items(), starts, starts[1:], strict=False)
    solved = {key: block._replace(beta=linalg.solve_upper(block.L, left[start:stop])) for (key, block), start, stop in parts}
    return weights, solved


def _grouped(keys: Sequence[Key]) -> dict[Key, list[int]]:
    """The places of each key."""
    groups: dict[Key, list[int]] = {}
    for k, key in enumerate(keys):
        groups.setdefault(key, []).append(k)
    return groups


class Mixture:
    """Several posteriors of the same observations: one for every guess at hyperparameters or at values of running trials.

    Args:
        parts: the posteriors.
        weights: (k,) of each, which add up to one; equal if left out.
    """

    def __init__(self, parts: Sequence[Gaussian], weights: Array | None = None) -> None:
        self.parts = list(parts)
        self.weights = np.full(len(self.parts), 1.0 / len(self.parts)) if weights is None else weights

    def at(self, fidelity: float, which: np.ndarray) -> Mixture:
        """These posteriors for improvement at another fidelity."""
        return Mixture([part.at(fidelity, which) for part in self.parts], self.weights)

    def predict(self, path: Key, rows: Array) -> Prediction:
        """Mean and sd of the mixture at rows (m, d) on one path."""
        return mixed(self.weights, [part.predict(path, rows) for part in self.parts])

    def target_means(self) -> Array:
        """(n,) means of the mixture at the observations' configurations, at the target fidelity."""
        return np.asarray(self.weights @ np.array([part.target_means() for part in self.parts]))

    def joint(self, rows: Array, paths: Sequence[Key]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the mixture at rows (m, d), each on its path."""
        every = [part.joint(rows, paths) for part in self.parts]
        means = np.array([mean for mean, _ in every])
        mean = self.weights @ means
        within = np.einsum("k,kij->ij", self.weights, np.array([covariance for _, covariance in every]))
        return mean, within + (self.weights[:, None] * (means - mean)).T @ (means - mean)

    def explained(self, path: Key, rows: Array, fidelity: float) -> Array:
        """(m,) which share of what is unknown at rows (m, d) an evaluation at another fidelity would explain."""
        return np.asarray(self.weights @ np.array([part.explained(path, rows, fidelity) for part in self.parts]))

    def condition(self, rows: Array, paths: Sequence[Key], values: Array | None = None) -> Mixture:
        """These posteriors with more rows (m, d): their values (m,), or their means taken for values."""
        return Mixture([part.condition(rows, paths, values) for part in self.parts], self.weights)


def mixed(weights: Array, predictions: Sequence[Prediction]) -> Prediction:
    """Mean and sd of a mixture of normals with weights (k,)."""
    means, sds = np.array([p.mean for p in predictions]), np.array([p.sd for p in predictions])
    mean = weights @ means
    return Prediction(mean, np.sqrt(weights @ (sds**2 + (means - mean) ** 2)))
