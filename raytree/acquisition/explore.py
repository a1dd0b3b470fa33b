"""Where the search has looked least: a guard against a model that believes too early that there is nothing left to find.

A leaf that is bad wherever it was tried looks hopeless beside the others, even if it holds the best point of all. Some
suggestions therefore go to the path with the fewest trials for its dimension (ours): while a path has hardly been tried, as
far from its trials as possible; later to wherever a search of that path alone would go. What the other paths have taught has
no say in it. In the same way a category that was only tried in bad company looks bad, and a search that is content with
another one never finds out: those are tried in the best company there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

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


def exchanged(
    space: Space, path: Path, best: Array, rows: Array, enough: int, used: Callable[[Array], bool] = lambda row: False
) -> Array | None:
    """(d,) the best row (d,) of a path with one category exchanged for one that was hardly tried there, least of all first.

    Args:
        space: the search space.
        path: whose row it is.
        best: the row.
        rows: (n, d) all that were tried on the path.
        enough: categories with so many trials are left alone.
        used: whether a row was tried before.

    Returns:
        None if every category of every parameter was tried often enough, or next to the best.
    """
    found: list[tuple[int, int, Array]] = []
    for i in space.free(path):
        domain = space.parameters[i].domain
        if isinstance(domain, Categorical) and i not in space.cell_of(path):
            count = Counter(domain.first[int(domain.code(float(unit)))] for unit in rows[:, i])
            for code in domain.codes():  # the first of equal ones
                if count[code] < enough and code != domain.first[int(domain.code(float(best[i])))]:
                    row = best.copy()
                    row[i] = domain.unit(code)
                    found.append((count[code], len(found), row))
    return next((row for _, _, row in sorted(found, key=lambda entry: entry[:2]) if not used(row)), None)
