"""Heteroscedastic treed Bayesian optimization as a searcher (Assael et al. 2014)."""

from __future__ import annotations

from raytree.optimizers.htbo import HTBOOptimizer
from raytree.searchers.base import RaytreeSearcher


class HTBOSearcher(RaytreeSearcher):
    """For objectives that change character across the space: flat here, rough there, with cliffs between.

    A regression tree cuts the space, and every part has a Gaussian process with hyperparameters of its own. Takes the
    arguments of `RaytreeSearcher` and those of `raytree.HTBOOptimizer`, by name.
    """

    optimizer_class = HTBOOptimizer
