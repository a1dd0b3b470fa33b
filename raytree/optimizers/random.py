"""Random search: the baseline every method is measured against, and a stand-in where no model is wanted."""

from __future__ import annotations

from typing import Any

from raytree.optimizer import Optimizer
from raytree.strategies.base import DesignStrategy, RandomStrategy


class RandomOptimizer(Optimizer):
    """Configurations drawn as Tune draws them, without repeats; by default without an initial design.

    Takes the settings of every optimizer, see `Optimizer`.
    """

    def __init__(
        self,
        space: Any,
        *,
        seed: int | None = None,
        mode: str = "min",
        num_initial: int | None = 1,
        budget: int | None = None,
        on_error: str = "penalize",
        max_t: float | str | None = None,
    ) -> None:
        super().__init__(
            space, RandomStrategy, {}, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error,
            max_t=max_t,
        )  # fmt: skip


class DesignOptimizer(Optimizer):
    """Space-filling search: the initial design, for as long as asked. Takes the settings of every optimizer, see `Optimizer`."""

    def __init__(
        self,
        space: Any,
        *,
        seed: int | None = None,
        mode: str = "min",
        num_initial: int | None = None,
        budget: int | None = None,
        on_error: str = "penalize",
        max_t: float | str | None = None,
    ) -> None:
        super().__init__(
            space, DesignStrategy, {}, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error,
            max_t=max_t,
        )  # fmt: skip
