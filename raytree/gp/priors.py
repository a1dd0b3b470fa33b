"""Priors on log-parameters: a log-normal parameter is a normal log-parameter. All are densities of the logarithm."""

from __future__ import annotations

import numpy as np

from raytree.gp.linalg import Array


def normal(theta: Array, mean: Array, sd: Array) -> tuple[float, Array]:
    """Minus the log-density of independent normals, up to a constant, and its gradient (k,)."""
    z = (theta - mean) / sd
    return 0.5 * float(np.sum(z * z)), z / sd


def horseshoe(log_variance: float, scale: float) -> tuple[float, float]:
    """Minus the log-density, up to a constant, and its derivative, for a deviation s with a horseshoe prior.

    The horseshoe has no closed form; log(1 + (scale / s)^2) lies between its bounds (Carvalho et al. 2009). As a density of the
    logarithm it is multiplied by s.
    """
    ratio = scale**2 * np.exp(-log_variance)
    inner = np.log1p(ratio)
    value = -(np.log(inner) + 0.5 * log_variance)
    return float(value), float(ratio / (1.0 + ratio) / inner - 0.5)
