"""Which parameters matter: shares of the variance of what the model expects.

Over configurations drawn as the search would draw them (quasi-random), the expected value varies; a parameter's share *alone*
is the part that knowing it would explain (first-order Sobol index), its *total* share the part that would be left if all others
were known. In the whole space a decision is a parameter like any other, and its share is that of the choice of a branch.
Estimators: Saltelli et al. 2010, table 2, (b) and (f). Values are on the scale of the model, where tails and divergence
weigh little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import qmc
from raytree.report.belief import Belief, grouped
from raytree.space import Path

POINTS = 1024
"""Base points, a power of two; each parameter needs as many predictions again."""
MOST_PREDICTIONS = 40_000
"""With very many parameters there are fewer base points."""
FLAT = 1e-10
"""Variance, on the scale of the model, below which nothing matters."""


def shares(expected: Callable[[Array], Array], varied: Sequence[int], d: int, seed: int = 0) -> list[tuple[float, float]]:
    """For each varied column of the unit cube its share alone and its total share.

    Args:
        expected: from units (m, d) to expected values (m,).
        varied: the columns that can vary.
        d: the number of columns.
        seed: of the points.
    """
    if not varied:
        return []
    n = POINTS
    while n > 32 and n * (len(varied) + 2) > MOST_PREDICTIONS:
        n //= 2

    drawn = qmc.Sobol(2 * len(varied), scramble=True, rng=np.random.default_rng(seed)).random(n)
    a, b = np.full((n, d), 0.5), np.full((n, d), 0.5)
    a[:, varied], b[:, varied] = drawn[:, : len(varied)], drawn[:, len(varied) :]
    at_a, at_b = expected(a), expected(b)
    variance = float(np.var(np.concatenate([at_a, at_b])))
    if variance < FLAT:
        return [(0.0, 0.0)] * len(varied)
    middle = float(np.mean(np.concatenate([at_a, at_b])))
    found = []
    for column in varied:
        mixed = a.copy()
        mixed[:, column] = b[:, column]
        there = expected(mixed)
        alone = float(np.mean((at_b - middle) * (there - at_a))) / variance
        total = float(np.mean((at_a - there) ** 2)) / (2.0 * variance)
        found.append((min(max(alone, 0.0), 1.0), min(max(total, 0.0), 1.0)))
    return [(alone, max(alone, total)) for alone, total in found]


def on_branch(belief: Belief, path: Path) -> list[tuple[int, float, float]]:
    """(parameter, alone, total) of what can vary on a path."""
    space = belief.space
    free = list(space.free(path))
    found = shares(lambda units: belief.z(path, space.on_path(path, units))[0], free, space.d)
    return [(i, *share) for i, share in zip(free, found, strict=True)]


def everywhere(belief: Belief) -> list[tuple[int, float, float]]:
    """(parameter, alone, total) in the whole space, decisions among them."""
    space = belief.space

    def expected(units: Array) -> Array:
        rows = space.mask(units)
        out = np.empty(len(rows))
        for path, index in grouped(space.paths_of(rows)).items():
            out[index] = belief.z(path, rows[index])[0]
        return out

    found = shares(expected, range(space.d), space.d)
    return [(i, *share) for i, share in enumerate(found)]
