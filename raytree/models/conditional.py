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
from raytree.gp.context import CONTEXTS, TRENDS, Context, Parameter, trend
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
_NOISE, _AMPLITUDE, _LENGTHS = 0, 1, 2  # places in theta; behind the lengths the trend's weights and the context kernel's
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
        more = [] if self.context is None else [*[_TREND] * TRENDS, *self.context.parameters]
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
        begin = _LENGTHS + self._n_lengths
        return trend(X[:, -1]) @ theta[begin : begin + TRENDS]

    def context_theta(self, theta: Array) -> Array:
        return theta[_LENGTHS + self._n_lengths + TRENDS :]

    def between(self, theta: Array, a: Array, b: Array) -> float | Array:
        """(m, k) the context kernel of rows of a block; 1 without."""
        return 1.0 if self.context is None else self.context(self.context_theta(theta), a[:, -1], b[:, -1])

    def prior_variance(self, theta: Array, X: Array) -> Array:
        """(m,) the kernel of each row of a block with itself."""
        amplitude = np.full(len(X), np.exp(theta[_AMPLITUDE]))
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
        amplitude = np.exp(theta[_AMPLITUDE]) * self.between(theta, a, b)
        if self.kernel == "mondrian":
            stretch = np.exp(-theta[_LENGTHS + np.array(self.inputs.length, dtype=int)[columns]])
            both = mondrian.cells(np.vstack([a, b])[:, : len(columns)] * stretch, stretch, PARTITIONS, self.seed)
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
        """A block's scaled terms (l, m, m), kernel (m, m) of its columns, its fall (m, m), and the factor of its covariance."""
        scaled = block.terms * self._inverse(theta, block.lengths)[:, None, None]
        k, falls = self.stationary.profile(scaled.sum(axis=0))
        covariance = np.exp(theta[_AMPLITUDE]) * self.between(theta, block.X, block.X) * k
        return scaled, k, falls, linalg.cholesky(covariance + np.exp(theta[_NOISE]) * np.eye(len(block.rows)))

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
        noise, amplitude = np.exp(theta[_NOISE]), np.exp(theta[_AMPLITUDE])
        value, gradient = -0.5 * len(self.y) * _LOG_2PI, np.zeros(len(theta))
        for block in self.blocks.values():
            scaled, k, falls, L = self._factor(theta, block)
            y = self.y[block.rows] - self.curve(theta, block.X)
            alpha = linalg.solve(L, y)
            W = np.outer(alpha, alpha) - linalg.solve(L, np.eye(len(y)))
            value -= 0.5 * (y @ alpha + linalg.log_det(L))
            between: float | Array = 1.0
            if self.context is not None:
                begin = _LENGTHS + self._n_lengths
                gradient[begin : begin + TRENDS] += alpha @ trend(block.X[:, -1])
                between, slopes = self.context.slopes(self.context_theta(theta), block.X[:, -1], block.X[:, -1])
                gradient[begin + TRENDS :] += 0.5 * amplitude * np.einsum("ij,kij->k", W * k, slopes)
            gradient[_NOISE] += 0.5 * noise * np.trace(W)
            gradient[_AMPLITUDE] += 0.5 * amplitude * np.sum(W * k * between)
            by_length = np.einsum("ij,kij->k", W * falls * between, scaled)
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

    def posterior(self, thetas: Array, target: float = 1.0) -> Mixture:
        """The posterior at each of thetas (s, k); `target` is the fidelity of rows that have none."""
        return Mixture([BlockPosterior(self, theta, target) for theta in np.atleast_2d(thetas)])


class Factored(NamedTuple):
    """One block of a posterior, observed rows first."""

    X: Array  # (m, C_b), and the fidelity if there is one
    L: Array  # (m, m)
    v: Array  # (m,) inv(L) (y - curve)
    beta: Array  # (m,), 0 for rows without a value


class BlockPosterior:
    """Predictions at one theta; a block without rows predicts the prior.

    Args:
        model: the model and its data.
        theta: (k,) hyperparameters.
        target: the fidelity of rows that have none.
    """

    def __init__(self, model: BlockGP, theta: Array, target: float = 1.0) -> None:
        self.model, self.theta, self.target = model, theta, target
        self.noise, self.amplitude = float(np.exp(theta[_NOISE])), float(np.exp(theta[_AMPLITUDE]))
        self.blocks: dict[Path, Factored] = {}
        for key, block in model.blocks.items():
            L = linalg.cholesky(self._covariance(block.X, block.X, block.columns) + self.noise * np.eye(len(block.rows)))
            v = linalg.solve_lower(L, model.y[block.rows] - model.curve(theta, block.X))
            self.blocks[key] = Factored(block.X, L, v, linalg.solve_upper(L, v))
        self.lowest = float(self.target_means().min())  # what improvement is measured from

    def _covariance(self, a: Array, b: Array, columns: np.ndarray) -> Array:
        return self.model.covariance(self.theta, a, b, columns)

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - s2 alpha."""
        means = self.model.y.copy()
        for key, block in self.model.blocks.items():
            means[block.rows] -= self.noise * self.blocks[key].beta[: len(block.rows)]
        return means

    def target_means(self) -> Array:
        """(n,) posterior means at the observations' configurations, at the target fidelity."""
        if self.model.context is None:
            return self.observed_means()
        means = np.empty(len(self.model.y))
        for key, block in self.model.blocks.items():
            X = np.column_stack([block.X[:, :-1], np.full(len(block.rows), self.target)])
            means[block.rows] = self._project(key, X)[0]
        return means

    def _project(self, key: Path, X: Array) -> tuple[Array, Array]:
        """Means (m,) and inv(L) k (n, m) for what a block sees of rows."""
        block, mean = self.blocks.get(key), self.model.curve(self.theta, X)
        if block is None:
            return mean, np.empty((0, len(X)))
        k = self._covariance(block.X, X, self.model.columns(key))
        return mean + block.beta @ k, linalg.solve_lower(block.L, k)

    def predict(self, path: Path, numbers: Array) -> Prediction:
        """The function at numbers (m, C) of rows on one path."""
        key = self.model.block_of(path)
        X = self.model.seen(numbers, self.model.columns(key))
        mean, w = self._project(key, X)
        variance = self.model.prior_variance(self.theta, X) - np.sum(w**2, axis=0)
        return Prediction(mean, np.sqrt(np.maximum(variance, _TINY)))

    def joint(self, numbers: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the function at numbers (m, C) of rows, each on its path."""
        mean, covariance = np.empty(len(numbers)), np.zeros((len(numbers), len(numbers)))
        for key, index in self._by_block(paths).items():
            columns = self.model.columns(key)
            X = self.model.seen(numbers[index], columns)
            mean[index], w = self._project(key, X)
            covariance[np.ix_(index, index)] = self._covariance(X, X, columns) - w.T @ w
        return mean, covariance

    def informs(self, path: Path, numbers: Array, fidelity: float) -> Array:
        """(m,) which share of what is unknown at numbers (m, C) an evaluation at another fidelity would explain."""
        key = self.model.block_of(path)
        columns = self.model.columns(key)
        here = self.model.seen(numbers, columns)
        there = np.column_stack([here[:, :-1], np.full(len(here), fidelity)])
        w_there, w_here = self._project(key, there)[1], self._project(key, here)[1]
        assert self.model.context is not None
        theta = self.model.context_theta(self.theta)
        between = self.model.context(theta, np.array([fidelity]), here[:1, -1])[0, 0]
        covariance = self.amplitude * between - np.sum(w_there * w_here, axis=0)
        variances = [
            np.maximum(self.model.prior_variance(self.theta, X) - np.sum(w**2, axis=0), _TINY)
            for X, w in ((there, w_there), (here, w_here))
        ]
        return np.asarray(np.clip(covariance**2 / ((variances[0] + self.noise) * variances[1]), 0.0, 1.0))

    def _by_block(self, paths: Sequence[Path]) -> dict[Path, list[int]]:
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            groups.setdefault(self.model.block_of(path), []).append(k)
        return groups

    def gradient(self, path: Path, numbers: Array) -> tuple[float, float, Array, Array]:
        """Mean and sd at numbers (C,) of one row, and their derivatives (d,) by the coordinates that are numbers."""
        inputs = self.model.inputs
        d_mean, d_sd = np.zeros(self.model.space.d), np.zeros(self.model.space.d)
        key = self.model.block_of(path)
        columns = self.model.columns(key)
        x = self.model.seen(numbers[None], columns)
        prior, curve = float(self.model.prior_variance(self.theta, x)[0]), float(self.model.curve(self.theta, x)[0])
        block = self.blocks.get(key)
        if block is None:
            return curve, float(np.sqrt(prior)), d_mean, d_sd
        power = self.model.stationary.power
        difference = numbers[columns] - block.X[:, : len(columns)]
        inverse = np.exp(-power * self.theta[_LENGTHS + np.array(inputs.length, dtype=int)[columns]])
        terms = np.abs(difference) ** power * inverse
        k, falls = self.model.stationary.profile(terms.sum(axis=1))
        factor = self.amplitude * np.broadcast_to(self.model.between(self.theta, block.X, x), (len(block.X), 1))[:, 0]
        bend = power * np.sign(difference) * np.abs(difference) ** (power - 1) * inverse
        dk = -(factor * falls)[:, None] * bend
        solved = linalg.solve_lower(block.L, np.column_stack([factor * k, dk]))
        w, w_dk = solved[:, 0], solved[:, 1:]
        sd = float(np.sqrt(max(prior - float(w @ w), _TINY)))
        number = np.array([inputs.indicator[c] < 0 for c in columns.tolist()], dtype=bool)
        where = np.array(inputs.parameter, dtype=int)[columns[number]]
        d_mean[where] = (block.beta @ dk)[number]
        d_sd[where] = -(w @ w_dk)[number] / sd
        return curve + float(block.beta @ (factor * k)), sd, d_mean, d_sd

    def condition(self, numbers: Array, paths: Sequence[Path], values: Array | None = None) -> BlockPosterior:
        """This posterior with more rows: their values (m,), or their means taken for values."""
        grown = object.__new__(BlockPosterior)
        grown.model, grown.theta, grown.noise, grown.amplitude = self.model, self.theta, self.noise, self.amplitude
        grown.blocks, grown.lowest, grown.target = dict(self.blocks), self.lowest, self.target
        for key, index in self._by_block(paths).items():
            columns = self.model.columns(key)
            X = self.model.seen(numbers[index], columns)
            corner = self._covariance(X, X, columns) + self.noise * np.eye(len(index))
            y = (self._project(key, X)[0] if values is None else values[index]) - self.model.curve(self.theta, X)
            block = self.blocks.get(key)
            if block is None:
                L = linalg.cholesky(corner)
                v = linalg.solve_lower(L, y)
                grown.blocks[key] = Factored(X, L, v, np.zeros(len(index)) if values is None else linalg.solve_upper(L, v))
                continue
            n = len(block.X)
            L = linalg.append(block.L, self._covariance(block.X, X, columns), corner)
            v = np.append(block.v, linalg.solve_lower(L[n:, n:], y - L[n:, :n] @ block.v))
            beta = np.append(block.beta, np.zeros(len(index))) if values is None else linalg.solve_upper(L, v)
            grown.blocks[key] = Factored(np.vstack([block.X, X]), L, v, beta)
        if values is not None:
            grown.lowest = min(self.lowest, float(values.min(initial=np.inf)))
        return grown


class Mixture:
    """Posteriors at several thetas with equal weights; at one theta, that posterior."""

    def __init__(self, parts: Sequence[BlockPosterior]) -> None:
        self.parts = list(parts)
        self.block_of = self.parts[0].model.block_of

    def numbers(self, rows: Array) -> Array:
        """What the parts see of rows (m, d)."""
        return self.parts[0].model.numbers(rows, self.parts[0].target)

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd of the mixture at rows (m, d) on one path."""
        numbers = self.numbers(rows)
        every = [part.predict(path, numbers) for part in self.parts]
        means, sds = np.array([p.mean for p in every]), np.array([p.sd for p in every])
        mean = means.mean(axis=0)
        return Prediction(mean, np.sqrt(np.mean(sds**2 + (means - mean) ** 2, axis=0)))

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations."""
        return np.mean([part.observed_means() for part in self.parts], axis=0)

    def target_means(self) -> Array:
        """(n,) posterior means at the observations' configurations, at the target fidelity."""
        return np.mean([part.target_means() for part in self.parts], axis=0)

    def joint(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) at rows (m, d), each on its path."""
        every = [part.joint(self.numbers(rows), paths) for part in self.parts]
        means = np.array([mean for mean, _ in every])
        apart = means - means.mean(axis=0)
        return means.mean(axis=0), np.mean([covariance for _, covariance in every], axis=0) + apart.T @ apart / len(every)

    def informs(self, path: Path, rows: Array, fidelity: float) -> Array:
        """(m,) which share of what is unknown at rows (m, d) an evaluation at another fidelity would explain."""
        numbers = self.numbers(rows)
        return np.mean([part.informs(path, numbers, fidelity) for part in self.parts], axis=0)

    def condition(self, rows: Array, paths: Sequence[Path], values: Array | None = None) -> Mixture:
        """This posterior with more rows (m, d): their values (m,), or their means taken for values."""
        if not len(rows):
            return self
        numbers = self.numbers(rows)
        return Mixture([part.condition(numbers, paths, values) for part in self.parts])

    def together(self, others: Sequence[Mixture]) -> Mixture:
        """This and other mixtures with equal weights."""
        return Mixture([part for mixture in (self, *others) for part in mixture.parts])
