"""Bayesian optimization by sampling hierarchically as a searcher (Moss et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from raytree.optimizers.bosh import BOSHOptimizer
from raytree.searchers.base import RaytreeSearcher


class BOSHSearcher(RaytreeSearcher):
    """Optimizes the mean of a stochastic objective: every suggestion is a configuration and a seed, `config["seed"]`.

    The trainable uses the seed for everything random in it: its data split, its simulation, its environment. Use
    `recommend()` for the answer: the best single trial was mostly lucky with its seed. Takes the arguments of `RaytreeSearcher`
    and those of `raytree.BOSHOptimizer`, by name.

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
        pending: what running trials are taken for: "believer" (they come out as expected) or "ignore".
        seed_key: where the seed stands in a configuration.
        realizations: the only seeds there are, such as the numbers of K folds: what counts is then the mean
            over them. Any 31-bit integer but the largest if left out: what counts is the mean over all that
            might be.
        max_realizations: how many different seeds are used at most: a number, or "all" (no limit: what they are
            worth decides).
        initial_realizations: over how many seeds the initial design is spread.
        acquisition: "knowledge" (gain of the recommended mean), or the paper's "gibbon" (closed form) and
            "mumbo" (quadrature).
        maxima: of the paper's, how the target's maximum is sampled: "exact" (joint samples) or "gumbel".
        diversity: of the paper's, the weight of the batch term of eq. (2): 1, or "1/B^2" (Moss et al. 2021,
            appendix D: for batches much larger than ten; B counts the running trials and the one asked for).
        maximizer: "gradient" (Sobol points, the best refined) or "direct" (the paper; spaces of real parameters
            without decisions only).
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent),
            "bent", or "linear" (the paper).
    """

    optimizer_class = BOSHOptimizer

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
        seed_key: str = "seed",
        realizations: Sequence[Any] | None = None,
        max_realizations: int | str = "all",
        initial_realizations: int = 1,
        acquisition: str = "knowledge",
        maxima: str = "exact",
        diversity: float | str = 1.0,
        maximizer: str = "gradient",
        transform: str = "robust",
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
            seed_key=seed_key,
            realizations=realizations,
            max_realizations=max_realizations,
            initial_realizations=initial_realizations,
            acquisition=acquisition,
            maxima=maxima,
            diversity=diversity,
            maximizer=maximizer,
            transform=transform,
        )
