"""The Mondrian kernel (Balog et al. 2016): the share of random partitions that leave two points in one cell.

A Mondrian process cuts a box at exponential times with rate the sum of its sides, across a side chosen in proportion to its
length, at a uniform place; each half goes on by itself until the lifetime is over. Two points stay together with probability
exp(-lifetime |x - x'|_1), so that the kernel converges to the Laplace kernel of length-scale 1 / lifetime (eq. (11) of Levesque
et al. 2017). Length-scales per coordinate are a stretched box and lifetime one.

A partition of a box in many dimensions has far too many cells to be stored. Here a cell's cut is computed from the cell's name by
a hash, whenever some point needs it: points are sent down all partitions at once, level by level, and a point's cell is the
same whichever other points are asked about.

Notation: n points, d coordinates, m partitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from raytree.gp.linalg import Array

Cells = NDArray[np.uint64]


def cells(points: Array, sides: Array, m: int, seed: int) -> Cells:
    """(n, m) the names of the cells that points (n, d) of the box [0, sides] are in; lifetime one."""
    n, d = points.shape
    names = np.tile(_mix(np.arange(m, dtype=np.uint64) + np.uint64(_mix_int(seed))), (n, 1)).reshape(-1)
    x = np.repeat(points, m, axis=0)
    low, high = np.zeros((n * m, d)), np.tile(sides.astype(float), (n * m, 1))
    left = np.ones(n * m)  # lifetime
    alive = np.arange(n * m)
    while len(alive):  # ends with probability one
        widths = high[alive] - low[alive]
        rates = widths.sum(axis=1)
        left[alive] -= -np.log(_uniform(names[alive], 1)) / np.maximum(rates, 1e-300)
        going = left[alive] > 0
        alive, widths, rates = alive[going], widths[going], rates[going]
        name = names[alive]
        reached = np.cumsum(widths, axis=1)
        side = np.minimum((reached < (_uniform(name, 2) * rates)[:, None]).sum(axis=1), d - 1)
        rows = np.arange(len(alive))
        cut = low[alive, side] + _uniform(name, 3) * widths[rows, side]
        right = x[alive, side] > cut
        low[alive[right], side[right]] = cut[right]
        high[alive[~right], side[~right]] = cut[~right]
        names[alive] = _mix(name + np.where(right, np.uint64(5), np.uint64(4)))
    return names.reshape(n, m)


def kernel(a: Cells, b: Cells) -> Array:
    """(n, k) the share of partitions in which points with cells a (n, m) and b (k, m) are together."""
    found: Array = np.mean(a[:, None, :] == b[None, :, :], axis=-1)
    return found


def _mix(x: Cells) -> Cells:
    """A 64-bit hash (the finaliser of SplitMix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _mix_int(seed: int) -> int:
    return int(_mix(np.array([seed % 2**63], dtype=np.uint64))[0]) // 2


def _uniform(names: Cells, use: int) -> Array:
    """(k,) numbers in (0, 1), one for each name and use."""
    with np.errstate(over="ignore"):
        mixed = _mix(names * np.uint64(8) + np.uint64(use))
    return ((mixed >> np.uint64(11)).astype(float) + 0.5) / 2.0**53
