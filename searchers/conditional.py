"""Bayesian optimization with kernels for conditional spaces as a searcher (Levesque et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from raytree.optimizers.conditional import CondKernelOptimizer
from raytree.searchers.base import RaytreeSearcher


class CondKernelSearcher(RaytreeSearcher):
    """Models a conditional space with one Gaussian process whose kernel knows which parameters are alive.

    Branches teach each other nothing under the default kernel: right where they are unrelated. Takes the arguments of
    `RaytreeSearcher` and those of `raytree.CondKernelOptimizer`, by name.

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
        max_t: with a scheduler that stops trials, the `time_attr` of a complete one, as the scheduler has it;
            "auto" for the longest that was seen.
        pending: what running trials are taken for, see `acquisition.pending`: "believer", "fantasy", "thompson"
            or "ignore".
        context: the kernel between fidelities, see `gp.context`: "quadratic", "decay" or "matern".
        fidelity_key: where the fraction of a complete evaluation stands in a configuration, if the search is to
            choose it.
        min_fidelity: the least such fraction.
        kernel: "conditional" (no covariance between different branches), "laplace", "mondrian" (its random-
            feature form), "matern" or "squared".
        impute: whether inactive parameters are set to their default; without, they are numbers that mean
            nothing.
        categories: "hamming", "onehot" or "integer", see `models.inputs`.
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples).
        search: how EI is maximised: "gradient" (Sobol points on every path, the best refined by L-BFGS-B; not
            for the mondrian kernel), "local" (random points, then local search over neighbours), "random", or
            "auto": by gradient for smooth kernels, locally for the others.
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent),
            "bent", or "linear" (the paper).
        explore: whether every second suggestion goes to the path that was tried least, once the model expects
            nothing.
    """

    optimizer_class = CondKernelOptimizer

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
        context: str = "quadratic",
        fidelity_key: str | None = None,
        min_fidelity: float = 1.0 / 27.0,
        kernel: str = "conditional",
        impute: bool = True,
        categories: str = "hamming",
        inference: str = "map",
        search: str = "auto",
        transform: str = "robust",
        explore: bool = True,
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
            context=context,
            fidelity_key=fidelity_key,
            min_fidelity=min_fidelity,
            kernel=kernel,
            impute=impute,
            categories=categories,
            inference=inference,
            search=search,
            transform=transform,
            explore=explore,
        )
