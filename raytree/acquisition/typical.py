"""How far a row is out in the corners of its path's box.

In many dimensions nearly all corners are far from every trial, and a Gaussian process knows least there: a search spends its
first dozens of trials on configurations with most of their parameters at one end or the other, which hardly ever are what
anybody wants. A random row has few coordinates at an end. So what a row is worth is discounted by how much less typical it is
than random rows are, less and less as trials come in (ours; benchmarks/README.md): one coordinate of two at its end is free,
three of ten.

Notation: u a coordinate in the unit interval, out(u) = -log(LEAST + (1 - LEAST) 4 u (1 - u)), which is 0 in the middle; the
excess of a row is the sum of out(u) over its k numeric coordinates beyond what random rows have: k times the mean of out(u) and
two standard deviations of the sum, or one coordinate at its end if that is more.
"""

from __future__ import annotations

import numpy as np

from raytree.gp.linalg import Array
from raytree.space import Categorical, Path, Space

LEAST = 0.1
MEAN, VARIANCE = 0.4690, 0.2869
"""Of out(u) for u uniform in the unit interval."""
DISCOUNT = 30.0
"""Of a unit of excess, in nats of improvement, after one trial; half of it after two, and so on."""


class Typical:
    """The discount of rows.

    Args:
        space: whose rows they are.
        trials: how many there have been; infinitely many: no discount.
    """

    def __init__(self, space: Space, trials: float) -> None:
        self._space, self._rate = space, DISCOUNT / max(trials, 1)
        self._paths: dict[Path, tuple[np.ndarray, float]] = {}

    def _on(self, path: Path) -> tuple[np.ndarray, float]:
        """The numeric coordinates that vary on a path, and how far out random rows are."""
        if path not in self._paths:
            free = [i for i in self._space.free(path) if not isinstance(self._space.parameters[i].domain, Categorical)]
            k = len(free)
            self._paths[path] = np.array(free, dtype=int), max(MEAN * k + 2.0 * np.sqrt(VARIANCE * k), -np.log(LEAST))
        return self._paths[path]

    def discount(self, path: Path, rows: Array) -> Array:
        """(m,) of rows (m, d), at most 0."""
        places, usual = self._on(path)
        out = -np.log(_inside(rows[:, places])).sum(axis=1)
        return np.asarray(-self._rate * np.maximum(out - usual, 0.0))

    def slope(self, path: Path, row: Array) -> tuple[float, Array]:
        """The discount of one row (d,), and its derivatives (d,)."""
        places, usual = self._on(path)
        by_row, u = np.zeros(len(row)), row[places]
        inside = _inside(u)
        excess = -float(np.add.reduce(np.log(inside))) - usual
        if excess <= 0.0:
            return 0.0, by_row
        by_row[places] = self._rate * (1.0 - LEAST) * 4.0 * (1.0 - 2.0 * u) / inside
        return -self._rate * excess, by_row


def _inside(u: Array) -> Array:
    return np.asarray(LEAST + (1.0 - LEAST) * 4.0 * u * (1.0 - u))
