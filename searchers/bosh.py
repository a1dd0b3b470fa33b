"""Bayesian optimization by sampling hierarchically as a searcher (Moss et al. 2020)."""

from __future__ import annotations

from raytree.optimizers.bosh import BOSHOptimizer
from raytree.searchers.base import RaytreeSearcher


class BOSHSearcher(RaytreeSearcher):
    """Optimizes the mean of a stochastic objective: every suggestion is a configuration and a seed, `config["seed"]`.

    The trainable uses the seed for everything random in it: its data split, its simulation, its environment. Use
    `recommend()` for the answer: the best single trial was mostly lucky with its seed. Takes the arguments of `RaytreeSearcher`
    and those of `raytree.BOSHOptimizer`, by name.
    """

    optimizer_class = BOSHOptimizer
