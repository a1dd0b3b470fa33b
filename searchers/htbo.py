"""Heteroscedastic treed Bayesian optimization as a searcher (Assael et al. 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from raytree.optimizers.htbo import HTBOOptimizer
from raytree.searchers.base import RaytreeSearcher
from raytree.strategies.treed import SOBOL


class HTBOSearcher(RaytreeSearcher):
    """For objectives that change character across the space: flat here, rough there, with cliffs between.

    A regression tree cuts the space, and every part has a Gaussian process with hyperparameters of its own.

    Args:
        space: the search space, if it is not given to Tune as `param_space` or `config`.
        metric: the metric to optimize; Tune's own if left out.
        mode: "min" or "max"; Tune's own if left out.
        points_to_evaluate: see `RaytreeSearcher`, as for the arguments up to verbose.
        evaluated_rewards: metric values of the first of these points.
        seed: makes suggestions reproducible.
        num_initial: suggestions from the space-filling design.
        time_attr: what counts the progress of a trial in its results.
        on_error: what a trial that ends in error means: "penalize" or "ignore".
        verbose: 1 prints a line for every trial that ends.
        max_t: with a scheduler that stops trials, the `time_attr` of a complete one; only complete ones count.
        pending: what running trials are taken for, see `acquisition.pending`: "believer", "fantasy", "thompson"
            or "ignore".
        warp: whether ordered parameters are warped by Beta laws, estimated too.
        conditioning: what a leaf's predictions are conditioned on: "all" observations or those of the "leaf".
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples; the paper).
        tree: whether there is a tree at all.
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent),
            "bent", or "linear" (the paper).
        explore: whether every second suggestion goes where the model is least certain, once it expects nothing
            or only digits.
        centred: whether the prior of a leaf's hyperparameters is centred at those of the whole.
        thin: whether large nodes above a leaf take part with a sample of their points.
        sobol: points at which improvement is looked at (the paper: 20,000).
        candidates: if given, only these configurations are ever suggested, each once: a list of configurations,
            a DataFrame with a column per parameter, or an array (n, d) in the order of the space's parameters.
            Not part of a saved state: give them again to restore.
    """

    optimizer_class = HTBOOptimizer

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        points_to_evaluate: Sequence[dict[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        seed: int | None = None,
        num_initial: int | None = None,
        time_attr: str | None = TRAINING_ITERATION,
        on_error: str = "penalize",
        verbose: int = 0,
        max_t: float | str | None = None,
        pending: str = "believer",
        warp: bool = False,
        conditioning: str = "all",
        inference: str = "map",
        tree: bool = True,
        transform: str = "robust",
        explore: bool = True,
        centred: bool = True,
        thin: bool = True,
        sobol: int = SOBOL,
        candidates: Any = None,
    ) -> None:
        super().__init__(
            space,
            metric,
            mode,
            points_to_evaluate=points_to_evaluate,
            evaluated_rewards=evaluated_rewards,
            seed=seed,
            num_initial=num_initial,
            time_attr=time_attr,
            on_error=on_error,
            verbose=verbose,
            max_t=max_t,
            pending=pending,
            warp=warp,
            conditioning=conditioning,
            inference=inference,
            tree=tree,
            transform=transform,
            explore=explore,
            centred=centred,
            thin=thin,
            sobol=sobol,
            candidates=candidates,
        )
