"""Gaussian processes with hyperparameters of their own in every leaf of a partition (Assael et al. 2014, section 3.2).

The hyperparameters of leaf j maximise, or are drawn from, the weighted log-likelihoods of all nodes above it, eq. (2):

    sum over i on the path to j of w_i log p(y_i | x_i, theta) + log p(theta),    w_i = |M_j| / |M_i| / (1 + depth_j - depth_i)

so that a leaf with few points borrows from its ancestors. Ours: the prior of a leaf's theta is centred at the theta of the
whole, since five points and their ancestors' shares weigh little against a prior that knows nothing; and a node with more than
`THIN` points takes part with a sample of them, weighed up (the root of 200 points would cost more than all leaves together).

Theta: log noise, log amplitude, mean, log length-scales, and with warping log a and log b of every ordered coordinate.
Predictions in a leaf condition on all observations or on the leaf's own: the paper can be read both ways.
Notation: n observations, C columns of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg, slice_sampler, warping
from raytree.gp.inference import fit as map_fit
from raytree.gp.kernels import MATERN52
from raytree.gp.linalg import Array
from raytree.gp.priors import horseshoe, normal
from raytree.models.inputs import Inputs
from raytree.models.partition import SMALLEST, Node, boxes, grow, leaf_numbers
from raytree.models.tree_posterior import Prediction
from raytree.space import Path, Space

NOISE_FLOOR = 1e-8
THIN = 25
_NOISE, _AMPLITUDE, _MEAN, _LENGTHS = 0, 1, 2, 3
_NOISE_SCALE = 0.1
_LOG_2PI = np.log(2.0 * np.pi)
_TINY = 1e-18


class Part(NamedTuple):
    """A node's share in a leaf's objective."""

    rows: np.ndarray
    weight: float


class Stack(NamedTuple):
    """The P parts of an objective, padded to m rows each, so that numpy works on all of them at once (as in `leaves`)."""

    rows: np.ndarray  # (P, m)
    real: Array  # (P, m) 0 for padding
    weight: Array  # (P,)
    squared: Array  # (l, P, m, m) squared differences by length-scale, of numbers that are not warped


class TreedGP:
    """The model on one data set.

    Args:
        space: the search space.
        inputs: rows as numbers.
        rows: (n, d) rows.
        y: (n,) standardised losses.
        warped: whether ordered coordinates are warped.
        treed: whether there is a tree; without, one leaf holds everything (BO, BO-warp).
        conditioning: "all" or "leaf".
        seed: of the samples of large nodes.
    """

    def __init__(
        self, space: Space, inputs: Inputs, rows: Array, y: Array, warped: bool, treed: bool, conditioning: str, seed: int
    ) -> None:
        self.space, self.inputs, self.y, self.conditioning = space, inputs, y, conditioning
        self.X = inputs(rows)
        self.root = grow(space, rows, y, SMALLEST if treed else len(y) + 1)
        self.paths = list(self.root.walk())
        self._ordered = (
            np.array([k for k, mark in enumerate(inputs.indicator) if mark < 0], dtype=int) if warped else np.empty(0, int)
        )
        self._length = np.array(inputs.length, dtype=int)
        self._rng = np.random.default_rng([seed, 10])
        lengths, laws = inputs.n_lengths, len(self._ordered)
        self._center = np.concatenate([[np.log(1e-3), 0.0, 0.0], np.full(lengths, np.log(0.5)), np.zeros(2 * laws)])
        self._sd = np.concatenate([[1.0, 2.0, 1.0], np.ones(lengths), np.full(2 * laws, 0.75)])
        ends = [(np.log(NOISE_FLOOR), 2.0), (-8.0, 8.0), (-4.0, 4.0)]
        ends += [(np.log(0.005), np.log(20.0))] * lengths + [(warping.LOW, warping.HIGH)] * (2 * laws)
        self.bounds = np.array(ends)

    # Numbers

    def _laws(self, theta: Array) -> tuple[Array, Array]:
        first = _LENGTHS + self.inputs.n_lengths
        k = len(self._ordered)
        return theta[first : first + k], theta[first + k :]

    def warped(self, theta: Array, numbers: Array) -> Array:
        """Numbers (m, C) as the kernel sees them."""
        if not len(self._ordered):
            return numbers
        out = numbers.copy()
        out[:, self._ordered] = warping.warp(numbers[:, self._ordered], *self._laws(theta))
        return out

    def covariance(self, theta: Array, a: Array, b: Array) -> Array:
        """(n, m) covariances of numbers as the kernel sees them, without noise."""
        scale = np.exp(-theta[_LENGTHS:])[self._length]
        a, b = a * scale, b * scale
        squared = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None, :] - 2.0 * a @ b.T
        return np.asarray(np.exp(theta[_AMPLITUDE]) * MATERN52.profile(np.maximum(squared, 0.0))[0])

    # Hyperparameters

    def stacked(self, parts: Sequence[Part]) -> Stack:
        """Parts of about one size, to work on together."""
        m = max(len(part.rows) for part in parts)
        rows, real = np.zeros((len(parts), m), dtype=int), np.zeros((len(parts), m))
        for k, part in enumerate(parts):
            rows[k, : len(part.rows)], real[k, : len(part.rows)] = part.rows, 1.0
        squared = np.empty((0, *rows.shape, m)) if len(self._ordered) else self._by_length(self._differences(self.X, rows) ** 2)
        return Stack(rows, real, np.array([part.weight for part in parts]), squared)

    @staticmethod
    def _differences(X: Array, rows: np.ndarray) -> Array:
        """(C, P, m, m) differences of numbers X (n, C)."""
        columns = np.moveaxis(X[rows], -1, 0)
        return np.asarray(columns[..., :, None] - columns[..., None, :])

    def _by_length(self, squared: Array) -> Array:
        """(l, P, m, m) the sums over the columns of every length-scale of squares (C, P, m, m)."""
        if self.inputs.n_lengths == len(squared):
            return squared
        out = np.zeros((self.inputs.n_lengths, *squared.shape[1:]))
        np.add.at(out, self._length, squared)
        return out

    def log_likelihood(self, theta: Array, stack: Stack) -> tuple[float, Array]:
        """The weighted sum over the parts of log p(y | x, theta), and its gradient (k,)."""
        rows, real, weight, squared = stack
        difference = np.empty(0)
        if len(self._ordered):
            difference = self._differences(self.warped(theta, self.X), rows)
            squared = self._by_length(difference**2)
        noise, amplitude = np.exp(theta[_NOISE]), np.exp(theta[_AMPLITUDE])
        inverse = np.exp(-2.0 * theta[_LENGTHS : _LENGTHS + self.inputs.n_lengths])
        k, falls = MATERN52.profile(np.einsum("kpij,k->pij", squared, inverse))
        both, eye = real[:, :, None] * real[:, None, :], np.eye(rows.shape[1])
        K = amplitude * both * k + (noise * real + 1.0 - real)[:, :, None] * eye
        factors, log_det = linalg.stacked_inverse_factors(K)
        y = (self.y[rows] - theta[_MEAN]) * real
        v = (factors @ y[:, :, None])[:, :, 0]
        transposed = np.swapaxes(factors, 1, 2)
        alpha = (transposed @ v[:, :, None])[:, :, 0]
        W = 0.5 * weight[:, None, None] * (alpha[:, :, None] * alpha[:, None, :] - transposed @ factors) * both
        gradient = np.zeros(len(theta))
        gradient[_NOISE] = noise * np.sum(np.diagonal(W, axis1=1, axis2=2))
        gradient[_AMPLITUDE] = amplitude * np.sum(W * k)
        gradient[_MEAN] = weight @ np.sum(alpha * real, axis=1)
        fall = amplitude * W * falls
        lengths = slice(_LENGTHS, _LENGTHS + self.inputs.n_lengths)
        gradient[lengths] = 2.0 * inverse * np.einsum("pij,kpij->k", fall, squared)
        if len(self._ordered):
            scaled = difference[self._ordered] * inverse[self._length[self._ordered]][:, None, None, None]
            by_x = -4.0 * np.einsum("pij,kpij->pik", fall, scaled)
            by_a, by_b = warping.by_parameters(self.X[:, self._ordered], *self._laws(theta))
            gradient[lengths.stop :] = np.concatenate([np.sum(by_x * by[rows], axis=(0, 1)) for by in (by_a, by_b)])
        value = -0.5 * weight @ (np.sum(v**2, axis=1) + log_det + real.sum(axis=1) * _LOG_2PI)
        return float(value), gradient

    def log_prior(self, theta: Array, center: Array | None = None) -> tuple[float, Array]:
        """The log-density of theta, up to a constant, and its gradient; of a leaf's theta around a center (k,)."""
        penalty, gradient = normal(theta[1:], (self._center if center is None else center)[1:], self._sd[1:])
        noise, slope = horseshoe(float(theta[_NOISE]), _NOISE_SCALE)
        return -penalty - noise, -np.append(slope, gradient)

    def parts(self, path: tuple[Node, ...]) -> list[Part]:
        """The nodes on the path to a leaf with their weights, eq. (2)."""
        leaf = path[-1]
        found = []
        for node in path:
            weight = len(leaf.rows) / len(node.rows) / (1.0 + leaf.depth - node.depth)
            rows = node.rows
            if len(rows) > THIN and node is not leaf:
                rows = np.sort(self._rng.choice(rows, THIN, replace=False))
                weight *= len(node.rows) / THIN
            found.append(Part(rows, weight))
        return found

    def objective(self, stack: Stack, theta: Array, center: Array | None = None) -> tuple[float, Array]:
        """Eq. (2) and its gradient."""
        value, gradient = self.log_prior(theta, center)
        likelihood, slope = self.log_likelihood(theta, stack)
        return value + likelihood, gradient + slope

    def fit(self, start: Array | None, evaluations: int, leaf_evaluations: int) -> tuple[Array, list[Array]]:
        """Theta of the whole, where to start next time, and (1, k) for every leaf."""

        def fitted(parts: Sequence[Part], start: Array, evaluations: int, center: Array | None = None) -> Array:
            stack = self.stacked(parts)

            def negative(theta: Array) -> tuple[float, Array]:
                value, gradient = self.objective(stack, theta, center)
                return -value, -gradient

            return map_fit(negative, start, self.bounds, evaluations)[0]

        everything = [Part(self.root.rows, 1.0)]
        whole = fitted(everything, self._center if start is None else start, evaluations)
        if len(self.paths) == 1:
            return whole, [whole[None]]
        return whole, [fitted(self.parts(path), whole, leaf_evaluations, whole)[None] for path in self.paths]

    def sample(self, start: Array | None, rng: np.random.Generator, draws: int, burn_in: int) -> tuple[Array, list[Array]]:
        """As `fit`, with (draws, k) thetas drawn for every leaf by slice sampling; burns in only without a start."""

        def drawn(parts: Sequence[Part], start: Array, burn_in: int, center: Array | None = None) -> Array:
            stack = self.stacked(parts)

            def density(theta: Array) -> float:
                if np.any(theta < self.bounds[:, 0]) or np.any(theta > self.bounds[:, 1]):
                    return -np.inf
                try:
                    return self.objective(stack, theta, center)[0]
                except np.linalg.LinAlgError:
                    return -np.inf

            coupled = (_NOISE, _AMPLITUDE, _MEAN)
            return slice_sampler.sample(density, start, coupled, rng, draws, burn_in)

        whole = drawn([Part(self.root.rows, 1.0)], self._center if start is None else start, burn_in if start is None else 0)
        if len(self.paths) == 1:
            return whole[-1], [whole]
        return whole[-1], [drawn(self.parts(path), whole[-1], 2, whole[-1]) for path in self.paths]

    def posterior(self, thetas: list[Array]) -> TreedPosterior:
        """The posterior with thetas (s, k) for every leaf."""
        return TreedPosterior(self, thetas)


class Fit(NamedTuple):
    """One leaf's Gaussian process at one theta."""

    theta: Array
    X: Array
    L: Array
    v: Array  # inv(L) (y - mean)
    beta: Array  # 0 for rows without a value
    lowest: float  # what improvement is measured from


class TreedPosterior:
    """Predictions: every row by the Gaussian process of its leaf, averaged over that leaf's thetas.

    Args:
        model: the model and its data.
        thetas: for every leaf, (s, k).
    """

    def __init__(self, model: TreedGP, thetas: list[Array]) -> None:
        self.model = model
        self.fits = [
            [self._factor(theta, path[-1].rows) for theta in leaf] for leaf, path in zip(thetas, model.paths, strict=True)
        ]
        lowest = float(self.observed_means().min())
        self.fits = [[fit._replace(lowest=lowest) for fit in fits] for fits in self.fits]

    def _factor(self, theta: Array, leaf: np.ndarray) -> Fit:
        rows = leaf if self.model.conditioning == "leaf" else np.arange(len(self.model.y))
        X = self.model.warped(theta, self.model.X[rows])
        K = self.model.covariance(theta, X, X) + np.exp(theta[_NOISE]) * np.eye(len(rows))
        L = linalg.cholesky(K)
        v = linalg.solve_lower(L, self.model.y[rows] - theta[_MEAN])
        return Fit(theta, X, L, v, linalg.solve_upper(L, v), np.inf)

    def each(self, leaf: int, numbers: Array) -> list[Prediction]:
        """The predictions of a leaf's processes at numbers (m, C), one per theta."""
        out = []
        for fit in self.fits[leaf]:
            k = self.model.covariance(fit.theta, fit.X, self.model.warped(fit.theta, numbers))
            w = linalg.solve_lower(fit.L, k)
            variance = np.exp(fit.theta[_AMPLITUDE]) - np.sum(w**2, axis=0)
            out.append(Prediction(fit.theta[_MEAN] + fit.beta @ k, np.sqrt(np.maximum(variance, _TINY))))
        return out

    def leaves(self, rows: Array) -> np.ndarray:
        """(m,) the leaves of rows."""
        return leaf_numbers(self.model.root, rows)

    def boxes(self) -> list[Array]:
        """The bounds (d, 2) of every leaf."""
        return boxes(self.model.root, self.model.space.d)

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd at rows (m, d)."""
        numbers, leaves = self.model.inputs(rows), self.leaves(rows)
        mean, sd = np.empty(len(rows)), np.empty(len(rows))
        for leaf in np.unique(leaves).tolist():
            index = leaves == leaf
            parts = self.each(leaf, numbers[index])
            means, sds = np.array([p.mean for p in parts]), np.array([p.sd for p in parts])
            mean[index] = means.mean(axis=0)
            sd[index] = np.sqrt(np.mean(sds**2 + (means - means.mean(axis=0)) ** 2, axis=0))
        return Prediction(mean, sd)

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations, each by a leaf that holds it."""
        means = np.empty(len(self.model.y))
        for leaf, path in enumerate(self.model.paths):
            rows = path[-1].rows
            means[rows] = np.mean([p.mean for p in self.each(leaf, self.model.X[rows])], axis=0)
        return means

    def target_means(self) -> Array:
        """`observed_means`: there are no fidelities here."""
        return self.observed_means()

    def joint(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) at rows (m, d), averaged over thetas; rows of different leaves have none in common."""
        numbers, leaves = self.model.inputs(rows), self.leaves(rows)
        mean, covariance = np.empty(len(rows)), np.zeros((len(rows), len(rows)))
        for leaf in np.unique(leaves).tolist():
            index = np.flatnonzero(leaves == leaf)
            means, within = [], []
            for fit in self.fits[leaf]:
                X = self.model.warped(fit.theta, numbers[index])
                k = self.model.covariance(fit.theta, fit.X, X)
                w = linalg.solve_lower(fit.L, k)
                means.append(fit.theta[_MEAN] + fit.beta @ k)
                within.append(self.model.covariance(fit.theta, X, X) - w.T @ w)
            apart = np.array(means) - np.mean(means, axis=0)
            mean[index] = np.mean(means, axis=0)
            covariance[np.ix_(index, index)] = np.mean(within, axis=0) + apart.T @ apart / len(means)
        return mean, covariance

    def condition(self, rows: Array, paths: Sequence[Path], values: Array | None = None) -> TreedPosterior:
        """This posterior with more rows (m, d), in every leaf that they concern: their values (m,), or their means for values."""
        if not len(rows):
            return self
        grown = object.__new__(TreedPosterior)
        grown.model = self.model
        numbers, leaves = self.model.inputs(rows), self.leaves(rows)
        grown.fits = []
        for leaf, fits in enumerate(self.fits):
            here = np.ones(len(rows), bool) if self.model.conditioning == "all" else leaves == leaf
            grown.fits.append([self._grown(fit, numbers[here], None if values is None else values[here]) for fit in fits])
        if values is not None:
            lowest = float(values.min())
            grown.fits = [[fit._replace(lowest=min(fit.lowest, lowest)) for fit in fits] for fits in grown.fits]
        return grown

    def _grown(self, fit: Fit, numbers: Array, values: Array | None) -> Fit:
        if not len(numbers):
            return fit
        new = self.model.warped(fit.theta, numbers)
        between = self.model.covariance(fit.theta, fit.X, new)
        corner = self.model.covariance(fit.theta, new, new) + np.exp(fit.theta[_NOISE]) * np.eye(len(new))
        L, n = linalg.append(fit.L, between, corner), len(fit.X)
        y = fit.beta @ between if values is None else values - fit.theta[_MEAN]
        v = np.append(fit.v, linalg.solve_lower(L[n:, n:], y - L[n:, :n] @ fit.v))
        beta = np.append(fit.beta, np.zeros(len(new))) if values is None else linalg.solve_upper(L, v)
        return fit._replace(X=np.vstack([fit.X, new]), L=L, v=v, beta=beta)

    def together(self, others: Sequence[TreedPosterior]) -> TreedPosterior:
        """This and other posteriors of the same partition with equal weights."""
        mixed = object.__new__(TreedPosterior)
        mixed.model = self.model
        mixed.fits = [[fit for part in (self, *others) for fit in part.fits[leaf]] for leaf in range(len(self.fits))]
        return mixed
