"""Maximum a posteriori by L-BFGS-B: bounded work, warm starts, never worse than the start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from raytree.gp.linalg import Array

_WORST = 1e25


def fit(
    objective: Callable[[Array], tuple[float, Array]], start: Array, bounds: Array, max_evaluations: int
) -> tuple[Array, float]:
    """The best log-parameters found from `start` (k,), and their objective.

    Args:
        objective: value and gradient; may raise `LinAlgError` where the matrix breaks down.
        start: (k,) where to begin, such as the last optimum.
        bounds: (k, 2).
        max_evaluations: of the objective; the unit of work.
    """
    best: tuple[float, Array] = (np.inf, np.clip(start, bounds[:, 0], bounds[:, 1]))

    def guarded(theta: Array) -> tuple[float, Array]:
        nonlocal best
        try:
            value, gradient = objective(theta)
        except np.linalg.LinAlgError:
            return _WORST, np.zeros_like(theta)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return _WORST, np.zeros_like(theta)
        if value < best[0]:
            best = (value, theta.copy())
        return value, gradient

    minimize(guarded, best[1], jac=True, method="L-BFGS-B", bounds=bounds, options={"maxfun": max_evaluations, "maxcor": 12})
    return best[1], best[0]
