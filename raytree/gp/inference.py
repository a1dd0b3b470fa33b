"""Hyperparameters from data: the most likely ones (MAP), when to estimate them again, and an ensemble of likely ones.

One estimate is enough to decide what to try next: the next result corrects it. An answer is not corrected any more, so it
is averaged over an ensemble. Which noise is behind few data is mostly unknown: a rough function and a noisy one explain
them equally well. So the ensemble goes through levels of noise; at each, the other hyperparameters are drawn from the
Laplace approximation around their optimum, and a level weighs as much as its evidence.

Notation: theta (k,), logarithms mostly; an objective gives minus the log-posterior of theta and its gradient (k,).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import optimize

Objective = Callable[[Array], tuple[float, Array]]

_WORST = 1e25

LEVELS = np.log([1e-9, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0])
"""Log-variances of noise that an ensemble goes through, in units of standardised losses."""
NOISELESS = 0.1
"""The prior weight of the first level against any other: without noise data say so loudly."""
LEVEL_EVALUATIONS = 10
"""Of the objective, to fit the other hyperparameters at a level."""
DRAWS = 4
"""Thetas drawn at a level."""
NEGLIGIBLE = 0.02
"""Levels with less than this share of the weight are left out."""
STEP = 1e-3
"""Of the differences of gradients that make a Hessian."""
FLATTEST = 0.2
"""The least curvature of the objective: along flat directions draws stay within about two units."""


class Found(NamedTuple):
    """A local optimum theta (k,) and its objective."""

    theta: Array
    value: float


class Member(NamedTuple):
    """A theta (k,) of an ensemble, and its weight; weights add up to one."""

    theta: Array
    weight: float


def next_fit(fitted_to: int, part: int) -> int:
    """How many observations make the next estimate worth its time: one more at first, one in so many more later."""
    return fitted_to + max(1, fitted_to // part)


def fit(objective: Objective, start: Array, bounds: Array, max_evaluations: int) -> Found:
    """The best theta found from a start (k,): L-BFGS-B with bounds (k, 2), never worse than the start.

    The number of evaluations is the unit of work. Where the objective raises `LinAlgError` it counts as very bad.
    """
    best = Found(np.clip(start, bounds[:, 0], bounds[:, 1]), np.inf)

    def guarded(theta: Array) -> tuple[float, Array]:
        nonlocal best
        try:
            value, gradient = objective(theta)
        except np.linalg.LinAlgError:
            return _WORST, np.zeros_like(theta)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return _WORST, np.zeros_like(theta)
        if value < best.value:
            best = Found(theta.copy(), value)
        return value, gradient

    optimize.minimize(
        guarded, best.theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxfun": max_evaluations, "maxcor": 12}
    )
    return best


class _Level(NamedTuple):
    theta: Array  # the optimum at this noise
    spread: Array  # (k, k): a standard normal times this is a draw around it
    minus_log_evidence: float


def ensemble(objective: Objective, theta: Array, bounds: Array, noise: int, rng: np.random.Generator) -> list[Member]:
    """Likely thetas around an optimum (k,), see the top of this file.

    Levels are visited from the one next to the optimum's noise, up and down, until they do not matter any more.

    Args:
        objective: minus the log-posterior; its prior of the noise should be flat.
        theta: where to begin.
        bounds: (k, 2).
        noise: the place of the log-variance of the noise in theta.
        rng: of the draws.
    """
    first = int(np.argmin(np.abs(LEVELS - theta[noise])))
    levels: list[_Level] = []
    for direction in (range(first, len(LEVELS)), range(first - 1, -1, -1)):
        start = theta
        for k in direction:
            found = _level(objective, start, bounds, noise, k)
            if found is None:
                break
            levels.append(found)
            start = found.theta
            least = min(level.minus_log_evidence for level in levels)
            if found.minus_log_evidence > least - np.log(NEGLIGIBLE):
                break
    if not levels:  # the matrix breaks down at every level
        return [Member(theta, 1.0)]
    minus = np.array([level.minus_log_evidence for level in levels])
    weights = np.exp(minus.min() - minus)
    weights /= weights.sum()
    kept = [(level, weight) for level, weight in zip(levels, weights.tolist(), strict=True) if weight >= NEGLIGIBLE]
    total = DRAWS * sum(weight for _, weight in kept)
    return [
        Member(np.clip(level.theta + level.spread @ rng.normal(size=len(theta)), bounds[:, 0], bounds[:, 1]), weight / total)
        for level, weight in kept
        for _ in range(DRAWS)
    ]


def _level(objective: Objective, start: Array, bounds: Array, noise: int, k: int) -> _Level | None:
    """The optimum at the k-th level of noise and the Laplace approximation around it; None where the matrix breaks down."""
    level = np.clip(LEVELS[k], *bounds[noise])
    inside, begin = bounds.copy(), start.copy()
    inside[noise], begin[noise] = level, level
    theta, value = fit(objective, begin, inside, LEVEL_EVALUATIONS)
    others = np.delete(np.arange(len(theta)), noise)
    try:
        at = objective(theta)[1]
        rows = []
        for i in others.tolist():
            moved = theta.copy()
            step = STEP if moved[i] + STEP <= bounds[i, 1] else -STEP
            moved[i] += step
            rows.append((objective(moved)[1] - at)[others] / step)
        hessian = np.array(rows).reshape(len(others), len(others))
        curvature, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(value):
        return None
    curvature = np.maximum(curvature, FLATTEST)
    spread = np.zeros((len(theta), len(theta)))
    spread[np.ix_(others, others)] = directions / np.sqrt(curvature)
    evidence = value + 0.5 * float(np.sum(np.log(curvature))) - (np.log(NOISELESS) if k == 0 else 0.0)
    return _Level(theta, spread, evidence)
