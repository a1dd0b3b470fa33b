"""Where the search has looked least: a guard against a model that believes too early that there is nothing left to find.

A leaf that is bad wherever it was tried looks hopeless beside the others, even if it holds the best point of all. Some
suggestions therefore go to the path with the fewest trials for its dimension (ours): while a path has hardly been tried, as
far from its trials as possible; later to wherever a search of that path alone would go. What the other paths have taught has
no say in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from scipy.stats import qmc

from raytree.gp.linalg import Array
from raytree.space import Categorical, Path, Space

_POINTS = 256


def least_tried(space: Space, taken: Iterable[Path], paths: Sequence[Path], chance: Mapping[Path, float]) -> Path | None:
    """The path with the fewest trials for its dimension, or None where no path has anything to vary.

    Args:
        space: the search space.
        taken: the paths of all trials, whatever became of them.
        paths: where to look.
        chance: the log of some paths' chance to give a valid value.
    """
    counts = Counter(taken)

    def density(path: Path) -> float:
        return float((counts[path] + 1) / ((1 + len(space.free(path))) ** 2 * np.exp(chance.get(path, 0.0))))

    return min((path for path in paths if space.free(path)), key=density, default=None)


def farthest(space: Space, path: Path, rows: Array, rng: np.random.Generator) -> Array:
    """(d,) a row of a path as far as possible from the rows (n, d) that are taken there."""
    free = np.array(space.free(path))
    candidates = space.on_path(path, qmc.Sobol(space.d, scramble=True, rng=rng).random(_POINTS))
    if not len(rows):
        return np.asarray(candidates[0])
    categorical = np.array([isinstance(space.parameters[i].domain, Categorical) for i in free])
    difference = np.abs(candidates[:, None, free] - rows[None][:, :, free])
    difference[..., categorical] = difference[..., categorical] > 1e-9
    nearest = np.min(np.sum(difference**2, axis=-1), axis=1)
    return np.asarray(candidates[int(np.argmax(nearest))])
