"""Tree-structured Bayesian optimization as a searcher (Jenatton et al. 2017)."""

from __future__ import annotations

from raytree.optimizers.tree import TreeOptimizer
from raytree.searchers.base import RaytreeSearcher


class TreeSearcher(RaytreeSearcher):
    """Models a conditional space with a Gaussian process per path, joined by weights on the decisions.

    On a space without decisions it is plain Gaussian-process optimization. Takes the arguments of `RaytreeSearcher` and
    those of `raytree.TreeOptimizer`, by name.
    """

    optimizer_class = TreeOptimizer
