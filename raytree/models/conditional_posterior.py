"""Posteriors of the Gaussian processes in `models.conditional`: one block at a time, at one theta or averaged over several.

Notation: n observations, m_b in block b, C columns of numbers, and one more for the fidelity.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.linalg import Array
from raytree.models.tree_posterior import CERTAIN, FREEDOM, Prediction
from raytree.space import Path

if TYPE_CHECKING:
    from raytree.models.conditional import BlockGP

NOISE, AMPLITUDE, LENGTHS = 0, 1, 2
"""Places in theta; behind the lengths the trend's weights, the haze and the context kernel's."""
_TINY = 1e-18


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
        plain: whether improvement is that of the function itself, see `acquisition.improvement`.
    """

    def __init__(self, model: BlockGP, theta: Array, target: float = 1.0, plain: bool = False) -> None:
        self.model, self.theta, self.target = model, theta, target
        self.amplitude = float(np.exp(theta[AMPLITUDE]))
        self.blocks: dict[Path, Factored] = {}
        for key, block in model.blocks.items():
            L = linalg.cholesky(self._covariance(block.X, block.X, block.columns) + np.diag(model.noise(theta, block.X)))
            v = linalg.solve_lower(L, model.y[block.rows] - model.curve(theta, block.X))
            self.blocks[key] = Factored(block.X, L, v, linalg.solve_upper(L, v))
        self.plain, self.noise = plain, 0.0 if plain else float(np.exp(theta[NOISE]))
        self.lowest = float(self.target_means().min())  # what improvement is measured from

    def at(self, fidelity: float, which: np.ndarray) -> BlockPosterior:
        """This posterior for improvement, at another fidelity, on the median of some observations' configurations."""
        other = copy(self)
        other.target = fidelity
        other.lowest = float(np.median(other.target_means()[which]))
        return other

    def freedom(self, path: Path) -> int:
        """How many degrees of freedom the estimate of the amplitude has, for the block of a path."""
        block = self.model.blocks.get(self.model.block_of(path))
        return CERTAIN if self.plain else FREEDOM + (0 if block is None else len(block.rows))

    def _covariance(self, a: Array, b: Array, columns: np.ndarray) -> Array:
        return self.model.covariance(self.theta, a, b, columns)

    def observed_means(self) -> Array:
        """(n,) posterior means at the observations: y - s2 alpha."""
        means = self.model.y.copy()
        for key, block in self.model.blocks.items():
            means[block.rows] -= self.model.noise(self.theta, block.X) * self.blocks[key].beta[: len(block.rows)]
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
        return np.asarray(
            np.clip(covariance**2 / ((variances[0] + self.model.noise(self.theta, there)) * variances[1]), 0.0, 1.0)
        )

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
        inverse = np.exp(-power * self.theta[LENGTHS + np.array(inputs.length, dtype=int)[columns]])
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
        grown.model, grown.theta, grown.amplitude, grown.plain = self.model, self.theta, self.amplitude, self.plain
        grown.blocks, grown.lowest, grown.target, grown.noise = dict(self.blocks), self.lowest, self.target, self.noise
        for key, index in self._by_block(paths).items():
            columns = self.model.columns(key)
            X = self.model.seen(numbers[index], columns)
            corner = self._covariance(X, X, columns) + np.diag(self.model.noise(self.theta, X))
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

    def at(self, fidelity: float, which: np.ndarray) -> Mixture:
        """These posteriors for improvement at another fidelity."""
        return Mixture([part.at(fidelity, which) for part in self.parts])

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
