"""Tree-structured Bayesian optimization as a searcher (Jenatton et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from raytree.optimizers.tree import TreeOptimizer
from raytree.searchers.base import RaytreeSearcher


class TreeSearcher(RaytreeSearcher):
    """Models a conditional space with a Gaussian process per path, joined by weights on the decisions.

    On a space without decisions it is plain Gaussian-process optimization.

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
        shared: functions of shared parameters: "smooth", "linear", "fourier" or "none".
        weights: "edges" (one per decision and cell), "nodes" (the paper: one per decision) or "none".
        leaf: dimensions of a leaf's kernel: "alive" or "own" (the paper: shared parameters left out).
        tied: whether leaves share hyperparameters, with deviations that grow with their data.
        offsets: whether each visited leaf has a fitted offset b_p (the paper).
        search: "all" (full EI on every path, or on the 24 most promising of many), a number of paths, or "two-
            step" (path-EI chooses the path and its shared parameters, EI the rest; the paper).
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent),
            "bent", or "linear" (the paper).
        explore: whether every second suggestion goes to the path that was tried least, once the model expects
            nothing.
    """

    optimizer_class = TreeOptimizer

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
        shared: str = "smooth",
        weights: str = "edges",
        leaf: str = "alive",
        tied: bool = True,
        offsets: bool = False,
        search: str | int = "all",
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
            shared=shared,
            weights=weights,
            leaf=leaf,
            tied=tied,
            offsets=offsets,
            search=search,
            transform=transform,
            explore=explore,
        )
