"""Local search over one-exchange neighbours (Hutter et al. 2011; Levesque et al. 2017, eqs. (6) and (7)).

A neighbour differs in one active parameter: a number by a step either way, a category or an integer by any of a few other values.
Changing a decision is a neighbour too: what it brings to life begins at its default. Every start goes to its best neighbour as
long as that is better; all starts move together, so that their neighbours are scored at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from raytree.acquisition.maximize import neighbours
from raytree.gp.linalg import Array
from raytree.models.inputs import DEFAULT
from raytree.space import Space

STEPS = (0.2, 0.05, 0.01)
"""Of a continuous parameter, in units; the paper does not say."""
MAX_MOVES, GAIN = 100, 1e-6


def exchanges(space: Space, row: Array) -> Array:
    """(k, d) all neighbours of a row (d,)."""
    changes: list[tuple[int, float]] = []
    for i in np.flatnonzero(~np.isnan(row)).tolist():
        if math.isinf(space.parameters[i].domain.size):
            here = float(row[i])
            ends = {min(1.0, max(0.0, here + sign * step)) for step in STEPS for sign in (-1, 1)}
            changes += [(i, unit) for unit in sorted(ends - {here})]
        else:
            changes += [(i, unit) for unit in neighbours(space, i, float(row[i]))]
    units = np.repeat(np.where(np.isnan(row), DEFAULT, row)[None], len(changes), axis=0)
    for k, (i, unit) in enumerate(changes):
        units[k, i] = unit
    return space.mask(units)


def climb(space: Space, starts: Array, score: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Where steepest ascent ends from starts (s, d): rows (s, d) and their scores (s,)."""
    rows, values = starts.copy(), score(starts)
    moving = list(range(len(rows)))
    for _ in range(MAX_MOVES):
        around = [exchanges(space, rows[k]) for k in moving]
        counts = [len(part) for part in around]
        if not sum(counts):
            break
        scores = np.split(score(np.concatenate(around)), np.cumsum(counts)[:-1])
        still = []
        for k, candidates, found in zip(moving, around, scores, strict=True):
            best = int(np.argmax(found)) if len(found) else -1
            if best >= 0 and found[best] > values[k] + GAIN:
                rows[k], values[k] = candidates[best], found[best]
                still.append(k)
        moving = still
        if not moving:
            break
    return rows, values
