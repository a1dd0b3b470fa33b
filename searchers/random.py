"""Random search as a searcher: the baseline, with everything else that the searchers do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ray.tune.result import TRAINING_ITERATION

from raytree.optimizers.random import RandomOptimizer
from raytree.searchers.base import RaytreeSearcher


class RandomSearcher(RaytreeSearcher):
    """Draws configurations as Tune would, without repeats, from nested spaces too. Its arguments are those of `RaytreeSearcher`.

    Args:
        max_t: with a scheduler that stops trials, the `time_attr` of a complete one.
    """

    optimizer_class = RandomOptimizer

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
        )
