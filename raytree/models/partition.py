"""A regression tree whose split points belong to both sides (Assael et al. 2014, section 3.1).

Splits reduce the mean squared error most, eq. (1). The threshold of an ordered coordinate sits exactly on a data point, and all
points there go to both children: a gap between two leaves would be a place where neither knows anything. Categories, decisions
among them, split by equality and share nothing. A node may split on what is alive in all of its rows; each child is strictly
smaller than its parent and has at least `smallest` rows.

Notation: n rows (n, d) with NaN where a parameter is inactive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from raytree.gp.linalg import Array
from raytree.space import Categorical, Space

SMALLEST = 5


@dataclass
class Node:
    """A part of the space: its rows, and if it is split the parameter, the threshold (or category) and two children."""

    rows: np.ndarray  # (m,) indices
    depth: int
    parameter: int = -1
    at: float = np.nan
    equality: bool = False
    low: Node | None = None
    high: Node | None = None

    @property
    def is_leaf(self) -> bool:
        return self.low is None

    def children(self) -> tuple[Node, Node]:
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def walk(self) -> Iterator[tuple[Node, ...]]:
        """The paths from here to every leaf below."""
        if self.is_leaf:
            yield (self,)
            return
        for child in self.children():
            for path in child.walk():
                yield (self, *path)


def grow(space: Space, rows: Array, y: Array, smallest: int = SMALLEST) -> Node:
    """The tree of rows (n, d) with losses y (n,)."""
    categorical = [isinstance(p.domain, Categorical) and not p.domain.ordered for p in space.parameters]

    def split(node: Node) -> Node:
        found = best_split(rows[node.rows], y[node.rows], categorical, smallest)
        if found is not None:
            node.parameter, node.at, node.equality, low, high = found
            node.low = split(Node(node.rows[low], node.depth + 1))
            node.high = split(Node(node.rows[high], node.depth + 1))
        return node

    return split(Node(np.arange(len(y)), 0))


def best_split(
    rows: Array, y: Array, categorical: list[bool], smallest: int
) -> tuple[int, float, bool, np.ndarray, np.ndarray] | None:
    """The split of rows (m, d) with the largest reduction (1): parameter, place, whether by equality, rows of both sides."""
    m = len(y)
    if m < 2 * smallest - 1:
        return None
    best: tuple[float, int, float, bool] = (1e-12 * float(np.var(y)), -1, np.nan, False)
    for i in np.flatnonzero(~np.isnan(rows).any(axis=0)).tolist():
        gain, at = (_by_equality if categorical[i] else _by_threshold)(rows[:, i], y, smallest)
        if gain > best[0]:
            best = (gain, i, at, categorical[i])
    _, i, at, equality = best
    if i < 0:
        return None
    low, high = sides(rows[:, i], at, equality)
    return i, at, equality, np.flatnonzero(low), np.flatnonzero(high)


def sides(column: Array, at: float, equality: bool) -> tuple[np.ndarray, np.ndarray]:
    """Which values (m,) belong to the low and to the high side; those at a threshold to both."""
    if equality:
        return np.abs(column - at) < 1e-9, np.abs(column - at) >= 1e-9
    return column <= at, column >= at


def _by_threshold(column: Array, y: Array, smallest: int) -> tuple[float, float]:
    """The largest reduction and its threshold, by running sums over the sorted column."""
    m = len(y)
    order = np.argsort(column, kind="stable")
    x, z = column[order], y[order] - y.mean()
    first = np.searchsorted(x, x, side="left")  # rows below a value
    last = np.searchsorted(x, x, side="right")  # rows up to it
    sums, squares = (np.concatenate([[0.0], np.cumsum(v)]) for v in (z, z * z))
    n_low, n_high = last, m - first
    error_low = squares[last] - sums[last] ** 2 / n_low
    error_high = (squares[-1] - squares[first]) - (sums[-1] - sums[first]) ** 2 / n_high
    gain = (squares[-1] - error_low - error_high) / m
    allowed = (n_low >= smallest) & (n_high >= smallest) & (n_low < m) & (n_high < m)
    gain = np.where(allowed, gain, -np.inf)
    k = int(np.argmax(gain))
    return float(gain[k]), float(x[k])


def _by_equality(column: Array, y: Array, smallest: int) -> tuple[float, float]:
    best = (-np.inf, np.nan)
    total = float(np.sum((y - y.mean()) ** 2))
    for value in np.unique(column).tolist():
        low, high = (y[side] for side in sides(column, value, True))
        if min(len(low), len(high)) >= smallest:
            errors = sum(float(np.sum((part - part.mean()) ** 2)) for part in (low, high))
            best = max(best, ((total - errors) / len(y), value))
    return best


def leaf_numbers(root: Node, rows: Array) -> np.ndarray:
    """(m,) for every row the number of its leaf, in the order of `walk`; where it has no say, the larger child's."""
    numbers = np.zeros(len(rows), dtype=int)
    leaves = {id(path[-1]): k for k, path in enumerate(root.walk())}

    def send(node: Node, index: np.ndarray) -> None:
        if node.is_leaf or not len(index):
            numbers[index] = leaves.get(id(node), 0)
            return
        low, high = node.children()
        column = rows[index, node.parameter]
        left = np.where(np.isnan(column), len(low.rows) >= len(high.rows), sides(column, node.at, node.equality)[0])
        send(low, index[left])
        send(high, index[~left])

    send(root, np.arange(len(rows)))
    return numbers


def boxes(root: Node, d: int) -> list[Array]:
    """For every leaf, in the order of `walk`, its bounds (d, 2) in units; categories are left alone."""
    out = []
    for path in root.walk():
        box = np.tile([0.0, 1.0], (d, 1))
        for node, child in itertools.pairwise(path):
            if not node.equality:
                if child is node.low:
                    box[node.parameter, 1] = min(box[node.parameter, 1], node.at)
                else:
                    box[node.parameter, 0] = max(box[node.parameter, 0], node.at)
        out.append(box)
    return out
