"""Priors on log-parameters: a log-normal parameter is a normal log-parameter."""

from __future__ import annotations

import numpy as np

from raytree.gp.linalg import Array


def normal(theta: Array, mean: Array, sd: Array) -> tuple[float, Array]:
    """Minus the log-density of independent normals, up to a constant, and its gradient (k,)."""
    z = (theta - mean) / sd
    return 0.5 * float(np.sum(z * z)), z / sd
