"""Input warping by the distribution function of a Beta law (Snoek et al. 2014): monotone, from [0, 1] onto itself.

w(x) = I_x(a, b). Its derivatives by log a and log b have no closed form and are taken by central differences.
"""

from __future__ import annotations

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import special

LOW, HIGH = np.log(0.1), np.log(10.0)
"""Bounds of log a and log b."""
_STEP = 1e-5


def warp(x: Array, log_a: Array, log_b: Array) -> Array:
    """w(x) for x (n, k), one law per column."""
    return np.asarray(special.betainc(np.exp(log_a), np.exp(log_b), np.clip(x, 0.0, 1.0)))


def slope(x: Array, log_a: Array, log_b: Array) -> Array:
    """dw/dx (n, k): the Beta density, kept finite at the ends."""
    a, b, inside = np.exp(log_a), np.exp(log_b), np.clip(x, 1e-9, 1.0 - 1e-9)
    return np.asarray(np.exp((a - 1.0) * np.log(inside) + (b - 1.0) * np.log1p(-inside) - special.betaln(a, b)))


def by_parameters(x: Array, log_a: Array, log_b: Array) -> tuple[Array, Array]:
    """dw/dlog a and dw/dlog b, each (n, k)."""
    by_a = (warp(x, log_a + _STEP, log_b) - warp(x, log_a - _STEP, log_b)) / (2.0 * _STEP)
    by_b = (warp(x, log_a, log_b + _STEP) - warp(x, log_a, log_b - _STEP)) / (2.0 * _STEP)
    return by_a, by_b
