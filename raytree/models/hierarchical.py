"""The hierarchical Gaussian process of Moss et al. 2020, section 3.1: realizations as perturbations of one target.

    g ~ GP(0, c + a_g R),   f_s ~ GP(g, a_f R + o),   y_i = f_{s_i}(x_i) + noise

R is a Matern-5/2 correlation with a length-scale per coordinate, shared by both levels, and 0 between different paths; o is a
realization's constant offset (the journal version's term): a hard seed is hard everywhere. c is the variance of the target's
level (ours). Without it the offsets of the first realizations stand in for a level that is not 0, as it is not where most
trials are good ones; then all seeds seem to differ much, and a fresh one never tells enough to be tried. So

    K = c + (a_g + a_f S) o R + o S + s2 I,        S_ij = 1 if s_i = s_j

and one correlation matrix and one factorisation serve all. A realization never seen has only g in common with the data.

Theta (logarithms): noise s2, target a_g, deviation a_f, offset o, length-scales; log-normal priors, MAP.
Notation: n observations, m rows to predict, p realizations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.inference import fit as map_fit
from raytree.gp.kernels import MATERN52
from raytree.gp.linalg import Array
from raytree.gp.priors import normal
from raytree.models.inputs import Inputs
from raytree.models.tree_posterior import Prediction
from raytree.space import Path, Space

NOISE_FLOOR = 1e-6
LEVEL = 1.0  # variance of the target's level, c
_NOISE, _TARGET, _DEVIATION, _OFFSET, _LENGTHS = 0, 1, 2, 3, 4
_PRIORS = np.log([0.01, 1.0, 0.3, 0.05]), np.array([2.0, 1.0, 1.0, 1.5])
"""Some noise: chaotic simulations look noisy where trials are few."""
_LENGTH_PRIOR, _GROWTH = (np.log(0.2), 0.8), 0.8
"""In one dimension; in d of them, lengths are longer by d to this power: distances grow too (compare Hvarfner et al. 2024)."""
_LOG_2PI = np.log(2.0 * np.pi)
_TINY = 1e-18

FRESH = -1
"""The realization that has not been seen."""


class Joint(NamedTuple):
    """At m rows: mean and sd of the target (m,); for each of p realizations the variance of an evaluation (m, p), noise
    included, and its covariance with the target (m, p)."""

    mean: Array
    sd: Array
    variance: Array
    covariance: Array

    def correlation(self) -> Array:
        """(m, p) of evaluation and target."""
        return np.clip(self.covariance / (self.sd[:, None] * np.sqrt(self.variance)), -1.0, 1.0)


class HierarchicalGP:
    """The model on one data set.

    Args:
        space: the search space, without the seed.
        rows: (n, d) rows.
        y: (n,) standardised values.
        paths: n paths.
        seeds: n numbers of realizations, from 0.
    """

    def __init__(self, space: Space, inputs: Inputs, rows: Array, y: Array, paths: Sequence[Path], seeds: Sequence[int]) -> None:
        self.space, self.inputs, self.y = space, inputs, y
        self.X, self.paths, self.seeds = inputs(rows), list(paths), np.array(seeds, dtype=int)
        self._same = self.seeds[:, None] == self.seeds[None, :]
        self._alike = self._on_same_path(self.paths, self.paths)
        self._terms = self._differences(self.X, self.X)
        lengths = inputs.n_lengths
        self._mean = np.concatenate([_PRIORS[0], np.full(lengths, _LENGTH_PRIOR[0] + _GROWTH * np.log(max(1, space.dimension)))])
        self._sd = np.concatenate([_PRIORS[1], np.full(lengths, _LENGTH_PRIOR[1])])
        variances = [(np.log(NOISE_FLOOR), 2.0), (-5.0, 5.0), (-14.0, 4.0), (-14.0, 4.0)]
        self.bounds = np.array([*variances, *[(np.log(0.01), np.log(30.0))] * lengths])

    @staticmethod
    def _on_same_path(a: Sequence[Path], b: Sequence[Path]) -> np.ndarray:
        number = {path: k for k, path in enumerate(dict.fromkeys([*a, *b]))}
        return np.array([number[p] for p in a])[:, None] == np.array([number[p] for p in b])[None, :]

    def _differences(self, a: Array, b: Array) -> Array:
        """(l, n, m) squared differences, summed over the columns of each length-scale."""
        terms = np.zeros((self.inputs.n_lengths, len(a), len(b)))
        for column, k in enumerate(self.inputs.length):
            terms[k] += (a[:, column, None] - b[None, :, column]) ** 2
        return terms

    def correlation(self, theta: Array, a: Array, b: Array, alike: np.ndarray) -> Array:
        """(n, m) R between numbers a (n, C) and b (m, C)."""
        scale = np.exp(-theta[_LENGTHS:])[np.array(self.inputs.length, dtype=int)]
        a, b = a * scale, b * scale
        squared = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None, :] - 2.0 * a @ b.T
        return np.asarray(MATERN52.profile(np.maximum(squared, 0.0))[0] * alike)

    def evidence_of_seeds(self, theta: Array) -> float:
        """By how much the data are more likely at theta than with all that it says of realizations said of noise."""
        without = theta.copy()
        without[[_DEVIATION, _OFFSET]] = self.bounds[[_DEVIATION, _OFFSET], 0]
        without[_NOISE] = np.log(np.sum(np.exp(theta[[_NOISE, _DEVIATION, _OFFSET]])))
        minus = [self.negative_log_posterior(t)[0] - normal(t, self._mean, self._sd)[0] for t in (without, theta)]
        return float(minus[0] - minus[1])

    def negative_log_posterior(self, theta: Array) -> tuple[float, Array]:
        """Minus log P(y | theta) P(theta), up to a constant, and its gradient (k,)."""
        noise, target, deviation, offset = np.exp(theta[:_LENGTHS])
        scaled = self._terms * np.exp(-2.0 * theta[_LENGTHS:])[:, None, None]
        R, falls = MATERN52.profile(scaled.sum(axis=0))
        R = R * self._alike
        level = target + deviation * self._same
        L = linalg.cholesky(LEVEL + level * R + offset * self._same + noise * np.eye(len(self.y)))
        alpha = linalg.solve(L, self.y)
        W = 0.5 * (linalg.solve(L, np.eye(len(self.y))) - np.outer(alpha, alpha))
        value = 0.5 * (self.y @ alpha + linalg.log_det(L) + len(self.y) * _LOG_2PI)
        by_variance = [
            noise * np.trace(W), target * np.sum(W * R), deviation * np.sum(W * self._same * R), offset * np.sum(W * self._same),
        ]  # fmt: skip
        by_length = 2.0 * np.einsum("ij,kij->k", W * level * falls * self._alike, scaled)
        penalty, slope = normal(theta, self._mean, self._sd)
        return float(value + penalty), np.concatenate([by_variance, by_length]) + slope

    def fit(self, previous: Array | None, max_evaluations: int) -> tuple[Array, float]:
        """(k,) the MAP theta from the last one, from the priors' centre and from much noise, whichever ends best; and how well.

        Noise that the seed does not explain looks much like realizations with short length-scales: both must be tried.
        """
        noisy = self._mean.copy()
        noisy[:_LENGTHS] = np.log([0.3, 0.7, 0.01, 0.01])
        starts = [self._mean, noisy] if previous is None else [previous, self._mean, noisy]
        found = [map_fit(self.negative_log_posterior, start, self.bounds, max_evaluations) for start in starts]
        return min(found, key=lambda pair: pair[1])

    def posterior(self, theta: Array) -> HierarchicalPosterior:
        """The posterior at theta."""
        return HierarchicalPosterior(self, theta)


class HierarchicalPosterior:
    """Predictions of the target and of any realization at one theta.

    Args:
        model: the model and its data.
        theta: (k,) hyperparameters.
    """

    def __init__(self, model: HierarchicalGP, theta: Array) -> None:
        self.model, self.theta = model, theta
        self.noise, self.target, self.deviation, self.offset = (float(v) for v in np.exp(theta[:_LENGTHS]))
        self.X, self.paths, self.seeds = model.X, model.paths, model.seeds
        R = model.correlation(theta, self.X, self.X, model._alike)
        self.L = linalg.cholesky(self._covariance(R, model._same) + self.noise * np.eye(len(self.X)))
        self.alpha = linalg.solve(self.L, model.y)
        self._finish()

    def _finish(self) -> None:
        self._inverse = linalg.solve_lower(self.L, np.eye(len(self.X)))  # of L
        self._members = {int(s): np.flatnonzero(self.seeds == s) for s in np.unique(self.seeds)}

    @property
    def _prior(self) -> float:
        """The prior variance of the target."""
        return LEVEL + self.target

    def _of_target(self, R: Array) -> Array:
        """The covariance of the target where the correlation is R."""
        return LEVEL + self.target * R

    def _covariance(self, R: Array, same: np.ndarray) -> Array:
        return self._of_target(R) + self.deviation * same * R + self.offset * same

    def _correlation(self, path: Path, numbers: Array) -> Array:
        """(n, m) R between the data and rows of one path."""
        alike = np.array([p == path for p in self.paths], dtype=bool)[:, None]
        return self.model.correlation(self.theta, self.X, numbers, alike)

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd of the target at rows (m, d) of one path."""
        k = self._of_target(self._correlation(path, self.model.inputs(rows)))
        w = linalg.solve_lower(self.L, k)
        return Prediction(self.alpha @ k, np.sqrt(np.maximum(self._prior - np.sum(w**2, axis=0), _TINY)))

    def joint(self, path: Path, rows: Array, seeds: Sequence[int]) -> Joint:
        """Target and evaluations on some realizations at rows (m, d) of one path.

        A realization's rows of L^-1 are enough for what it adds to the target's solve, so that all of them together cost no
        more than one.
        """
        R = self._correlation(path, self.model.inputs(rows))
        k = self._of_target(R)
        own = self.deviation * R + self.offset
        w = self._inverse @ k
        base = np.sum(w**2, axis=0)
        prior = self._prior + self.deviation + self.offset + self.noise
        variance = np.empty((len(rows), len(seeds)))
        covariance = np.empty((len(rows), len(seeds)))
        for j, seed in enumerate(seeds):
            index = self._members.get(int(seed))
            if index is None:
                variance[:, j], covariance[:, j] = prior - base, self._prior - base
                continue
            extra = self._inverse[:, index] @ own[index]
            cross = np.sum(w * extra, axis=0)
            variance[:, j] = prior - base - 2.0 * cross - np.sum(extra**2, axis=0)
            covariance[:, j] = self._prior - base - cross
        mean = self.alpha @ k
        return Joint(mean, np.sqrt(np.maximum(self._prior - base, _TINY)), np.maximum(variance, self.noise), covariance)

    def joint_target(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the target at rows (m, d) of any paths."""
        numbers = self.model.inputs(rows)
        R = self.model.correlation(self.theta, self.X, numbers, self.model._on_same_path(self.paths, paths))
        cross = self._of_target(R)
        w = self._inverse @ cross
        prior = self.model.correlation(self.theta, numbers, numbers, self.model._on_same_path(paths, paths))
        return self.alpha @ cross, self._of_target(prior) - w.T @ w

    def target_means(self) -> Array:
        """(n,) posterior means of the target at the observations."""
        R = self.model.correlation(self.theta, self.model.X, self.model.X, self.model._alike)
        return np.asarray(self.alpha[: len(self.model.y)] @ self._of_target(R))

    def condition(self, rows: Array, paths: Sequence[Path], seeds: Sequence[int] = ()) -> HierarchicalPosterior:
        """This posterior with rows (m, d) whose values are taken to be their means; of unseen realizations if none are given."""
        if not len(rows):
            return self
        numbers, new = self.model.inputs(rows), np.array(list(seeds) or [FRESH - k for k in range(len(rows))], dtype=int)
        grown = object.__new__(HierarchicalPosterior)
        grown.model, grown.theta = self.model, self.theta
        grown.noise, grown.target, grown.deviation, grown.offset = self.noise, self.target, self.deviation, self.offset
        alike = self.model._on_same_path(self.paths, paths)
        cross = self._covariance(self.model.correlation(self.theta, self.X, numbers, alike), self.seeds[:, None] == new[None, :])
        inner = self.model.correlation(self.theta, numbers, numbers, self.model._on_same_path(paths, paths))
        corner = self._covariance(inner, new[:, None] == new[None, :]) + self.noise * np.eye(len(rows))
        grown.L = linalg.append(self.L, cross, corner)
        grown.X, grown.paths = np.vstack([self.X, numbers]), [*self.paths, *paths]
        grown.seeds = np.concatenate([self.seeds, new])
        grown.alpha = np.append(self.alpha, np.zeros(len(rows)))
        grown._finish()
        return grown
