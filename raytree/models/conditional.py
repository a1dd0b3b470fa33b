"""Gaussian processes with kernels for conditional spaces (Levesque et al. 2017, section IV).

The conditional kernel, eq. (8), is a kernel where two configurations take the same cells in the same decisions, and 0
elsewhere. The covariance matrix is then one block per visited path, eq. (9), each factorised alone, eq. (10): time is
O(sum_b m_b^3), and a path without observations costs nothing. The other kernels see every row as one block of numbers (`inputs`).

Hyperparameters theta (logarithms): noise variance, amplitude (variance), a length-scale per coordinate; log-normal priors, a
horseshoe for the noise's deviation. One set serves all blocks.

The Mondrian kernel is piecewise constant in its length-scales, so its likelihood cannot be climbed; they are those of the Laplace
kernel, which it approximates, and its own cells are used for the posterior.

Rows may have a fidelity behind the columns of the space: the kernel is then multiplied by a context kernel (`gp.context`; the
paper's section II names the idea), and all blocks have a curve of the fidelity in their mean, whose weights are in theta.

Notation: n observations, m_b in block b, C columns of numbers, and one more for the fidelity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg, mondrian, slice_sampler
from raytree.gp.context import CONTEXTS, HAZE, TRENDS, Context, Parameter, hazy, trend
from raytree.gp.inference import fit as map_fit
from raytree.gp.kernels import GAUSSIAN, LAPLACE, MATERN52, Stationary
from raytree.gp.linalg import Array
from raytree.gp.priors import horseshoe, normal
from raytree.models.conditional_posterior import AMPLITUDE, LENGTHS, NOISE, BlockPosterior, Mixture
from raytree.models.inputs import Inputs
from raytree.space import Path, Space

NOISE_FLOOR = 1e-12  # variance, in standardised units
NOISY = 0.3
"""The variance of the noise that a second fit begins with."""
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
_TREND = Parameter(0.0, 1.0, -10.0, 10.0)


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
    X: Array  # (m, C_b), and the fidelity if there is one
    lengths: np.ndarray  # (l,) which length-scales
    terms: Array  # (l, m, m)


class BlockGP:
    """The model on one data set.

    Args:
        space: the search space.
        inputs: rows as numbers.
        kernel: a name of `KERNELS`.
        rows: (n, d) rows, or (n, d + 1) with a fidelity if there is a context kernel.
        y: (n,) standardised losses.
        paths: n paths.
        priors: of the hyperparameters.
        seed: of the Mondrian partitions.
        context: of `gp.context`, for rows with a fidelity.
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
        context: str | None = None,
    ) -> None:
        self.space, self.inputs, self.kernel, self.y, self.seed = space, inputs, kernel, y, seed
        self.stationary = KERNELS[kernel]
        self.context: Context | None = None if context is None else CONTEXTS[context]
        self.rows, self.paths = rows, list(paths)
        numbers = self.numbers(rows)
        members: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            members.setdefault(self.block_of(path), []).append(k)
        self.blocks: dict[Path, Block] = {}
        for key, index in members.items():
            columns = self.columns(key)
            X = self.seen(numbers[index], columns)
            lengths, terms = self._terms(X, X, columns)
            self.blocks[key] = Block(np.array(index), columns, X, lengths, terms)
        self._n_lengths = inputs.n_lengths
        more = [] if self.context is None else [*[_TREND] * TRENDS, HAZE, *self.context.parameters]
        self._mean = np.array(
            [0.0, 2.0 * priors.amplitude_mean, *[priors.length_mean] * self._n_lengths, *[p.mean for p in more]]
        )
        self._sd = np.array([1.0, 2.0 * priors.amplitude_sd, *[priors.length_sd] * self._n_lengths, *[p.sd for p in more]])
        self._noise_scale = priors.noise_scale
        ends = [(np.log(0.01), np.log(100.0))] * self._n_lengths + [(p.low, p.high) for p in more]
        self.bounds = np.array([(np.log(NOISE_FLOOR), 2.0), (-8.0, 10.0), *ends])

    def numbers(self, rows: Array, target: float = 1.0) -> Array:
        """(m, C) numbers of rows, and their fidelity: their own, or the target's."""
        numbers = self.inputs(rows[:, : self.space.d])
        if self.context is None:
            return numbers
        return np.column_stack([numbers, rows[:, -1] if rows.shape[1] > self.space.d else np.full(len(rows), target)])

    def seen(self, numbers: Array, columns: np.ndarray) -> Array:
        """(m, C_b) what a block sees of numbers: its columns, and the fidelity."""
        return numbers[:, columns] if self.context is None else numbers[:, np.append(columns, numbers.shape[1] - 1)]

    def curve(self, theta: Array, X: Array) -> Array:
        """(m,) the common curve at the fidelities of rows of a block; nothing without."""
        if self.context is None:
            return np.zeros(len(X))
        begin = LENGTHS + self._n_lengths
        return trend(X[:, -1]) @ theta[begin : begin + TRENDS]

    @property
    def _haze(self) -> int:
        """The place of the haze in theta."""
        return LENGTHS + self._n_lengths + TRENDS

    def context_theta(self, theta: Array) -> Array:
        return theta[self._haze + 1 :]

    def noise(self, theta: Array, X: Array) -> Array:
        """(m,) the variance of evaluations of rows of a block around the function."""
        noise = np.full(len(X), np.exp(theta[NOISE]))
        return noise if self.context is None else noise + np.exp(theta[self._haze]) * hazy(X[:, -1])

    def between(self, theta: Array, a: Array, b: Array) -> float | Array:
        """(m, k) the context kernel of rows of a block; 1 without."""
        return 1.0 if self.context is None else self.context(self.context_theta(theta), a[:, -1], b[:, -1])

    def prior_variance(self, theta: Array, X: Array) -> Array:
        """(m,) the kernel of each row of a block with itself."""
        amplitude = np.full(len(X), np.exp(theta[AMPLITUDE]))
        return amplitude if self.context is None else amplitude * self.context.diagonal(self.context_theta(theta), X[:, -1])

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
        amplitude = np.exp(theta[AMPLITUDE]) * self.between(theta, a, b)
        if self.kernel == "mondrian":
            stretch = np.exp(-theta[LENGTHS + np.array(self.inputs.length, dtype=int)[columns]])
            both = mondrian.cells(np.vstack([a, b])[:, : len(columns)] * stretch, stretch, PARTITIONS, self.seed)
            return np.asarray(amplitude * mondrian.kernel(both[: len(a)], both[len(a) :]))
        lengths, terms = self._terms(a, b, columns)
        u = np.einsum("kij,k->ij", terms, self._inverse(theta, lengths))
        return np.asarray(amplitude * self.stationary.profile(u)[0])

    def _inverse(self, theta: Array, lengths: np.ndarray) -> Array:
        return np.exp(-self.stationary.power * theta[LENGTHS + lengths])

    # Hyperparameters

    def start(self) -> Array:
        """(k,) the middle of the priors, little noise."""
        theta = self._mean.copy()
        theta[NOISE] = np.log(1e-4)
        return theta

    def log_prior(self, theta: Array) -> tuple[float, Array]:
        """The log-density of theta, up to a constant, and its gradient."""
        penalty, gradient = normal(theta[1:], self._mean[1:], self._sd[1:])
        noise, slope = horseshoe(float(theta[NOISE]), self._noise_scale)
        return -penalty - noise, -np.append(slope, gradient)

    def _factor(self, theta: Array, block: Block) -> tuple[Array, Array, Array, Array]:
        """A block's scaled terms (l, m, m), kernel (m, m) of its columns, its fall (m, m), and the factor of its covariance."""
        scaled = block.terms * self._inverse(theta, block.lengths)[:, None, None]
        k, falls = self.stationary.profile(scaled.sum(axis=0))
        covariance = np.exp(theta[AMPLITUDE]) * self.between(theta, block.X, block.X) * k
        return scaled, k, falls, linalg.cholesky(covariance + np.diag(self.noise(theta, block.X)))

    def log_likelihood(self, theta: Array) -> float:
        """log P(y | theta)."""
        value = -0.5 * len(self.y) * _LOG_2PI
        for block in self.blocks.values():
            L = self._factor(theta, block)[-1]
            v = linalg.solve_lower(L, self.y[block.rows] - self.curve(theta, block.X))
            value -= 0.5 * (v @ v + linalg.log_det(L))
        return float(value)

    def log_likelihood_slope(self, theta: Array) -> tuple[float, Array]:
        """log P(y | theta) and its gradient (k,)."""
        noise, amplitude = np.exp(theta[NOISE]), np.exp(theta[AMPLITUDE])
        value, gradient = -0.5 * len(self.y) * _LOG_2PI, np.zeros(len(theta))
        for block in self.blocks.values():
            scaled, k, falls, L = self._factor(theta, block)
            y = self.y[block.rows] - self.curve(theta, block.X)
            alpha = linalg.solve(L, y)
            W = np.outer(alpha, alpha) - linalg.solve(L, np.eye(len(y)))
            value -= 0.5 * (y @ alpha + linalg.log_det(L))
            between: float | Array = 1.0
            if self.context is not None:
                begin = LENGTHS + self._n_lengths
                gradient[begin : begin + TRENDS] += alpha @ trend(block.X[:, -1])
                between, slopes = self.context.slopes(self.context_theta(theta), block.X[:, -1], block.X[:, -1])
                gradient[self._haze] += 0.5 * np.exp(theta[self._haze]) * (np.diag(W) @ hazy(block.X[:, -1]))
                gradient[self._haze + 1 :] += 0.5 * amplitude * np.einsum("ij,kij->k", W * k, slopes)
            gradient[NOISE] += 0.5 * noise * np.trace(W)
            gradient[AMPLITUDE] += 0.5 * amplitude * np.sum(W * k * between)
            by_length = np.einsum("ij,kij->k", W * falls * between, scaled)
            gradient[LENGTHS + block.lengths] += 0.5 * self.stationary.power * amplitude * by_length
        return float(value), gradient

    def log_posterior(self, theta: Array) -> tuple[float, Array]:
        """The log-density of theta given the data, up to a constant, and its gradient."""
        value, gradient = self.log_likelihood_slope(theta)
        prior, by_prior = self.log_prior(theta)
        return value + prior, gradient + by_prior

    def fit(self, start: Array | None, max_evaluations: int) -> Array:
        """(k,) the most likely theta, the better one of two: from a warm start, and from much noise (see `models.tree`)."""

        def objective(theta: Array) -> tuple[float, Array]:
            value, gradient = self.log_posterior(theta)
            return -value, -gradient

        noisy = self.start()
        noisy[NOISE] = np.log(NOISY)
        starts = (self.start() if start is None else start, noisy)
        found = [map_fit(objective, begin, self.bounds, max_evaluations) for begin in starts]
        return min(found, key=lambda pair: pair[1])[0]

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
        return slice_sampler.sample(density, first, (NOISE, AMPLITUDE), rng, draws, burn_in if start is None else 0)

    def posterior(self, thetas: Array, target: float = 1.0, plain: bool = False) -> Mixture:
        """The posterior at each of thetas (s, k), see `BlockPosterior` for `target` and `plain`."""
        return Mixture([BlockPosterior(self, theta, target, plain) for theta in np.atleast_2d(thetas)])
