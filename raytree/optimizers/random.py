"""Random search: the baseline every method is measured against, and a stand-in where no model is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from raytree.optimizer import Optimizer
from raytree.space.parameters import Array


class RandomOptimizer(Optimizer):
    """Configurations drawn as Tune draws them, without repeats; by default without an initial design."""

    def __init__(self, space: Any, *, num_initial: int | None = 1, **settings: Any) -> None:
        super().__init__(space, num_initial=num_initial, **settings)

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        return self.space.sample(rng, 1)


class DesignOptimizer(Optimizer):
    """Space-filling search: the initial design, for as long as asked."""

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        return [self._design.row(len(self.observations))]
