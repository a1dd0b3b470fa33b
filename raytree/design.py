"""The initial design: space-filling points before there is anything to model.

Scrambled Sobol points, spread over the paths: where the design is at least as long as the number of paths, every path gets
one point before any gets two (as Jenatton et al. 2017, section 4, start), each path with a sequence of its own; where it is
shorter, one sequence over the whole cube. The k-th point depends on the seed and k alone.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from raytree.lazy import qmc
from raytree.space import Path, Space
from raytree.space.parameters import Array

LENGTH = 8
"""Points of a design: a model knows better from then on."""
FEW = 16
"""Up to so many paths, each gets a point."""
MAX_INITIAL = 32
"""Points of a design at most, whatever a method wants."""
_MAX_SOBOL = 21201  # scipy's tables end here


def default_length(space: Space, budget: int | None) -> int:
    """Eight points, or one per path where those are few; at most a third of a known budget."""
    wanted = space.n_paths if LENGTH < space.n_paths <= FEW else LENGTH
    return wanted if budget is None else max(1, min(wanted, budget // 3))


class Design:
    """The points of a design of known length.

    Args:
        space: the search space.
        length: how many points the design has.
        seed: of the scrambling and of the order of paths.
    """

    def __init__(self, space: Space, length: int, seed: int) -> None:
        self.space, self.length, self.seed = space, length, seed
        self._paths: list[Path] = []
        if 1 < space.n_paths <= length:
            paths = space.paths()
            order = np.random.default_rng([seed, 0]).permutation(len(paths))
            self._paths = [paths[k] for k in order]

    def row(self, k: int) -> Array:
        """(d,) row of the k-th point."""
        if not self._paths:
            rows = self.space.mask(self._sobol(0, k))
        else:
            which, turn = k % len(self._paths), k // len(self._paths)
            rows = self.space.on_path(self._paths[which], self._sobol(which + 1, turn))
        row: Array = rows[0]
        return row

    def _sobol(self, stream: int, k: int) -> Array:

        d = self.space.d
        rng = np.random.default_rng([self.seed, 1, stream])
        if not 0 < d <= _MAX_SOBOL:
            return rng.random((k + 1, d))[k:]
        engine = qmc.Sobol(d, scramble=True, rng=rng)
        if k:
            engine.fast_forward(k)
        return np.asarray(engine.random(1))


@cache
def _net(n: int, d: int) -> Array:

    points = np.asarray(qmc.Sobol(d, scramble=False).random(n))
    points.setflags(write=False)
    return points


def shifted_net(n: int, d: int, rng: np.random.Generator) -> Array:
    """(n, d) Sobol points, all shifted by the same random vector and wrapped around (Cranley and Patterson 1976).

    A thousandth of the time that scrambling takes: a suggestion needs many points, not the best ones.
    """
    if not 0 < d <= _MAX_SOBOL:
        return rng.random((n, d))
    return np.asarray((_net(n, d) + rng.random(d)) % 1.0)
