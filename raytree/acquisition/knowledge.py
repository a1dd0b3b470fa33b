"""Knowledge gradient: by how much one evaluation is expected to improve what would be recommended (Frazier et al. 2009).

What is recommended is the configuration with the lowest posterior mean. An evaluation moves all those means together: after
it they are a_i + b_i Z, with a standard normal Z, the mean a_i before and b_i = Cov(target_i, evaluation) / sd(evaluation). So
the gain is

    E[max_i (b_i Z - a_i)] - max_i (-a_i)

the expected height of the upper envelope of lines above where it is at Z = 0. The envelope's corners say it exactly: a corner
at z_j where the slope grows by s_j adds s_j h(-|z_j|), h(z) = phi(z) + z Phi(z) (Frazier et al. 2009, eq. 14). Every term is
positive, so that its logarithm is as exact as that of expected improvement, which it is where only one line has a slope.

With common random numbers (Pearce, Poloczek and Branke 2019) an evaluation is of a configuration on a seed, and the target is
the mean over seeds: what a known seed, a fresh one, a second seed for the leader or a new configuration is worth, all come
from the same formula.

Notation: k lines, m rows, p realizations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from raytree.acquisition.improvement import log_h
from raytree.gp.linalg import Array
from raytree.models.hierarchical import Among, Joint, Partner, places_of
from raytree.space import Path

REPEATS = (1, 4)
"""How many evaluations of one configuration in a row are considered."""
CONTENDERS = 12
"""Configurations that may come to be recommended: so many with the lowest mean, less a deviation."""
REACH = 6.0
"""In deviations: what is further behind than any evaluation is likely to move it is no contender."""
NOTHING = -1e9
"""The log of a gain that is none, finite so that it can be climbed from."""
_NO_VARIANCE = 1e-18
_NONE = 1e-100
_PARALLEL = 1e-12
"""Slopes closer than this, relative to the largest, are equal."""


def log_gain(heights: Array, slopes: Array) -> Array:
    """(...) log(E[max_i (heights_i + slopes_i Z)] - max_i heights_i), exactly; -inf where all slopes are equal.

    Args:
        heights: (..., k) at Z = 0.
        slopes: (..., k).
    """
    heights, slopes = np.broadcast_arrays(np.asarray(heights, dtype=float), np.asarray(slopes, dtype=float))
    shape, k = heights.shape[:-1], heights.shape[-1]
    if k < 2 or heights.size == 0:
        return np.full(shape, -np.inf)
    corners, steps = _envelope(heights.reshape(-1, k).T, slopes.reshape(-1, k).T)
    j, i = np.nonzero(steps > 0.0)
    terms = np.full(steps.shape, -np.inf)
    terms[j, i] = np.log(steps[j, i]) + log_h(-np.abs(corners[j, i]))
    return np.asarray(np.logaddexp.reduce(terms, axis=0).reshape(shape))


def _envelope(heights: Array, slopes: Array) -> tuple[Array, Array]:
    """Corners (k - 1, r) of the upper envelopes of r sets of k lines (k, r), and by how much the slope grows at each; 0 for none.

    Lines are added in order of slope; one that is nowhere on top any more is taken off again (Frazier et al. 2009, algorithm
    1), for all sets at a time.
    """
    k, r = heights.shape
    order = np.lexsort((heights, slopes), axis=0)
    a, b = np.take_along_axis(heights, order, axis=0), np.take_along_axis(slopes, order, axis=0)
    tiny = _PARALLEL * np.maximum(np.abs(slopes).max(axis=0), 1e-300)
    every = np.arange(r)
    on_a, on_b = np.zeros((k, r)), np.zeros((k, r))  # the lines on the envelope so far
    on_a[0], on_b[0] = a[0], b[0]
    begins = np.full((k, r), -np.inf)  # where each is on top from
    top = np.zeros(r, dtype=int)
    for i in range(1, k):
        left, place = every, top.copy()  # the line goes behind the one in this place
        at = np.empty(r)
        while len(left):
            below = place[left]
            rise, gap = b[i, left] - on_b[below, left], on_a[below, left] - a[i, left]
            apart = rise > tiny[left]
            corner = np.where(apart, gap / np.where(apart, rise, 1.0), np.where(gap > 0.0, np.inf, -np.inf))
            at[left] = corner
            hidden = corner <= begins[below, left]
            place[left[hidden]] -= 1
            left = left[hidden & (below > 0)]
        put = np.flatnonzero(at < np.inf)
        top = np.where(at < np.inf, place + 1, top)
        on_a[top[put], put], on_b[top[put], put], begins[top[put], put] = a[i, put], b[i, put], at[put]
    there = np.arange(1, k)[:, None] <= top
    return np.where(there, begins[1:], 0.0), np.where(there, np.diff(on_b, axis=0), 0.0)


def log_knowledge_gradient(means: Array, moves: Array, mean: Array, move: Array) -> Array:
    """(m, p) the log of how much the lowest mean is expected to fall by an evaluation of each row on each realization.

    Args:
        means: (k,) of the target where it may be recommended already.
        moves: (k, m, p) the standard deviation, with its sign, by which each evaluation would move each of them.
        mean: (m,) of the target at the rows, which may be recommended once they are evaluated.
        move: (m, p) the same at the rows themselves.
    """
    return log_rate(means, moves, mean, move, np.ones_like(move), (1,))


def log_rate(
    means: Array, moves: Array, mean: Array, move: Array, correlation: Array, repeats: tuple[int, ...] = REPEATS
) -> Array:
    """(m, p) the log of the largest gain per evaluation that several evaluations of a row in a row would have.

    One evaluation may be worth nothing where five would be worth much: with noise, gain is not concave in their number, and
    a search that looks one evaluation ahead never begins (Frazier and Powell 2010). So each row is worth the best average over
    a few of them: r evaluations on as many seeds move means by 1 / sqrt(rho^2 + (1 - rho^2) / r) times as much as one.

    Args:
        correlation: (m, p) rho of the evaluation and the target at its row; the others as in `log_knowledge_gradient`.
        repeats: the numbers r.
    """
    leader = int(np.argmin(means))
    squared = np.minimum(correlation**2, 1.0)
    r = np.array(repeats, dtype=float)[:, None, None]
    more = 1.0 / np.sqrt(squared + (1.0 - squared) / r)  # (R, m, p)
    apart = np.abs(moves - moves[leader]).reshape(len(means), -1).max(axis=1, initial=0.0) * more.max(initial=1.0)
    near = means - means[leader] <= REACH * apart
    near[leader] = True
    lines = np.concatenate([np.moveaxis(moves[near], 0, -1), move[..., None]], axis=-1)  # (m, p, k)
    low = np.concatenate([np.broadcast_to(means[near], (*move.shape, int(near.sum()))), _wide(mean, move)], axis=-1)
    gain = log_gain(-low, more[..., None] * lines)
    over = np.maximum(means[leader] - mean, 0.0)[:, None]  # a row that is not evaluated cannot be recommended yet
    with np.errstate(divide="ignore"):
        gain = np.logaddexp(gain, np.log(over))
    return np.asarray(np.max(gain - np.log(r), axis=0))


def log_rate_of_pairs(
    means: Array, moves: Array, mean: Array, move: Array, correlation: Array, repeats: tuple[int, ...] = REPEATS
) -> Array:
    """(m, p) a lower bound of `log_rate` that is quick: the largest gain of any contender over the leader, as if there were no
    others. Arguments as there."""
    leader = int(np.argmin(means))
    others = np.arange(len(means)) != leader
    apart = np.abs(np.concatenate([moves[others], move[None]]) - moves[leader])  # (k, m, p)
    behind = np.concatenate(
        [np.broadcast_to((means[others] - means[leader])[:, None], (len(means) - 1, len(mean))), mean[None] - means[leader]]
    )
    squared = np.minimum(correlation**2, 1.0)
    best = np.full(move.shape, -np.inf)
    for r in repeats:
        sd = np.maximum(apart / np.sqrt(squared + (1.0 - squared) / r), _NONE)
        xi = -behind[..., None] / sd
        about = np.log(sd) + np.where(xi < 0.0, -0.5 * xi**2 - 2.0 * np.log1p(np.abs(xi)), np.log1p(np.abs(xi)))  # log_h, roughly
        k = np.argmax(about, axis=0)
        at = (k, *np.indices(k.shape))
        best = np.maximum(best, np.log(sd[at]) + log_h(xi[at]) - np.log(r))
    return best


def _wide(mean: Array, move: Array) -> Array:
    """(m, p, 1) from (m,)."""
    return np.broadcast_to(mean[:, None, None], (*move.shape, 1))


class Evaluations(Protocol):
    """A posterior of a target and of evaluations of it on realizations."""

    @property
    def places(self) -> Sequence[bytes]: ...
    def among(self, which: np.ndarray) -> Among: ...
    def partner(self, which: int, seeds: Sequence[int], among: Among) -> Partner: ...
    def evaluations(
        self, path: Path, rows: Array, seeds: Sequence[int], among: Among | None = None, partner: Partner | None = None
    ) -> Joint: ...


def contenders(posterior: Evaluations) -> Among:
    """The configurations that were evaluated, or are running, and are best or may be."""
    first = {place: k for k, place in reversed(list(enumerate(posterior.places)))}
    every = posterior.among(np.array(sorted(first.values()), dtype=int))
    hopeful = np.argsort(every.mean - every.sd, kind="stable")[:CONTENDERS]
    return every.only(np.union1d(hopeful, [int(np.argmin(every.mean))]))


class Knowledge:
    """What evaluations are worth: logarithms, (m, p) for rows (m, d) of one path on p realizations.

    Beside evaluations of a row alone there are pairs, with the leader on the same realization (Pearce et al. 2019, section 5):
    the first evaluation on a fresh seed says little, since nobody knows whether it was the seed or the configuration; two say
    which of them is better there. A pair counts by its difference, and half of its gain for each.

    Args:
        posterior: of target and evaluations, running trials included.
        seeds: the p realizations, as the posterior knows them.
        taken: by place, the positions in `seeds` of realizations that it was tried on: to try again says nothing.
    """

    def __init__(self, posterior: Evaluations, seeds: Sequence[int], taken: Mapping[bytes, Sequence[int]]) -> None:
        self._posterior, self._seeds, self._taken = posterior, seeds, taken
        self.contenders = contenders(posterior)
        leader = int(self.contenders.which[np.argmin(self.contenders.mean)])
        self._leader = posterior.places[leader]
        self._partner = posterior.partner(leader, seeds, self.contenders)

    def exact(self, path: Path, rows: Array) -> Array:
        """The gain per evaluation, see `log_rate`."""
        return self._valued(log_rate, path, rows)

    def quick(self, path: Path, rows: Array) -> Array:
        """A lower bound of it, to search with."""
        return self._valued(log_rate_of_pairs, path, rows)

    def _valued(self, rate: Callable[..., Array], path: Path, rows: Array) -> Array:
        joint = self._posterior.evaluations(path, rows, self._seeds, self.contenders, self._partner)
        sd = np.sqrt(joint.variance)
        values = rate(self.contenders.mean, joint.elsewhere / sd, joint.mean, joint.covariance / sd, joint.correlation(), REPEATS)
        sd = np.sqrt(np.maximum(joint.variance + self._partner.variance - 2.0 * joint.paired, _NO_VARIANCE))
        moves, move = (joint.elsewhere - self._partner.elsewhere[:, None]) / sd, (joint.covariance - joint.crossed) / sd
        pairs = rate(self.contenders.mean, moves, joint.mean, move, np.ones_like(move), (1,)) - np.log(2.0)
        pairs[:, list(self._taken.get(self._leader, ()))] = NOTHING
        places = places_of(rows)
        pairs[[place == self._leader for place in places]] = NOTHING
        values = np.maximum(values, pairs)
        for j, place in enumerate(places):
            values[j, list(self._taken.get(place, ()))] = NOTHING
        found: Array = np.maximum(values, NOTHING)
        return found
