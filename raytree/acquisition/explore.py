"""Where the search has looked least, for when the model expects nothing of any path.

A leaf that is bad wherever it was tried looks hopeless beside the others, even if it holds the best point of all at a narrow
optimum. No model of the values that were seen can know better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from raytree.space import Path, Space


def least_tried(space: Space, taken: Iterable[Path], failed: Iterable[Path], paths: Sequence[Path]) -> list[Path]:
    """The paths that have something to vary, the one with the fewest trials for its dimension first.

    Args:
        space: the search space.
        taken: the paths of all trials, whatever became of them.
        failed: the paths of those that failed; where most do, the others count for more.
        paths: where to look.
    """
    counts, failures = Counter(taken), Counter(failed)

    def density(path: Path) -> float:
        chance = (counts[path] - failures[path] + 1) / (counts[path] + 1)
        return float((counts[path] + 1) / chance**0.5 / (1 + len(space.free(path))) ** 2)

    return sorted((path for path in paths if space.free(path)), key=density)
