"""Gaussian processes with kernels for conditional spaces (Levesque et al. 2017, section IV).

The conditional kernel, eq. (8), is a kernel where two configurations take the same cells in the same decisions, and 0
elsewhere. The covariance matrix is then one block per visited path, eq. (9), each factorised alone, eq. (10): time is
O(sum_b m_b^3), and a path without observations costs nothing. The other kernels see every row as one block of numbers (`inputs`).

Hyperparameters theta (logarithms): noise variance, amplitude (variance), a length-scale per coordinate; log-normal priors, a
horseshoe for the noise's deviation. One set serves all blocks.

The Mondrian kernel is piecewise constant in its length-scales, so its likelihood cannot be climbed; they are those of the Laplace
kernel, which it approximates, and its own cells are used for the posterior.

Rows may have a fidelity behind the columns of the space: the kernel is then multiplied by a context kernel (`gp.context`; the
paper's section II names the idea), and all blocks have a curve of the fidelity in common.

Notation: n observations, m_b in block b, C columns of numbers, and one more for the fidelity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from raytree.gp import mondrian, slice_sampler
from raytree.gp.context import CONTEXTS, EARLY_NOISE, TRENDS, Context, early, trend
from raytree.gp.inference import Found, Member, ensemble, fit
from raytree.gp.kernels import GAUSSIAN, LAPLACE, MATERN52, Stationary, distances
from raytree.gp.likelihood import Blocks, Stack, negative_log_likelihood, stack_of
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian, posterior
from raytree.gp.priors import horseshoe, normal
from raytree.gp.process import FeatureMap, NoFeatures, PathFeatures, Process
from raytree.models.inputs import Inputs
from raytree.space import Path, Space

NOISE_FLOOR = 1e-12  # variance, in standardised units
NOISY = 0.3
"""The variance of the noise that a second fit begins with."""
TREND_VARIANCE = 1.0
"""Of the weights of the common curve."""
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
NOISE = 0
"""Places in theta; behind the lengths are the early noise and the context kernel's parameters."""
AMPLITUDE = 1
LENGTHS = 2


@dataclass(frozen=True)
class Priors:
    """Of the logarithms of length-scales and of the amplitude's deviation: normal; of the noise's deviation: horseshoe."""

    length_mean: float = 0.0
    length_sd: float = 1.0
    amplitude_mean: float = 0.0
    amplitude_sd: float = 1.0
    noise_scale: float = 1.0


PAPER_PRIORS = Priors()


class Curve:
    """The features of a curve of the fidelity that all paths have in common."""

    columns = np.arange(TRENDS)

    def on(self, path: Path) -> PathFeatures:
        return self

    def matrix(self, paths: Sequence[Path], rows: Array) -> Array:
        return trend(rows[..., -1].ravel()).reshape(*rows.shape[:2], TRENDS)

    def values(self, rows: Array) -> Array:
        return trend(rows[:, -1])

    def with_slopes(self, row: Array) -> tuple[Array, list[Array]]:
        return trend(row[-1]), []

    def pull_back(self, slopes: list[Array], by_feature: Array, out: Array) -> None:
        pass


@dataclass(frozen=True)
class InputKernel:
    """A stationary kernel of rows as numbers, times the context.

    Inputs are the columns of numbers that can differ inside a block, and the fidelity if there is one.

    Args:
        space: the search space.
        numbers: rows as numbers.
        name: of `KERNELS`.
        theta: (k,) hyperparameters.
        context: between fidelities, if rows have them.
        seed: of the Mondrian partitions.
    """

    space: Space
    numbers: Inputs
    name: str
    theta: Array
    context: Context | None
    seed: int

    @property
    def stationary(self) -> Stationary:
        return KERNELS[self.name]

    @property
    def _early(self) -> int:
        """The place of the early noise in theta."""
        return LENGTHS + self.numbers.n_lengths

    @property
    def context_theta(self) -> Array:
        return self.theta[self._early + 1 :]

    def columns(self, block: Path) -> np.ndarray:
        """The columns of numbers that can differ inside a block."""
        parameters = self.space.free(block) if self.name == "conditional" else tuple(range(self.space.d))
        return self.numbers.columns(parameters)

    def coordinates(self, block: Path) -> np.ndarray:
        columns = self.columns(block)
        return np.asarray(self.numbers.parameter[columns][self.numbers.indicator[columns] < 0])

    def signature(self, block: Path) -> bytes:
        return self.theta.tobytes()

    def inputs(self, block: Path, rows: Array) -> Array:
        X = self.numbers(rows[:, : self.space.d], self.columns(block))
        return X if self.context is None else np.column_stack([X, rows[:, -1]])

    def _inverse(self, block: Path) -> Array:
        """(c,) what terms |x - x'|^power of a block's columns are multiplied by."""
        lengths = self.numbers.length[self.columns(block)]
        found: Array = np.exp(-self.stationary.power * self.theta[LENGTHS + lengths])
        return found

    def matrix(self, block: Path, a: Array, b: Array) -> Array:
        amplitude: float | Array = float(np.exp(self.theta[AMPLITUDE]))
        if self.context is not None:
            amplitude = amplitude * self.context(self.context_theta, a[:, -1], b[:, -1])
            a, b = a[:, :-1], b[:, :-1]
        if self.name == "mondrian":
            stretch = self._inverse(block)  # of power one
            both = mondrian.cells(np.vstack([a, b]) * stretch, stretch, PARTITIONS, self.seed)
            return np.asarray(amplitude * mondrian.kernel(both[: len(a)], both[len(a) :]))
        return np.asarray(amplitude * self.stationary.alone(_distance(a, b, self._inverse(block), self.stationary.power)))

    def diagonal(self, block: Path, X: Array) -> Array:
        variance = np.full(len(X), np.exp(self.theta[AMPLITUDE]))
        return variance if self.context is None else variance * self.context.diagonal(self.context_theta, X[:, -1])

    def noise(self, block: Path, X: Array) -> Array:
        noise = np.full(len(X), np.exp(self.theta[NOISE]))
        return noise if self.context is None else noise + np.exp(self.theta[self._early]) * early(X[:, -1])

    def gradient(self, block: Path, X: Array, x: Array) -> tuple[Array, Array]:
        factor: float | Array = float(np.exp(self.theta[AMPLITUDE]))
        if self.context is not None:
            factor = factor * self.context(self.context_theta, X[:, -1], x[-1:])[:, 0]
            X, x = X[:, :-1], x[:-1]
        power, inverse = self.stationary.power, self._inverse(block)
        difference = x - X
        bend = inverse * (difference if power == 2 else np.sign(difference))
        k, falls = self.stationary.profile(np.sum(difference * bend, axis=1))
        bend *= power
        number = self.numbers.indicator[self.columns(block)] < 0
        return factor * k, (-(factor * falls)[:, None] * bend)[:, number]


def _distance(a: Array, b: Array, inverse: Array, power: int) -> Array:
    """(n, m) sums over columns of |a - b|^power times `inverse` (c,)."""
    if power == 2:
        return distances(a, b, inverse, np.zeros(len(inverse), dtype=bool))
    out = np.zeros((len(a), len(b)))
    for column, factor in enumerate(inverse.tolist()):
        out += factor * np.abs(a[:, column, None] - b[None, :, column]) ** power
    return out


class InputBlock(NamedTuple):
    """The rows of one block, with what does not depend on hyperparameters."""

    stack: Stack  # of one
    lengths: np.ndarray  # (l,) the length-scales that matter here
    terms: Array  # (l, m, m) for each of them |x - x'|^power, summed over its columns
    features: Array  # (1, m, D)
    fidelity: Array  # (m,)


class ConditionalModel:
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
        self.space, self.inputs, self.kernel_name, self.seed = space, inputs, kernel, seed
        self.rows, self.y, self.paths = rows, y, list(paths)
        self.context: Context | None = None if context is None else CONTEXTS[context]
        self.features: FeatureMap = NoFeatures() if context is None else Curve()
        self._variance = np.empty(0) if context is None else np.full(TRENDS, TREND_VARIANCE)
        more = [] if self.context is None else [EARLY_NOISE, *self.context.parameters]
        lengths = inputs.n_lengths
        self._mean = np.array([0.0, 2.0 * priors.amplitude_mean, *[priors.length_mean] * lengths, *[p.mean for p in more]])
        self._sd = np.array([1.0, 2.0 * priors.amplitude_sd, *[priors.length_sd] * lengths, *[p.sd for p in more]])
        self._noise_scale = priors.noise_scale
        ends = [(np.log(0.01), np.log(100.0))] * lengths + [(p.low, p.high) for p in more]
        self.bounds = np.array([(np.log(NOISE_FLOOR), 2.0), (-8.0, 10.0), *ends])

    @cached_property
    def _blocks(self) -> list[InputBlock]:
        members: dict[Path, list[int]] = {}
        for k, path in enumerate(self.paths):
            members.setdefault(path if self.kernel_name == "conditional" else (), []).append(k)
        kernel, rows_only = self.kernel(self._mean), self.rows[:, : self.space.d]
        blocks = []
        for key, index in members.items():
            columns, rows = kernel.columns(key), self.rows[index]
            X = self.inputs(rows_only[index], columns)
            lengths, where = np.unique(self.inputs.length[columns], return_inverse=True)
            terms = np.zeros((len(lengths), len(X), len(X)))
            for column, k in enumerate(where.tolist()):
                terms[k] += np.abs(X[:, column, None] - X[None, :, column]) ** kernel.stationary.power
            features = self.features.on(key).values(rows)[None]
            fidelity = np.ones(len(X)) if self.context is None else rows[:, -1]
            blocks.append(InputBlock(stack_of([np.array(index)]), lengths, terms, features, fidelity))
        return blocks

    def kernel(self, theta: Array) -> InputKernel:
        """The kernel at theta."""
        return InputKernel(self.space, self.inputs, self.kernel_name, theta, self.context, self.seed)

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

    def log_likelihood(self, theta: Array) -> tuple[float, Array]:
        """log P(y | theta) and its gradient (k,)."""
        stationary, last = KERNELS[self.kernel_name], LENGTHS + self.inputs.n_lengths
        noise, amplitude = np.exp(theta[NOISE]), np.exp(theta[AMPLITUDE])
        made, blocks = [], []
        for block in self._blocks:
            scaled = block.terms * np.exp(-stationary.power * theta[LENGTHS + block.lengths])[:, None, None]
            k, falls = stationary.profile(scaled.sum(axis=0))
            between, by_context = np.ones_like(k), np.empty((0, *k.shape))
            noises = np.full(len(k), noise)
            if self.context is not None:
                between, by_context = self.context.slopes(theta[last + 1 :], block.fidelity, block.fidelity)
                noises = noises + np.exp(theta[last]) * early(block.fidelity)
            made.append((scaled, k, falls, between, by_context))
            y = self.y[block.stack.rows]
            blocks.append(Blocks(block.stack, (amplitude * k * between)[None], noises[None], y, block.features))
        value, slopes, _ = negative_log_likelihood(blocks, self._variance)
        gradient = np.zeros(len(theta))
        for block, (scaled, k, falls, between, by_context), slope in zip(self._blocks, made, slopes, strict=True):
            W = slope.by_covariance[0]
            gradient[NOISE] -= noise * np.trace(W)
            gradient[AMPLITUDE] -= amplitude * np.sum(W * k * between)
            by_length = np.einsum("ij,kij->k", W * falls * between, scaled)
            gradient[LENGTHS + block.lengths] -= stationary.power * amplitude * by_length
            if self.context is not None:
                gradient[last] -= np.exp(theta[last]) * (np.diag(W) @ early(block.fidelity))
                gradient[last + 1 :] -= amplitude * np.einsum("ij,kij->k", W * k, by_context)
        return -value, gradient

    def negative_log_posterior(self, theta: Array) -> tuple[float, Array]:
        """Minus the log-density of theta given the data, up to a constant, and its gradient."""
        value, gradient = self.log_likelihood(theta)
        prior, by_prior = self.log_prior(theta)
        return -value - prior, -gradient - by_prior

    def fit(self, start: Array | None, max_evaluations: int) -> Found:
        """The most likely theta, the better one of two: from a warm start, and from much noise (see `models.tree`)."""
        noisy = self.start()
        noisy[NOISE] = np.log(NOISY)
        starts = (self.start() if start is None else start, noisy)
        found = [fit(self.negative_log_posterior, begin, self.bounds, max_evaluations) for begin in starts]
        return min(found, key=lambda optimum: optimum.value)

    def ensemble(self, theta: Array, rng: np.random.Generator) -> list[Member]:
        """Likely thetas around the most likely one (k,), see `gp.inference`."""
        return ensemble(self.negative_log_posterior, theta, self.bounds, NOISE, rng)

    def sample(self, start: Array | None, rng: np.random.Generator, draws: int, burn_in: int) -> Array:
        """(draws, k) thetas by slice sampling; the last one is where to go on. Burns in only without a start."""

        def density(theta: Array) -> float:
            if np.any(theta < self.bounds[:, 0]) or np.any(theta > self.bounds[:, 1]):
                return -np.inf
            try:
                return -self.negative_log_posterior(theta)[0]
            except np.linalg.LinAlgError:
                return -np.inf

        first = self.start() if start is None else start
        return slice_sampler.sample(density, first, (NOISE, AMPLITUDE), rng, draws, burn_in if start is None else 0)

    def posterior(self, theta: Array, target: float = 1.0, previous: Gaussian | None = None) -> Gaussian:
        """The posterior at theta (k,); rows without a fidelity are meant at `target`. See `gp.posterior` for a previous one."""
        process = Process(
            self.kernel(theta), self.space.d, self.context is not None, self.kernel_name != "conditional", self.features,
            self._variance,
        )  # fmt: skip
        return posterior(process, self.rows, self.y, self.paths, target, previous)
