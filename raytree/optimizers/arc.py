"""The baseline `arc` of Jenatton et al. 2017 as an optimizer: to compare with, not to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from raytree.acquisition.improvement import log_ei
from raytree.acquisition.maximize import Gain, box_of, maximize, numeric_slope
from raytree.acquisition.paths import known_paths
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import standardized
from raytree.models.arc import ArcGP
from raytree.optimizer import Optimizer
from raytree.space import Categorical, Path
from raytree.strategies.base import Search, Strategy

EVALUATIONS = 30
"""Of the likelihood in one fit."""


class ArcStrategy(Strategy):
    """One Gaussian process with the arc kernel, EI on every path."""

    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self._theta: Array | None = None

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            space = self.search.space
            data = self.search.trials.losses()
            rows, paths = data.rows, data.paths
            y = standardized(data.losses).forward(data.losses)
            categorical = np.array([isinstance(p.domain, Categorical) for p in space.parameters])
            model = ArcGP(rows, y, categorical)
            self._theta = model.fit(self._theta, EVALUATIONS)
            best = float(y.min())

            def score(path: Path, candidates: Array) -> Array:
                prediction = model.predict(candidates)
                return log_ei(prediction.mean, prediction.sd, best)

            def slope(path: Path, row: Array) -> tuple[float, Array]:
                return numeric_slope(score, box_of(space, path))(path, row)

            around: dict[Path, Array] = {}
            for k in np.argsort(y, kind="stable").tolist():
                around.setdefault(paths[k], rows[k : k + 1])
            found = maximize(space, known_paths(space, list(around), rng), Gain(score, slope), around, rng, n_refined=3)
        return [candidate.row for candidate in found]

    def state(self) -> dict[str, Any]:
        return {"theta": None if self._theta is None else self._theta.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self._theta = None if state["theta"] is None else np.array(state["theta"], dtype=float)


class ArcOptimizer(Optimizer):
    """One Gaussian process with the arc kernel, EI on every path. Takes the settings of every optimizer, see `Optimizer`."""

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
            space, ArcStrategy, {}, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error, max_t=max_t
        )
