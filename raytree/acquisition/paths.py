"""Which paths to look at: all of a few, the promising ones of many.

With thousands of paths only some are ever materialised: those with trials, those one decision away from a good one, and
some drawn at random. They are ranked by an optimistic path-EI: eq. (6) of Jenatton et al. 2017 with the spread inside a leaf
added to the variance, since a leaf that is bad on average may be the best at its optimum (ours).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raytree.acquisition.improvement import log_ei
from raytree.acquisition.maximize import Score
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian
from raytree.space import Path, Space

MAX_LISTED = 64
"""Up to this many paths, all are candidates."""
MOST_VISITED = 128
"""Of more visited paths than this, the best ones are candidates."""
_GOOD, _DRAWN, _POINTS = 3, 32, 8
_TOGETHER = 1024
"""Paths that are ranked in one product: bounds the memory."""

Scores = Callable[[Sequence[Path], Array], Array]
"""(p, m) of rows (p, m, d) on p paths."""


def known_paths(space: Space, visited: Sequence[Path], rng: np.random.Generator) -> list[Path]:
    """Candidate paths: all, or the best visited ones (best first), neighbours of the best, and random ones."""
    if space.n_paths <= MAX_LISTED:
        return space.paths()
    found = dict.fromkeys(visited[:MOST_VISITED])
    for path in visited[:_GOOD]:
        found |= dict.fromkeys(_neighbours(space, path, rng))
    found |= dict.fromkeys(space.paths_of(space.sample(rng, _DRAWN)))
    return list(found)


def _neighbours(space: Space, path: Path, rng: np.random.Generator) -> list[Path]:
    """Paths that differ from one in a single decision; what that decision brings to life is drawn at random."""
    here = space.cell_of(path)
    moves = [(j, other) for j, cell in here.items() for other in range(len(space.cells[j])) if other != cell]
    units = rng.random((len(moves), space.d))
    for k, cell in here.items():
        units[:, k] = space.cells[k].place(cell, units[:, k])
    for row, (j, other) in zip(units, moves, strict=True):
        row[j] = float(space.cells[j].place(other, rng.random(1))[0])
    return space.paths_of(space.mask(units))


def promising(space: Space, paths: Sequence[Path], scores: Scores, k: int, rng: np.random.Generator) -> list[Path]:
    """The k paths on which the best of a few random rows scores highest, best first; all if there are no more."""
    if len(paths) <= k:
        return list(paths)
    units = rng.random((_POINTS, space.d))
    some = [paths[start : start + _TOGETHER] for start in range(0, len(paths), _TOGETHER)]
    best = np.concatenate([scores(part, space.on_paths(part, units)).max(axis=1) for part in some])
    return [paths[i] for i in np.argsort(-best, kind="stable")[:k]]


def one_by_one(score: Score) -> Scores:
    """Scores of rows on several paths, from a score of rows on one."""
    return lambda paths, rows: np.array([score(path, of_path) for path, of_path in zip(paths, rows, strict=True)])


def optimistic(posterior: Gaussian, paths: Sequence[Path], rows: Array, best: float) -> Array:
    """(p, m) log path-EI at rows (p, m, d) of several paths, with the leaves' own variances."""
    prediction, kernel = posterior.predict_paths(paths, rows), posterior.process.kernel
    of_leaf = [kernel.diagonal(path, kernel.inputs(path, posterior.full(rows[k, :1])))[0] for k, path in enumerate(paths)]
    return log_ei(prediction.mean, np.sqrt(prediction.sd**2 + np.array(of_leaf)[:, None]), best)


def log_path_ei(posterior: Gaussian, path: Path, rows: Array, best: float) -> Array:
    """(m,) the log of eq. (6) at rows of a path: only their shared parameters matter."""
    prediction = posterior.predict_path(path, rows)
    return log_ei(prediction.mean, prediction.sd, best)
