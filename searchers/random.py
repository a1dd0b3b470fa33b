"""Random search as a searcher: the baseline, with everything the others have."""

from __future__ import annotations

from raytree.optimizers.random import RandomOptimizer
from raytree.searchers.base import RaytreeSearcher


class RandomSearcher(RaytreeSearcher):
    """Draws configurations as Tune would, without repeats, from nested spaces too."""

    optimizer_class = RandomOptimizer
