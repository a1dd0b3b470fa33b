"""The baselines `arc` and `flat` of Jenatton et al. 2017 as optimizers: to compare with, not to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from raytree.acquisition.improvement import log_ei
from raytree.acquisition.maximize import maximize
from raytree.acquisition.paths import known_paths
from raytree.errors import SettingError
from raytree.gp.linalg import Array, one_thread
from raytree.models.baselines import DenseGP
from raytree.optimizer import Optimizer
from raytree.scaling import scale_of
from raytree.space import Categorical, Path

_STEP = 1e-6


class DenseOptimizer(Optimizer):
    """One Gaussian process over all coordinates, EI on every path.

    Args:
        space: the search space.
        kernel: "arc", or "flat" (blind to structure).
        settings: of every optimizer, see `Optimizer`.
    """

    def __init__(self, space: Any, *, kernel: str = "flat", **settings: Any) -> None:
        super().__init__(space, **settings)
        if kernel not in ("arc", "flat"):
            raise SettingError("kernel", f"must be 'arc' or 'flat', got {kernel!r}.")
        self._kernel = kernel
        self._theta: Array | None = None

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "kernel": self._kernel}

    def _fill(self, rows: Array, noise: Array) -> Array:
        """Rows with meaningless numbers for inactive coordinates, if the kernel is blind."""
        return rows if self._kernel == "arc" else np.where(np.isnan(rows), noise, rows)

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            rows, losses, paths, _ = self.observations.losses()
            y = scale_of(losses, compress=False).forward(losses)
            categorical = np.array([isinstance(p.domain, Categorical) for p in self.space.parameters])
            filler = np.random.default_rng([self.seed, 4]).random(rows.shape)  # the same for a row in every call
            model = DenseGP(self._kernel, self._fill(rows, filler), y, categorical)
            self._theta = model.fit(self._theta, 30)
            best, noise = float(y.min()), rng.random(self.space.d)

            def score(path: Path, candidates: Array) -> Array:
                prediction = model.predict(self._fill(candidates, noise))
                return log_ei(prediction.mean, prediction.sd, best)

            def slope(path: Path, row: Array) -> tuple[float, Array]:
                steps = _STEP * np.eye(len(row))
                values = score(path, np.vstack([row, row + steps, row - steps]))
                return float(values[0]), (values[1 : 1 + len(row)] - values[1 + len(row) :]) / (2 * _STEP)

            around: dict[Path, Array] = {}
            for k in np.argsort(y, kind="stable").tolist():
                around.setdefault(paths[k], rows[k : k + 1])
            found = maximize(self.space, known_paths(self.space, list(around), rng), score, slope, around, rng, n_refined=3)
        return [candidate.row for candidate in found]

    def _method_state(self) -> dict[str, Any]:
        return {"theta": None if self._theta is None else self._theta.tolist()}

    def _restore_method(self, state: dict[str, Any]) -> None:
        self._theta = None if state["theta"] is None else np.array(state["theta"], dtype=float)
