"""What a trial costs, learnt from the trials' own cost: its logarithm, linear in the log-fidelity, the path and its parameters.

Simple models of cost predict well (Lee et al. 2020, arXiv 2003.10870): ridge regression, in which a path and a parameter
start from no effect and the fidelity from proportionality.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raytree.gp.linalg import Array
from raytree.space import Path, Space

RIDGE = 1.0
"""Weight of the prior, in observations."""


class CostModel:
    """The model on some trials.

    Args:
        space: the search space.
        rows: (n, d) rows.
        paths: n paths.
        fractions: (n,) of a complete evaluation.
        costs: (n,) positive.
    """

    def __init__(self, space: Space, rows: Array, paths: Sequence[Path], fractions: Array, costs: Array) -> None:
        self.space = space
        self._number = {path: k for k, path in enumerate(dict.fromkeys(paths))}
        self._mean = float(np.mean(np.log(costs) - np.log(fractions))) if len(costs) else 0.0
        features = self._features(rows, paths, fractions)
        target = np.log(costs) - np.log(fractions) - self._mean
        precision = features.T @ features + RIDGE * np.eye(features.shape[1])
        self._weights = np.linalg.solve(precision, features.T @ target)

    def _features(self, rows: Array, paths: Sequence[Path], fractions: Array) -> Array:
        marks = np.zeros((len(rows), len(self._number)))
        for k, path in enumerate(paths):
            if path in self._number:
                marks[k, self._number[path]] = 1.0
        return np.column_stack([np.log(fractions), marks, np.nan_to_num(rows[:, : self.space.d] - 0.5)])

    def log_cost(self, rows: Array, paths: Sequence[Path], fractions: Array) -> Array:
        """(m,) the log of the expected cost at rows (m, d), for fractions (m,) of a complete evaluation."""
        return self._mean + np.log(fractions) + self._features(rows, paths, fractions) @ self._weights
