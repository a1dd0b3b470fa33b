"""Gaussian processes with hyperparameters of their own in every leaf of a partition (Assael et al. 2014, section 3.2).

The hyperparameters of leaf j maximise, or are drawn from, the weighted log-likelihoods of all nodes above it, eq. (2):

    sum over i on the path to j of w_i log p(y_i | x_i, theta) + log p(theta),    w_i = |M_j| / |M_i| / (1 + depth_j - depth_i)

so that a leaf with few points borrows from its ancestors. Ours, unless told otherwise: the prior of a leaf's theta is centred at
the theta of the whole, since five points and their ancestors' shares weigh little against a prior that knows nothing; and a
node with more than `THIN` points takes part with a sample of them, weighed up (the root of 200 points would cost more than all
leaves together).

Theta: log noise, log amplitude, mean, log length-scales, and with warping log a and log b of every ordered coordinate.
Predictions in a leaf condition on all observations or on the leaf's own: the paper can be read both ways.
Notation: n observations, C columns of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from raytree.gp import slice_sampler, warping
from raytree.gp.inference import Found, fit
from raytree.gp.kernels import MATERN52, distances
from raytree.gp.likelihood import Blocks, Stack, negative_log_likelihood, stack_of
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian, Mixture, Prediction, posterior
from raytree.gp.priors import horseshoe, normal
from raytree.gp.process import Process
from raytree.models.inputs import Inputs
from raytree.models.partition import SMALLEST, Node, boxes, grow, leaf_numbers
from raytree.space import Path, Space

NOISE_FLOOR = 1e-8
THIN = 25
"""A node above the leaf takes part with at most so many of its points."""
_NOISE, _AMPLITUDE, _MEAN, _LENGTHS = 0, 1, 2, 3
_NOISE_SCALE = 0.1


class Part(NamedTuple):
    """A node's share in a leaf's objective."""

    rows: np.ndarray
    weight: float


class Parts(NamedTuple):
    """The nodes of an objective, with what does not depend on hyperparameters."""

    stack: Stack
    weight: Array  # (P,)
    squared: Array  # (l, P, m, m) squared differences by length-scale, of numbers that are not warped


@dataclass(frozen=True)
class WarpedKernel:
    """Matern-5/2 of numbers, ordered ones warped by Beta laws. Inputs are the warped numbers, and behind them those as they were.

    Args:
        numbers: rows as numbers.
        ordered: the columns that are warped.
        theta: (k,) hyperparameters.
    """

    numbers: Inputs
    ordered: np.ndarray
    theta: Array

    @property
    def laws(self) -> tuple[Array, Array]:
        """Log a and log b of every warped column."""
        first, k = _LENGTHS + self.numbers.n_lengths, len(self.ordered)
        return self.theta[first : first + k], self.theta[first + k :]

    def warped(self, numbers: Array) -> Array:
        """Numbers (m, C) as the kernel sees them."""
        if not len(self.ordered):
            return numbers
        out = numbers.copy()
        out[:, self.ordered] = warping.warp(numbers[:, self.ordered], *self.laws)
        return out

    @property
    def _scale(self) -> Array:
        found: Array = np.exp(-self.theta[_LENGTHS:])[self.numbers.length]
        return found

    def coordinates(self, block: Path) -> np.ndarray:
        return self.numbers.parameter[self.numbers.indicator < 0]

    def signature(self, block: Path) -> bytes:
        return self.theta.tobytes()

    def inputs(self, block: Path, rows: Array) -> Array:
        numbers = self.numbers(rows)
        return np.hstack([self.warped(numbers), numbers]) if len(self.ordered) else numbers

    def matrix(self, block: Path, a: Array, b: Array) -> Array:
        C = len(self.numbers.parameter)
        squared = distances(a[:, :C], b[:, :C], self._scale**2, np.zeros(C, dtype=bool))
        return np.asarray(np.exp(self.theta[_AMPLITUDE]) * MATERN52.alone(squared))

    def diagonal(self, block: Path, X: Array) -> Array:
        return np.full(len(X), np.exp(self.theta[_AMPLITUDE]))

    def noise(self, block: Path, X: Array) -> Array:
        return np.full(len(X), np.exp(self.theta[_NOISE]))

    def gradient(self, block: Path, X: Array, x: Array) -> tuple[Array, Array]:
        C, amplitude = len(self.numbers.parameter), float(np.exp(self.theta[_AMPLITUDE]))
        difference = x[:C] - X[:, :C]
        scaled = difference * self._scale**2
        k, falls = MATERN52.profile(np.sum(difference * scaled, axis=1))
        by_number = -2.0 * amplitude * falls[:, None] * scaled
        if len(self.ordered):
            by_number[:, self.ordered] *= warping.slope(x[None, C:][:, self.ordered], *self.laws)
        return amplitude * k, by_number[:, self.numbers.indicator < 0]


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
        centred: whether the prior of a leaf's theta is centred at that of the whole.
        thin: the most points of a node above the leaf; None for all.
    """

    def __init__(
        self,
        space: Space,
        inputs: Inputs,
        rows: Array,
        y: Array,
        warped: bool,
        treed: bool,
        conditioning: str,
        seed: int,
        centred: bool = True,
        thin: int | None = THIN,
    ) -> None:
        self.space, self.inputs, self.rows, self.y, self.conditioning = space, inputs, rows, y, conditioning
        self.X = inputs(rows)
        self.root = grow(space, rows, y, SMALLEST if treed else len(y) + 1)
        self.paths = list(self.root.walk())
        self._ordered = np.flatnonzero(inputs.indicator < 0) if warped else np.empty(0, int)
        self._length = inputs.length
        self._rng, self._centred, self._thin = np.random.default_rng([seed, 10]), centred, thin
        lengths, laws = inputs.n_lengths, len(self._ordered)
        self._center = np.concatenate([[np.log(1e-3), 0.0, 0.0], np.full(lengths, np.log(0.5)), np.zeros(2 * laws)])
        self._sd = np.concatenate([[1.0, 2.0, 1.0], np.ones(lengths), np.full(2 * laws, 0.75)])
        ends = [(np.log(NOISE_FLOOR), 2.0), (-8.0, 8.0), (-4.0, 4.0)]
        ends += [(np.log(0.005), np.log(20.0))] * lengths + [(warping.LOW, warping.HIGH)] * (2 * laws)
        self.bounds = np.array(ends)

    def kernel(self, theta: Array) -> WarpedKernel:
        """The kernel at theta."""
        return WarpedKernel(self.inputs, self._ordered, theta)

    # Hyperparameters

    def stacked(self, parts: Sequence[Part]) -> Parts:
        """Parts of about one size, to work on together."""
        stack = stack_of([part.rows for part in parts])
        rows = stack.rows
        shape = (0, *rows.shape, rows.shape[1])
        squared = np.empty(shape) if len(self._ordered) else self._by_length(self._differences(self.X, rows) ** 2)
        return Parts(stack, np.array([part.weight for part in parts]), squared)

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

    def log_likelihood(self, theta: Array, parts: Parts) -> tuple[float, Array]:
        """The weighted sum over the parts of log p(y | x, theta), and its gradient (k,)."""
        (rows, real), weight, squared = parts
        difference = np.empty(0)
        if len(self._ordered):
            difference = self._differences(self.kernel(theta).warped(self.X), rows)
            squared = self._by_length(difference**2)
        noise, amplitude = np.exp(theta[_NOISE]), np.exp(theta[_AMPLITUDE])
        inverse = np.exp(-2.0 * theta[_LENGTHS : _LENGTHS + self.inputs.n_lengths])
        k, falls = MATERN52.profile(np.einsum("kpij,k->pij", squared, inverse))
        noises, none = np.full(real.shape, noise), np.empty((*real.shape, 0))
        block = Blocks(parts.stack, amplitude * k, noises, self.y[rows] - theta[_MEAN], none, weight)
        value, (slopes,), _ = negative_log_likelihood([block], np.empty(0))
        W = -slopes.by_covariance
        gradient = np.zeros(len(theta))
        gradient[_NOISE] = noise * np.sum(np.diagonal(W, axis1=1, axis2=2))
        gradient[_AMPLITUDE] = amplitude * np.sum(W * k)
        gradient[_MEAN] = -np.sum(slopes.by_mean)
        fall = amplitude * W * falls
        lengths = slice(_LENGTHS, _LENGTHS + self.inputs.n_lengths)
        gradient[lengths] = 2.0 * inverse * np.einsum("pij,kpij->k", fall, squared)
        if len(self._ordered):
            scaled = difference[self._ordered] * inverse[self._length[self._ordered]][:, None, None, None]
            by_x = -4.0 * np.einsum("pij,kpij->pik", fall, scaled)
            by_a, by_b = warping.by_parameters(self.X[:, self._ordered], *self.kernel(theta).laws)
            gradient[lengths.stop :] = np.concatenate([np.sum(by_x * by[rows], axis=(0, 1)) for by in (by_a, by_b)])
        return -value, gradient

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
            if self._thin is not None and len(rows) > self._thin and node is not leaf:
                rows = np.sort(self._rng.choice(rows, self._thin, replace=False))
                weight *= len(node.rows) / self._thin
            found.append(Part(rows, weight))
        return found

    def objective(self, parts: Parts, theta: Array, center: Array | None = None) -> tuple[float, Array]:
        """Eq. (2) and its gradient."""
        value, gradient = self.log_prior(theta, center)
        likelihood, slope = self.log_likelihood(theta, parts)
        return value + likelihood, gradient + slope

    def _fitted(self, parts: Sequence[Part], start: Array, evaluations: int, center: Array | None = None) -> Found:
        """The most likely theta for some parts, and minus its log-posterior."""
        made = self.stacked(parts)

        def negative(theta: Array) -> tuple[float, Array]:
            value, gradient = self.objective(made, theta, center)
            return -value, -gradient

        return fit(negative, start, self.bounds, evaluations)

    def fit_whole(self, start: Array | None, evaluations: int) -> Found:
        """Theta of the whole, where to start next time."""
        return self._fitted([Part(self.root.rows, 1.0)], self._center if start is None else start, evaluations)

    def fit_leaves(self, whole: Array, evaluations: int) -> list[Array]:
        """(1, k) for every leaf, from the theta of the whole (k,)."""
        if len(self.paths) == 1:
            return [whole[None]]
        center = whole if self._centred else None
        return [self._fitted(self.parts(path), whole, evaluations, center).theta[None] for path in self.paths]

    def sample(self, start: Array | None, rng: np.random.Generator, draws: int, burn_in: int) -> tuple[Array, list[Array]]:
        """Theta of the whole, and (draws, k) thetas of every leaf, drawn by slice sampling; burns in only without a start."""

        def drawn(parts: Sequence[Part], start: Array, burn_in: int, center: Array | None = None) -> Array:
            made = self.stacked(parts)

            def density(theta: Array) -> float:
                if np.any(theta < self.bounds[:, 0]) or np.any(theta > self.bounds[:, 1]):
                    return -np.inf
                try:
                    return self.objective(made, theta, center)[0]
                except np.linalg.LinAlgError:
                    return -np.inf

            coupled = (_NOISE, _AMPLITUDE, _MEAN)
            return slice_sampler.sample(density, start, coupled, rng, draws, burn_in)

        whole = drawn([Part(self.root.rows, 1.0)], self._center if start is None else start, burn_in if start is None else 0)
        if len(self.paths) == 1:
            return whole[-1], [whole]
        center = whole[-1] if self._centred else None
        return whole[-1], [drawn(self.parts(path), whole[-1], 2, center) for path in self.paths]

    def posterior(self, thetas: list[Array]) -> Partitioned:
        """The posterior with thetas (s, k) for every leaf."""
        leaves = tuple(
            Mixture([self._of_leaf(theta, path[-1].rows) for theta in leaf])
            for leaf, path in zip(thetas, self.paths, strict=True)
        )
        made = Partitioned(self.root, tuple(path[-1].rows for path in self.paths), self.rows, self.conditioning, leaves)
        lowest = float(self.y.min(initial=np.inf))
        return made.each(lambda part: replace(part, lowest=lowest))

    def _of_leaf(self, theta: Array, leaf: np.ndarray) -> Gaussian:
        """The posterior of a leaf's process at one theta."""
        rows = leaf if self.conditioning == "leaf" else np.arange(len(self.y))
        process = Process(self.kernel(theta), self.space.d, whole=True, level=float(theta[_MEAN]))
        return posterior(process, self.rows[rows], self.y[rows], [()] * len(rows))


@dataclass(frozen=True, eq=False)
class Partitioned:
    """Predictions: every row by the Gaussian process of its leaf, averaged over that leaf's thetas.

    Args:
        root: the partition.
        members: by leaf, the numbers of its rows.
        rows: (n, d) the observations' rows.
        conditioning: "all" or "leaf".
        leaves: by leaf, its posterior.
    """

    root: Node
    members: tuple[np.ndarray, ...]
    rows: Array
    conditioning: str
    leaves: tuple[Mixture, ...]

    def each(self, change: Callable[[Gaussian], Gaussian]) -> Partitioned:
        """This with every leaf's posteriors changed."""
        return self.with_leaves([Mixture([change(part) for part in leaf.parts], leaf.weights) for leaf in self.leaves])

    def with_leaves(self, leaves: Sequence[Mixture]) -> Partitioned:
        """This partition with other posteriors."""
        return replace(self, leaves=tuple(leaves))

    def leaf_of(self, rows: Array) -> np.ndarray:
        """(m,) the leaves of rows."""
        return leaf_numbers(self.root, rows)

    def boxes(self) -> list[Array]:
        """The bounds (d, 2) of every leaf."""
        return boxes(self.root, self.rows.shape[1])

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd at rows (m, d)."""
        leaves = self.leaf_of(rows)
        mean, sd = np.empty(len(rows)), np.empty(len(rows))
        for leaf in np.unique(leaves).tolist():
            index = leaves == leaf
            mean[index], sd[index] = self.leaves[leaf].predict((), rows[index])
        return Prediction(mean, sd)

    def target_means(self) -> Array:
        """(n,) posterior means at the observations, each by a leaf that holds it."""
        means = np.empty(len(self.rows))
        for leaf, index in zip(self.leaves, self.members, strict=True):
            means[index] = leaf.predict((), self.rows[index]).mean
        return means

    def joint(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) at rows (m, d); leaves have none with each other."""
        mean, covariance, leaves = np.empty(len(rows)), np.zeros((len(rows), len(rows))), self.leaf_of(rows)
        for leaf in np.unique(leaves).tolist():
            index = np.flatnonzero(leaves == leaf)
            mean[index], covariance[np.ix_(index, index)] = self.leaves[leaf].joint(rows[index], [()] * len(index))
        return mean, covariance

    def condition(self, rows: Array, paths: Sequence[Path], values: Array | None = None) -> Partitioned:
        """This posterior with more rows (m, d), in every leaf that they concern: their values (m,), or their means for values."""
        if not len(rows):
            return self
        leaves, grown = self.leaf_of(rows), []
        for k, leaf in enumerate(self.leaves):
            here = np.ones(len(rows), bool) if self.conditioning == "all" else leaves == k
            told = None if values is None else values[here]
            grown.append(leaf.condition(rows[here], [()] * int(here.sum()), told) if here.any() else leaf)
        made = self.with_leaves(grown)
        if values is None:
            return made
        lowest = float(values.min())
        return made.each(lambda part: replace(part, lowest=min(part.lowest, lowest)))
