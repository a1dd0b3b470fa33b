"""Several suggestions from one fit: with many trials running, one result more changes little.

The first suggestion is the best row. Each that follows is the best of the other candidates, as if those before it were running.
They are taken as they are: refining each takes as long as the first, and gained nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raytree.acquisition.maximize import Candidate, Score
from raytree.acquisition.pending import SAME
from raytree.gp.linalg import Array
from raytree.gp.posterior import Mixture
from raytree.space import Path

LARGEST = 16
"""Suggestions that follow one: as many as trials are running, up to so many."""
NEWS = 6
"""At most one follows for so many results so far: what comes in between would change little."""


def length(running: int, results: int) -> int:
    """How many suggestions follow the next one."""
    return min(LARGEST, running, max(0, results // NEWS - 1))


def following(
    posterior: Mixture,
    score_of: Callable[[Mixture], Score],
    first: tuple[Path, Array],
    candidates: Sequence[Candidate],
    n: int,
) -> list[Array]:
    """Up to n rows to suggest after the first.

    Args:
        posterior: with running trials.
        score_of: what rows are worth under a posterior.
        first: the path and the row (d,) of the first suggestion.
        candidates: other rows, with what they were worth before it.
        n: how many.
    """
    left: dict[Path, list[Candidate]] = {}
    for candidate in candidates:
        left.setdefault(candidate.path, []).append(candidate)
    path, row = first
    found: list[Array] = []
    for _ in range(n):
        posterior = posterior.condition(row[None], [path])
        left[path] = [c for c in left.get(path, []) if np.nanmax(np.abs(c.row - row), initial=0.0) > SAME]
        score = score_of(posterior)
        renewed: set[Path] = set()
        while True:  # nothing is worth more than before, so that only what leads needs a new value
            best = max((c for group in left.values() for c in group), key=lambda c: c.value, default=None)
            if best is None:
                return found
            if best.path in renewed:
                break
            values = score(best.path, np.array([c.row for c in left[best.path]]))
            left[best.path] = [c._replace(value=float(v)) for c, v in zip(left[best.path], values, strict=True)]
            renewed.add(best.path)
        _, path, row = best
        found.append(row)
    return found
