"""Gaussian processes with kernels for conditional spaces (Levesque et al. 2017, section IV).

The conditional kernel, eq. (8), is a kernel where two configurations take the same cells in the same decisions, and 0
elsewhere. The covariance matrix is then one block per visited path, eq. (9), each factorised alone, eq. (10): time is
O(sum_b m_b^3), and a path without observations costs nothing. The other kernels see every row as one block of numbers (`inputs`).

Hyperparameters theta (logarithms): noise variance, amplitude (variance), a length-scale per coordinate; log-normal priors, a
horseshoe for the noise's deviation. One set serves all blocks.

The Mondrian kernel is piecewise constant in its length-scales, so its likelihood cannot be climbed; they are those of the Laplace
kernel, which it approximates, and its own cells are used for the posterior.

Notation: n observations, m_b in block b, C columns of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg, mondrian, slice_sampler
from raytree.gp.kernels import GAUSSIAN, LAPLACE, MATERN52, Stationary
from raytree.gp.linalg import Array
from raytree.gp.map_fit import fit as map_fit
from raytree.gp.priors import horseshoe, normal
from raytree.models.inputs import Inputs
from raytree.models.tree_posterior import Prediction
from raytree.space import Path, Space

NOISE_FLOOR = 1e-8  # variance, in standardised units
KERNELS: dict[str, Stationary] = {
    "conditional": MATERN52,
    "laplace": LAPLACE,
    "mondrian": LAPLACE,
    "matern": MATERN52,
    "squared": GAUSSIAN,
}
"""By name: the kernel whose likelihood is used. Only "conditional" has blocks."""
PARTITIONS = 64
"""Of the Mondrian kernel; the paper shows 30."""
_LOG_2PI = np.log(2.0 * np.pi)
_TINY = 1e-18
_NOISE, _AMPLITUDE, _LENGTHS = 0, 1, 2  # places in theta


@dataclass(frozen=True)
class Priors:
    """Of the logarithms of length-scales and of the amplitude's deviation: normal; of the noise's deviation: horseshoe."""

    length_mean: float = 0.0
    length_sd: float = 1.0
    amplitude_mean: float = 0.0
    amplitude_sd: float = 1.0
    noise_scale: float = 1.0


PAPER_PRIORS = Priors()


class Block(NamedTuple):
    """The rows of one block: numbers, losses, and for each length-scale that matters here its terms |x - x'|^power."""

    rows: np.ndarray  # (m,) their numbers
    columns: np.ndarray  # (C_b,)
    X: Array  # (m, C_b)
    lengths: np.ndarray  # (l,) which length-scales
    terms: Array  # (l, m, m)


class BlockGP:
    """The model on one data set.

    Args:
        space: the search space.
        inputs: rows as numbers.
        kernel: a name of `KERNELS`.
        rows: (n, d) rows.
        y: (n,) standardised losses.
        paths: n paths.
        priors: of the hyperparameters.
        seed: of the Mondrian partitions.
    """

    def __init__(
        self,
        space: Space,
        inputs: Inputs,
        kernel: str,
        rows: Array,
        y: Array,
        paths: Sequence[Path],
        priors: Priors = PAPER_PRIORS,
        seed: int = 0,
    ) -> None:
        self.space, self.inputs, self.kernel, self.y, self.seed = space, inputs, kernel, y, seed
        self.stationary = KERNELS[kernel]
        numbers = inputs(rows)
        members: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            members.setdefault(self.block_of(path), []).append(k)
        self.blocks: dict[Path, Block] = {}
        for key, index in members.items():
            columns = self.columns(key)
            X = numbers[index][:, columns]
            lengths, terms = self._terms(X, X, columns)
            self.blocks[key] = Block(np.array(index), columns, X, lengths, terms)
        n_lengths = inputs.n_lengths
        self._mean = np.array([0.0, 2.0 * priors.amplitude_mean, *[priors.length_mean] * n_lengths])
        self._sd = np.array([1.0, 2.0 * priors.amplitude_sd, *[priors.length_sd] * n_lengths])
        self._noise_scale = priors.noise_scale
        self.bounds = np.array([(np.log(NOISE_FLOOR), 2.0), (-8.0, 10.0), *[(np.log(0.01), np.log(100.0))] * n_lengths])

    def block_of(self, path: Path) -> Path:
        """The block of a path: itself under the conditional kernel, else the only one."""
        return path if self.kernel == "conditional" else ()

    def columns(self, block: Path) -> np.ndarray:
        """The columns that can differ inside a block."""
        parameters = self.space.free(block) if self.kernel == "conditional" else tuple(range(self.space.d))
        return self.inputs.columns(parameters)

    def _terms(self, a: Array, b: Array, columns: np.ndarray) -> tuple[np.ndarray, Array]:
        """The length-scales (l,) that matter to some columns, and their terms (l, m, k) before division."""
        lengths, where = np.unique(np.array(self.inputs.length, dtype=int)[columns], return_inverse=True)
        terms = np.zeros((len(lengths), len(a), len(b)))
        for column, k in enumerate(where.tolist()):
            terms[k] += np.abs(a[:, column, None] - b[None, :, column]) ** self.stationary.power
        return lengths, terms

    def covariance(self, theta: Array, a: Array, b: Array, columns: np.ndarray) -> Array:
        """(m, k) covariances of numbers a (m, C_b) and b (k, C_b) of one block, without noise."""
        amplitude = np.exp(theta[_AMPLITUDE])
        if self.kernel == "mondrian":
            stretch = np.exp(-theta[_LENGTHS:])[np.array(self.inputs.length, dtype=int)[columns]]
            both = mondrian.cells(np.vstack([a, b]) * stretch, stretch, PARTITIONS, self.seed)
            return np.asarray(amplitude * mondrian.kernel(both[: len(a)], both[len(a) :]))
        lengths, terms = self._terms(a, b, columns)
        u = np.einsum("kij,k->ij", terms, self._inverse(theta, lengths))
        return np.asarray(amplitude * self.stationary.profile(u)[0])

    def _inverse(self, theta: Array, lengths: np.ndarray) -> Array:
        return np.exp(-self.stationary.power * theta[_LENGTHS + lengths])

    # Hyperparameters

    def start(self) -> Array:
        """(k,) the middle of the priors, little noise."""
        theta = self._mean.copy()
        theta[_NOISE] = np.log(1e-4)
        return theta

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """The log-density of theta, up to a constant, and its gradient."""
        penalty, gradient = normal(theta[1:], self._mean[1:], self._sd[1:])
        noise, slope = horseshoe(float(theta[_NOISE]), self._noise_scale)
        return -penalty - noise, -np.append(slope, gradient)

    def _factor(self, theta: Array, block: Block) -> tuple[Array, Array, Array, Array]:
        """A block's scaled terms (l, m, m), kernel (m, m), its fall (m, m), and the factor of its covariance."""
        scaled = block.terms * self._inverse(theta, block.lengths)[:, None, None]
        k, falls = self.stationary.profile(scaled.sum(axis=0))
        L = linalg.cholesky(np.exp(theta[_AMPLITUDE]) * k + np.exp(theta[_NOISE]) * np.eye(len(block.rows)))
        return scaled, k, falls, L

    def log_likelihood(self, theta: Array) -> float:
        """log P(y | theta)."""
        value = -0.5 * len(self.y) * _LOG_2PI
        for block in self.blocks.values():
            L = self._factor(theta, block)[-1]
            v = linalg.solve_lower(L, self.y[block.rows])
            value -= 0.5 * (v @ v + linalg.log_det(L))
        return float(value)

    def log_likelihood_slope(self, theta: Array) -> tuple[float, Array]:
        """log P(y | theta) and its gradient (k,)."""
        noise, amplitude = np.exp(theta[_NOISE]), np.exp(theta[_AMPLITUDE])
        value, gradient = -0.5 * len(self.y) * _LOG_2PI, np.zeros(len(theta))
        for block in self.blocks.values():
            scaled, k, falls, L = self._factor(theta, block)
            y = self.y[block.rows]
            alpha = linalg.solve(L, y)
            W = np.outer(alpha, alpha) - linalg.solve(L, np.eye(len(y)))
            value -= 0.5 * (y @ alpha + linalg.log_det(L))
            gradient[_NOISE] += 0.5 * noise * np.trace(W)
            gradient[_AMPLITUDE] += 0.5 * amplitude * np.sum(W * k)
            by_length = np.einsum("ij,kij->k", W * falls, scaled)
            gradient[_LENGTHS + block.lengths] += 0.5 * self.stationary.power * amplitude * by_length
        return float(value), gradient

    def log_posterior(self, theta: Array) -> tuple[float, Array]:
        """The log-density of theta given the data, up to a constant, and its gradient."""
        value, gradient = self.log_likelihood_slope(theta)
        prior, by_prior = self.log_prior(theta)
        return value + prior, gradient + by_prior

    def fit(self, start: Array | None, max_evaluations: int) -> Array:
        """(k,) the most likely theta from a warm start."""

        def objective(theta: Array) -> tuple[float, Array]:
            value, gradient = self.log_posterior(theta)
            return -value, -gradient

        theta, _ = map_fit(objective, self.start() if start is None else start, self.bounds, max_evaluations)
        return theta

    def sample(self, start: Array | None, rng: np.random.Generator, draws: int, burn_in: int) -> Array:
        """(draws, k) thetas by slice sampling; the last one is where to go on. Burns in only without a start."""

        def density(theta: Array) -> float:
            if np.any(theta < self.bounds[:, 0]) or np.any(theta > self.bounds[:, 1]):
                return -np.inf
            try:
                return self.log_likelihood(theta) + self.log_prior(theta)[0]
            except np.linalg.LinAlgError:
                return -np.inf

        first = self.start() if start is None else start
        return slice_sampler.sample(density, first, (_NOISE, _AMPLITUDE), rng, draws, burn_in if start is None else 0)

    def posterior(self, thetas: Array) -> Mixture:
        """The posterior at each of thetas (s, k)."""
        return Mixture([BlockPosterior(self, theta) for theta in np.atleast_2d(thetas)])


class Factored(NamedTuple):
    """One block of a posterior, observed rows first."""

    X: Array  # (m, C_b)
    L: Array  # (m, m)
    beta: Array  # (m,), 0 for rows without a value


class BlockPosterior:
    """Predictions at one theta; a block without rows predicts the prior.

    Args:
        model: the model and its data.
        theta: (k,) hyperparameters.
    """

    def __init__(self, model: BlockGP, theta: Array) -> None:
        self.model, self.theta = model, theta
        self.noise, self.amplitude = float(np.exp(theta[_NOISE])), float(np.exp(theta[_AMPLITUDE]))
        self.blocks: dict[Path, Factored] = {}
        for key, block in model.blocks.items():
            L = linalg.cholesky(self._covariance(block.X, block.X, block.columns) + self.noise * np.eye(len(block.rows)))
            self.blocks[key] = Factored(block.X, L, linalg.solve(L, model.y[block.rows]))
        self.lowest = float(self.observed_means().min())  # what improvement is measured from

    def _covariance(self, a: Array, b: Array, columns: np.ndarray) -> Array:
        return self.model.covariance(self.theta, a, b, columns)

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - s2 alpha."""
        means = self.model.y.copy()
        for key, block in self.model.blocks.items():
            means[block.rows] -= self.noise * self.blocks[key].beta[: len(block.rows)]
        return means

    def predict(self, path: Path, numbers: Array) -> Prediction:
        """The function at numbers (m, C) of rows on one path."""
        key = self.model.block_of(path)
        block = self.blocks.get(key)
        if block is None:
            return Prediction(np.zeros(len(numbers)), np.full(len(numbers), np.sqrt(self.amplitude)))
        columns = self.model.columns(key)
        k = self._covariance(block.X, numbers[:, columns], columns)
        w = linalg.solve_lower(block.L, k)
        variance = self.amplitude - np.sum(w**2, axis=0)
        return Prediction(block.beta @ k, np.sqrt(np.maximum(variance, _TINY)))

    def gradient(self, path: Path, numbers: Array) -> tuple[float, float, Array, Array]:
        """Mean and sd at numbers (C,) of one row, and their derivatives (d,) by the coordinates that are numbers."""
        inputs = self.model.inputs
        d_mean, d_sd = np.zeros(self.model.space.d), np.zeros(self.model.space.d)
        key = self.model.block_of(path)
        block = self.blocks.get(key)
        if block is None:
            return 0.0, float(np.sqrt(self.amplitude)), d_mean, d_sd
        columns = self.model.columns(key)
        power = self.model.stationary.power
        difference = numbers[columns] - block.X
        inverse = np.exp(-power * self.theta[_LENGTHS + np.array(inputs.length, dtype=int)[columns]])
        terms = np.abs(difference) ** power * inverse
        k, falls = self.model.stationary.profile(terms.sum(axis=1))
        bend = power * np.sign(difference) * np.abs(difference) ** (power - 1) * inverse
        dk = -self.amplitude * falls[:, None] * bend
        solved = linalg.solve_lower(block.L, np.column_stack([self.amplitude * k, dk]))
        w, w_dk = solved[:, 0], solved[:, 1:]
        sd = float(np.sqrt(max(self.amplitude - float(w @ w), _TINY)))
        number = np.array([inputs.indicator[c] < 0 for c in columns.tolist()], dtype=bool)
        where = np.array(inputs.parameter, dtype=int)[columns[number]]
        d_mean[where] = (block.beta @ dk)[number]
        d_sd[where] = -(w @ w_dk)[number] / sd
        return float(self.amplitude * (block.beta @ k)), sd, d_mean, d_sd

    def condition(self, numbers: Array, paths: Sequence[Path]) -> BlockPosterior:
        """This posterior with rows whose values are taken to be their means."""
        grown = object.__new__(BlockPosterior)
        grown.model, grown.theta, grown.noise, grown.amplitude = self.model, self.theta, self.noise, self.amplitude
        grown.blocks, grown.lowest = dict(self.blocks), self.lowest
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            groups.setdefault(self.model.block_of(path), []).append(k)
        for key, index in groups.items():
            columns = self.model.columns(key)
            X = numbers[index][:, columns]
            corner = self._covariance(X, X, columns) + self.noise * np.eye(len(index))
            block = self.blocks.get(key)
            if block is None:
                grown.blocks[key] = Factored(X, linalg.cholesky(corner), np.zeros(len(index)))
            else:
                L = linalg.append(block.L, self._covariance(block.X, X, columns), corner)
                grown.blocks[key] = Factored(np.vstack([block.X, X]), L, np.append(block.beta, np.zeros(len(index))))
        return grown


class Mixture:
    """Posteriors at several thetas with equal weights; at one theta, that posterior."""

    def __init__(self, parts: Sequence[BlockPosterior]) -> None:
        self.parts = list(parts)
        self.inputs, self.block_of = self.parts[0].model.inputs, self.parts[0].model.block_of

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd of the mixture at rows (m, d) on one path."""
        numbers = self.inputs(rows)
        every = [part.predict(path, numbers) for part in self.parts]
        means, sds = np.array([p.mean for p in every]), np.array([p.sd for p in every])
        mean = means.mean(axis=0)
        return Prediction(mean, np.sqrt(np.mean(sds**2 + (means - mean) ** 2, axis=0)))

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations."""
        return np.mean([part.observed_means() for part in self.parts], axis=0)

    def condition(self, rows: Array, paths: Sequence[Path]) -> Mixture:
        """This posterior with rows (m, d) whose values are taken to be their means."""
        if not len(rows):
            return self
        numbers = self.inputs(rows)
        return Mixture([part.condition(numbers, paths) for part in self.parts])
