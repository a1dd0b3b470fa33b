"""Bayesian optimization with kernels for conditional spaces as a searcher (Levesque et al. 2017)."""

from __future__ import annotations

from raytree.optimizers.conditional import CondKernelOptimizer
from raytree.searchers.base import RaytreeSearcher


class CondKernelSearcher(RaytreeSearcher):
    """Models a conditional space with one Gaussian process whose kernel knows which parameters are alive.

    Branches teach each other nothing under the default kernel: right where they are unrelated. Takes the arguments of
    `RaytreeSearcher` and those of `raytree.CondKernelOptimizer`, by name.
    """

    optimizer_class = CondKernelOptimizer
