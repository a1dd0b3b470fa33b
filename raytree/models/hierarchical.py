"""The hierarchical Gaussian process of Moss et al. 2020, section 3.1: realizations as perturbations of one target.

    g ~ GP(0, c + a_g R),   f_s ~ GP(g, a_f R + o),   y_i = f_{s_i}(x_i) + noise

R is a Matern-5/2 correlation with a length-scale per coordinate, shared by both levels, and 0 between different paths; o is a
realization's constant offset (the journal version's term): a hard seed is hard everywhere. c is the variance of the target's
level (ours). Without it the offsets of the first realizations stand in for a level that is not 0, as it is not where most
trials are good ones; then all seeds seem to differ much, and a fresh one never tells enough to be tried. So

    K = c + (a_g + a_f S) o R + o S + s2 I,        S_ij = 1 if s_i = s_j

and one correlation matrix and one factorisation serve all. A realization never seen has only g in common with the data.

What counts, the target, is g where seeds are drawn from anywhere. Of a pool of p realizations, such as folds, it is their mean
(ours): g + (1 / p) sum_s (what s does there), noise included, since an evaluation that is repeated comes out the same. A
configuration tried on all p is then known exactly, whatever its neighbours say.

Theta (logarithms): noise s2, target a_g, deviation a_f, offset o, length-scales; log-normal priors, MAP.
Notation: n observations, m rows to predict, p realizations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.inference import Found, fit
from raytree.gp.kernels import MATERN52, distances
from raytree.gp.likelihood import Blocks, negative_log_likelihood, stack_of
from raytree.gp.linalg import Array
from raytree.gp.posterior import Prediction
from raytree.gp.priors import normal
from raytree.models.inputs import Inputs
from raytree.space import Path, Space

NOISE_FLOOR = 1e-6
LEVEL = 1.0  # variance of the target's level, c
_NOISE, _TARGET, _DEVIATION, _OFFSET, _LENGTHS = 0, 1, 2, 3, 4
_PRIORS = np.log([0.01, 1.0, 0.3, 0.05]), np.array([2.0, 1.0, 1.0, 1.5])
"""Some noise: chaotic simulations look noisy where trials are few."""
_LENGTH_PRIOR = (np.log(0.2), 0.8)
"""Mean and deviation of a log-length in one dimension."""
_GROWTH = 0.8
"""In d dimensions lengths are longer by d to this power: distances grow too (compare Hvarfner et al. 2024)."""
_TINY = 1e-18

FRESH = -1
"""The realization that has not been seen."""


class Joint(NamedTuple):
    """At m rows: mean and sd of the target (m,); for each of p realizations the variance of an evaluation (m, p), noise
    included, its covariance with the target there (m, p), and with the target at k other places (k, m, p); and the covariances
    of a partner's evaluation on the same realization with this one and with the target there (m, p)."""

    mean: Array
    sd: Array
    variance: Array
    covariance: Array
    elsewhere: Array
    paired: Array
    crossed: Array

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
        pool: how many realizations there are; None if they have no number.
    """

    def __init__(
        self,
        space: Space,
        inputs: Inputs,
        rows: Array,
        y: Array,
        paths: Sequence[Path],
        seeds: Sequence[int],
        pool: int | None = None,
    ) -> None:
        self.space, self.inputs, self.y, self.rows, self.places = space, inputs, y, rows, places_of(rows)
        self.share = 0.0 if pool is None else 1.0 / pool
        self.X, self.paths, self.seeds = inputs(rows), list(paths), np.array(seeds, dtype=int)
        self._same = self.seeds[:, None] == self.seeds[None, :]
        self._alike = self._on_same_path(self.paths, self.paths)
        number = {place: k for k, place in enumerate(dict.fromkeys(self.places))}
        at = np.array([number[place] for place in self.places], dtype=int)
        self.same_place = at[:, None] == at[None, :]
        self._terms = self._differences(self.X, self.X)
        self._stack = stack_of([np.arange(len(y))])
        lengths = inputs.n_lengths
        self._mean = np.concatenate([_PRIORS[0], np.full(lengths, _LENGTH_PRIOR[0] + _GROWTH * np.log(max(1, space.dimension)))])
        self._sd = np.concatenate([_PRIORS[1], np.full(lengths, _LENGTH_PRIOR[1])])
        variances = [(np.log(NOISE_FLOOR), 2.0), (-5.0, 5.0), (-14.0, 4.0), (-14.0, 4.0)]
        self.bounds = np.array([*variances, *[(np.log(0.01), np.log(30.0))] * lengths])

    @staticmethod
    def _on_same_path(a: Sequence[Path], b: Sequence[Path]) -> np.ndarray:
        number = {path: k for k, path in enumerate(dict.fromkeys([*a, *b]))}
        found: np.ndarray = np.array([number[p] for p in a])[:, None] == np.array([number[p] for p in b])[None, :]
        return found

    def _differences(self, a: Array, b: Array) -> Array:
        """(l, n, m) squared differences, summed over the columns of each length-scale."""
        terms = np.zeros((self.inputs.n_lengths, len(a), len(b)))
        for column, k in enumerate(self.inputs.length.tolist()):
            terms[k] += (a[:, column, None] - b[None, :, column]) ** 2
        return terms

    def correlation(self, theta: Array, a: Array, b: Array, alike: np.ndarray) -> Array:
        """(n, m) R between numbers a (n, C) and b (m, C)."""
        inverse = np.exp(-2.0 * theta[_LENGTHS:])[self.inputs.length]
        squared = distances(a, b, inverse, np.zeros(a.shape[1], dtype=bool))
        return np.asarray(MATERN52.profile(squared)[0] * alike)

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
        kernel, noises = LEVEL + level * R + offset * self._same, np.full((1, len(R)), noise)
        block = Blocks(self._stack, kernel[None], noises, self.y[None], np.empty((*noises.shape, 0)))
        value, (slopes,), _ = negative_log_likelihood([block], np.empty(0))
        W = slopes.by_covariance[0]
        by_variance = [
            noise * np.trace(W), target * np.sum(W * R), deviation * np.sum(W * self._same * R), offset * np.sum(W * self._same),
        ]  # fmt: skip
        by_length = 2.0 * np.einsum("ij,kij->k", W * level * falls * self._alike, scaled)
        penalty, slope = normal(theta, self._mean, self._sd)
        return float(value + penalty), np.concatenate([by_variance, by_length]) + slope

    def fit(self, previous: Array | None, max_evaluations: int) -> Found:
        """The MAP theta from the last one, from the priors' centre and from much noise, whichever ends best.

        Noise that the seed does not explain looks much like realizations with short length-scales: both must be tried.
        """
        noisy = self._mean.copy()
        noisy[:_LENGTHS] = np.log([0.3, 0.7, 0.01, 0.01])
        starts = [self._mean, noisy] if previous is None else [previous, self._mean, noisy]
        found = [fit(self.negative_log_posterior, start, self.bounds, max_evaluations) for start in starts]
        return min(found, key=lambda optimum: optimum.value)

    def posterior(self, theta: Array) -> HierarchicalPosterior:
        """The posterior at theta."""
        noise = float(np.exp(theta[_NOISE]))
        R = self.correlation(theta, self.X, self.X, self._alike)
        empty = np.empty((0, 0))
        made = HierarchicalPosterior(self, theta, self.rows, self.X, self.paths, self.seeds, self.places, empty, empty)
        L = linalg.cholesky(made.covariance(R, self._same) + noise * np.eye(len(self.X)))
        return replace(made, L=L, alpha=linalg.solve(L, self.y))


class Among(NamedTuple):
    """The target at k of the data: which (k,), its means and deviations (k,), and L^-1 times its covariances with the data
    (n, k)."""

    which: np.ndarray
    mean: Array
    sd: Array
    solved: Array

    def only(self, index: np.ndarray) -> Among:
        """Some of them."""
        return Among(self.which[index], self.mean[index], self.sd[index], self.solved[:, index])


class Partner(NamedTuple):
    """Evaluations of one of the data's configurations on p realizations: which it is, their variances (p,), covariances with the
    target at k places (k, p), and L^-1 times those with the data (n, p)."""

    which: int
    variance: Array
    elsewhere: Array
    solved: Array


def places_of(rows: Array) -> list[bytes]:
    """Rows (n, d) up to rounding: equal configurations are equal."""
    return [row.tobytes() for row in np.round(rows, 9) + 0.0]


@dataclass(frozen=True, eq=False)
class HierarchicalPosterior:
    """Predictions of the target and of any realization at one theta. Make it with `HierarchicalGP.posterior`.

    Args:
        model: the model and its data.
        theta: (k,) hyperparameters.
        rows: (n, d) of the data, running trials behind them, as for all that follow.
        X: (n, C) their numbers.
        paths: n paths.
        seeds: (n,) realizations.
        places: n configurations, see `places_of`.
        L: (n, n) the factor of their covariance.
        alpha: (n,) 0 for rows without a value.
    """

    model: HierarchicalGP
    theta: Array
    rows: Array
    X: Array
    paths: list[Path]
    seeds: np.ndarray
    places: list[bytes]
    L: Array
    alpha: Array

    @property
    def noise(self) -> float:
        return float(np.exp(self.theta[_NOISE]))

    @property
    def target(self) -> float:
        return float(np.exp(self.theta[_TARGET]))

    @property
    def deviation(self) -> float:
        return float(np.exp(self.theta[_DEVIATION]))

    @property
    def offset(self) -> float:
        return float(np.exp(self.theta[_OFFSET]))

    @cached_property
    def _inverse(self) -> Array:
        """(n, n) of L."""
        return linalg.solve_lower(self.L, np.eye(len(self.X)))

    @cached_property
    def _members(self) -> dict[int, np.ndarray]:
        """By realization, the numbers of its rows."""
        return {int(s): np.flatnonzero(self.seeds == s) for s in np.unique(self.seeds)}

    @cached_property
    def _index(self) -> dict[bytes, list[int]]:
        """By configuration, the numbers of its rows."""
        index: dict[bytes, list[int]] = {}
        for k, place in enumerate(self.places):
            index.setdefault(place, []).append(k)
        return index

    @property
    def _prior(self) -> float:
        """The prior variance of the target."""
        return LEVEL + self.target + self.model.share * (self.deviation + self.offset + self.noise)

    def _of_g(self, R: Array) -> Array:
        """The covariance of g, which is that of evaluations on different realizations, where the correlation is R."""
        return LEVEL + self.target * R

    def _of_target(self, R: Array, same: np.ndarray | bool) -> Array:
        """The covariance of the target with itself or with an evaluation, where the correlation is R; `same` place or not."""
        common = self._of_g(R)
        if not self.model.share:
            return common
        return np.asarray(common + self.model.share * (self.deviation * R + self.offset + self.noise * same))

    def covariance(self, R: Array, same: np.ndarray) -> Array:
        """The covariance of evaluations without noise, where the correlation is R, on the `same` realization or not."""
        return self._of_g(R) + self.deviation * same * R + self.offset * same

    def _correlation(self, path: Path, numbers: Array) -> Array:
        """(n, m) R between the data and rows of one path."""
        alike = np.array([p == path for p in self.paths], dtype=bool)[:, None]
        return self.model.correlation(self.theta, self.X, numbers, alike)

    def _same_place(self, rows: Array) -> np.ndarray | bool:
        """(n, m) whether the data are at rows (m, d); only where it matters."""
        if not self.model.share:
            return False
        same = np.zeros((len(self.places), len(rows)), dtype=bool)
        for j, place in enumerate(places_of(rows)):
            same[self._index.get(place, []), j] = True
        return same

    def predict(self, path: Path, rows: Array) -> Prediction:
        """Mean and sd of the target at rows (m, d) of one path."""
        k = self._of_target(self._correlation(path, self.model.inputs(rows)), self._same_place(rows))
        w = linalg.solve_lower(self.L, k)
        return Prediction(self.alpha @ k, np.sqrt(np.maximum(self._prior - np.sum(w**2, axis=0), _TINY)))

    def among(self, which: np.ndarray) -> Among:
        """What `evaluations` needs to know of the target at some of the data."""
        R = self.model.correlation(
            self.theta, self.X, self.X[which], self.model._on_same_path(self.paths, [self.paths[k] for k in which.tolist()])
        )
        k = self._of_target(R, self._same_place(self.rows[which]))
        solved = self._inverse @ k
        return Among(which, self.alpha @ k, np.sqrt(np.maximum(self._prior - np.sum(solved**2, axis=0), _TINY)), solved)

    def partner(self, which: int, seeds: Sequence[int], among: Among) -> Partner:
        """What `evaluations` needs to know of those of one of the data's configurations."""
        path, row = self.paths[which], self.rows[which][None]
        joint, R = self.evaluations(path, row, seeds, among), self._correlation(path, self.X[which][None])
        own = self.deviation * R + self.offset
        same = self.seeds[:, None] == np.array(seeds, dtype=int)[None, :]
        return Partner(which, joint.variance[0], joint.elsewhere[:, 0], self._inverse @ (self._of_g(R) + own * same))

    def evaluations(
        self, path: Path, rows: Array, seeds: Sequence[int], among: Among | None = None, partner: Partner | None = None
    ) -> Joint:
        """Target and evaluations on some realizations at rows (m, d) of one path.

        A realization's rows of L^-1 are enough for what it adds to the target's solve, so that all of them together cost no
        more than one.
        """
        R, same = self._correlation(path, self.model.inputs(rows)), self._same_place(rows)
        k = self._of_target(R, same)
        own = self.deviation * R + self.offset
        w = self._inverse @ k
        v = self._inverse @ self._of_g(R) if self.model.share else w
        base, between = np.sum(v**2, axis=0), np.sum(v * w, axis=0)
        prior = LEVEL + self.target + self.deviation + self.offset + self.noise
        variance = np.empty((len(rows), len(seeds)))
        covariance = np.empty((len(rows), len(seeds)))
        which = np.empty(0, dtype=int) if among is None else among.which
        before = self._of_target(R[which], same if isinstance(same, bool) else same[which])
        if among is not None:
            before = before - among.solved.T @ v
        elsewhere = np.empty((len(which), len(rows), len(seeds)))
        paired, crossed = np.zeros_like(variance), np.zeros_like(variance)
        if partner is not None:
            near = R[partner.which]
            paired[:] = (self._of_g(near) + self.deviation * near + self.offset)[:, None] - v.T @ partner.solved
            here = same if isinstance(same, bool) else same[partner.which]
            crossed[:] = self._of_target(near, here)[:, None] - w.T @ partner.solved
        for j, seed in enumerate(seeds):
            index = self._members.get(int(seed))
            if index is None:
                variance[:, j], covariance[:, j] = prior - base, self._prior - between
                elsewhere[:, :, j] = before
                continue
            extra = self._inverse[:, index] @ own[index]
            variance[:, j] = prior - base - 2.0 * np.sum(v * extra, axis=0) - np.sum(extra**2, axis=0)
            covariance[:, j] = self._prior - between - np.sum(w * extra, axis=0)
            if among is not None:
                elsewhere[:, :, j] = before - among.solved.T @ extra
            if partner is not None:
                paired[:, j] -= partner.solved[:, j] @ extra
        sd = np.sqrt(np.maximum(self._prior - np.sum(w**2, axis=0), _TINY))
        return Joint(self.alpha @ k, sd, np.maximum(variance, self.noise), covariance, elsewhere, paired, crossed)

    def joint(self, rows: Array, paths: Sequence[Path]) -> tuple[Array, Array]:
        """Mean (m,) and covariance (m, m) of the target at rows (m, d) of any paths."""
        numbers = self.model.inputs(rows)
        R = self.model.correlation(self.theta, self.X, numbers, self.model._on_same_path(self.paths, paths))
        cross = self._of_target(R, self._same_place(rows))
        w = self._inverse @ cross
        prior = self.model.correlation(self.theta, numbers, numbers, self.model._on_same_path(paths, paths))
        return self.alpha @ cross, self._of_target(prior, np.eye(len(rows), dtype=bool)) - w.T @ w

    def target_means(self) -> Array:
        """(n,) posterior means of the target at the observations."""
        R = self.model.correlation(self.theta, self.model.X, self.model.X, self.model._alike)
        return np.asarray(self.alpha[: len(self.model.y)] @ self._of_target(R, self.model.same_place))

    def condition(self, rows: Array, paths: Sequence[Path], seeds: Sequence[int] = ()) -> HierarchicalPosterior:
        """This posterior with rows (m, d) whose values are taken to be their means; of unseen realizations if none are given."""
        if not len(rows):
            return self
        numbers, new = self.model.inputs(rows), np.array(list(seeds) or [FRESH - k for k in range(len(rows))], dtype=int)
        alike = self.model._on_same_path(self.paths, paths)
        cross = self.covariance(self.model.correlation(self.theta, self.X, numbers, alike), self.seeds[:, None] == new[None, :])
        inner = self.model.correlation(self.theta, numbers, numbers, self.model._on_same_path(paths, paths))
        corner = self.covariance(inner, new[:, None] == new[None, :]) + self.noise * np.eye(len(rows))
        return replace(
            self,
            L=linalg.append(self.L, cross, corner),
            rows=np.vstack([self.rows, rows]),
            X=np.vstack([self.X, numbers]),
            paths=[*self.paths, *paths],
            seeds=np.concatenate([self.seeds, new]),
            places=[*self.places, *places_of(rows)],
            alpha=np.append(self.alpha, np.zeros(len(rows))),
        )
