"""Where the search has looked least: a guard against a model that believes too early that there is nothing left to find.

A leaf that is flat wherever it was tried looks hopeless to a Gaussian process, even if it holds a narrow optimum. Some
suggestions therefore go to the path with the fewest points for its dimension, as far from them as possible (ours): while a
path has hardly been tried, and when the largest expected improvement has become negligible. No hyperparameter has a say in
where they go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import qmc

from raytree.gp.linalg import Array
from raytree.space import Categorical, Path, Space

_POINTS = 256


def least_known(
    space: Space,
    rows: Array,
    taken: Sequence[Path],
    paths: Sequence[Path],
    chance: dict[Path, float],
    rng: np.random.Generator,
) -> Array | None:
    """(d,) the row, or None where no path has anything to vary.

    Args:
        space: the search space.
        rows: (n, d) rows that are taken, whatever became of them.
        taken: their n paths.
        paths: where to look.
        chance: the log of some paths' chance to give a valid value.
        rng: of the candidates.
    """
    open_paths = [path for path in paths if space.free(path)]
    if not open_paths:
        return None
    counts = dict.fromkeys(open_paths, 0)
    for path in taken:
        if path in counts:
            counts[path] += 1
    path = min(open_paths, key=lambda p: (counts[p] + 1) / ((1 + len(space.free(p))) ** 2 * np.exp(chance.get(p, 0.0))))
    free = np.array(space.free(path))
    candidates = space.on_path(path, qmc.Sobol(space.d, scramble=True, rng=rng).random(_POINTS))
    here = rows[[k for k, p in enumerate(taken) if p == path]]
    if not len(here):
        return np.asarray(candidates[0])
    categorical = np.array([isinstance(space.parameters[i].domain, Categorical) for i in free])
    difference = np.abs(candidates[:, None, free] - here[None][:, :, free])
    difference[..., categorical] = difference[..., categorical] > 1e-9
    nearest = np.min(np.sum(difference**2, axis=-1), axis=1)
    return np.asarray(candidates[int(np.argmax(nearest))])
