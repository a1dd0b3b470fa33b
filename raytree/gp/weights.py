"""The posterior of the weights c of a Gaussian process, and what single paths see of it (see `gp.posterior`).

Only weights that some row has touched are in the factor of Lambda; the others keep their prior.

Notation: D weights, k of them touched, D_p on path p.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.linalg import Array
from raytree.gp.process import FeatureMap, Key, Process


class Where(NamedTuple):
    """For the features of a path: their places among the touched weights, which features those are, and the other ones."""

    places: np.ndarray
    inside: np.ndarray
    outside: np.ndarray


class PathWeights(NamedTuple):
    """The posterior of the D_p weights of one path: their means, and R with R'R their covariance."""

    mean: Array  # (D_p,)
    root: Array  # (k, D_p), a row for every weight that was touched and for every one of the path that was not


@dataclass(frozen=True, eq=False)
class Weights:
    """The posterior of the weights that some row has touched; the others keep their prior.

    Args:
        columns: (k,) which weights were touched, of all D.
        position: (D,) their places in `columns`, -1 for the others.
        L: (k, k) the factor of Lambda.
        mean: (k,) m_c.
    """

    columns: np.ndarray
    position: np.ndarray
    L: Array
    mean: Array
    _known: dict[Key, Where] = field(default_factory=dict)
    _on: dict[Key, PathWeights] = field(default_factory=dict, init=False)

    def on(self, process: Process, path: Key) -> PathWeights:
        """The weights of one path alone; kept, since gradients ask for them again and again."""
        found = self._on.get(path)
        if found is None:
            places, inside, outside = self.where(process.features, path)
            columns = process.features.on(path).columns
            mean, root = np.zeros(len(columns)), np.zeros((len(self.columns) + len(outside), len(columns)))
            mean[inside] = self.mean[places]
            unit = np.zeros((len(self.columns), len(places)))
            unit[places, np.arange(len(places))] = 1.0
            root[: len(self.columns), inside] = linalg.solve_lower(self.L, unit)
            root[len(self.columns) + np.arange(len(outside)), outside] = np.sqrt(process.variance[columns[outside]])
            found = self._on[path] = PathWeights(mean, root)
        return found

    def where(self, features: FeatureMap, path: Key) -> Where:
        """Where the features of a path are."""
        found = self._known.get(path)
        if found is None:
            place = self.position[features.on(path).columns]
            found = self._known[path] = Where(place[place >= 0], np.flatnonzero(place >= 0), np.flatnonzero(place < 0))
        return found

    def spread(self, places: np.ndarray, t: Array) -> Array:
        """(k, m) inv(L) t for features t (m, |places|) of some of the weights."""
        full = np.zeros((len(self.columns), len(t)))
        full[places] = t.T
        return linalg.solve_lower(self.L, full)
