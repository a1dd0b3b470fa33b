"""Slice sampling (Neal 2003): draws from any density that can be evaluated, with nothing to tune.

One update along a direction: a height below the density at the current point, an interval around it grown in steps until both
ends are below that height, then shrunk until a point above it is drawn. `sweep` follows the recipe of Snoek et al. 2012: one
random direction for a block of strongly coupled coordinates, then the others one by one in random order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from raytree.gp.linalg import Array

MAX_STEPS = 50
"""Growing and shrinking each stop after this many evaluations; a point is left where it is then."""

LogDensity = Callable[[Array], float]


def along(log_density: LogDensity, x: Array, direction: Array, rng: np.random.Generator, width: float = 1.0) -> Array:
    """The next point (k,) of the chain, on the line through x (k,) in a direction (k,)."""
    height = log_density(x) + np.log(rng.random())
    low = -width * rng.random()
    high = low + width
    for _ in range(MAX_STEPS):
        if log_density(x + low * direction) <= height:
            break
        low -= width
    for _ in range(MAX_STEPS):
        if log_density(x + high * direction) <= height:
            break
        high += width
    for _ in range(MAX_STEPS):
        step = low + (high - low) * rng.random()
        proposal = x + step * direction
        if log_density(proposal) > height:
            return proposal
        if step < 0:
            low = step
        else:
            high = step
    return x


def sweep(log_density: LogDensity, x: Array, coupled: Sequence[int], rng: np.random.Generator) -> Array:
    """One update of every coordinate of x (k,): the coupled ones along one random direction, the others one by one."""
    if len(coupled):
        direction = np.zeros(len(x))
        direction[list(coupled)] = rng.normal(size=len(coupled))
        x = along(log_density, x, direction / np.linalg.norm(direction), rng)
    alone = [k for k in range(len(x)) if k not in set(coupled)]
    for k in rng.permutation(alone).tolist():
        x = along(log_density, x, np.eye(len(x))[k], rng)
    return x


def sample(
    log_density: LogDensity, x: Array, coupled: Sequence[int], rng: np.random.Generator, draws: int, burn_in: int = 0
) -> Array:
    """(draws, k) points after `burn_in` sweeps, one sweep apart; the last one is where to go on next time."""
    chain = []
    for k in range(burn_in + draws):
        x = sweep(log_density, x, coupled, rng)
        if k >= burn_in:
            chain.append(x)
    return np.array(chain).reshape(draws, len(x))
