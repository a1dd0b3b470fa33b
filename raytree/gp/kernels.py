"""Stationary kernels as functions of the scaled squared distance, with what their gradients need.

Notation: r2 = sum_k (x_k - x'_k)^2 / l_k^2, any shape; all kernels have unit variance.
For a kernel k(r2): dk/dlog l_k = slope(r2) (x_k - x'_k)^2 / l_k^2 and dk/dx_k = -slope(r2) (x_k - x'_k) / l_k^2,
with slope = -2 dk/dr2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raytree.gp.linalg import Array

_ROOT5 = np.sqrt(5.0)


def matern52(r2: Array) -> tuple[Array, Array]:
    """The Matern-5/2 kernel and its slope (Rasmussen and Williams 2006, eq. 4.17)."""
    root = _ROOT5 * np.sqrt(r2)
    decay = np.exp(-root)
    return (1.0 + root + (5.0 / 3.0) * r2) * decay, (5.0 / 3.0) * (1.0 + root) * decay


def matern52_alone(r2: Array) -> Array:
    """The Matern-5/2 kernel without its slope: a third less to compute."""
    root = _ROOT5 * np.sqrt(r2)
    return np.asarray((1.0 + root + (5.0 / 3.0) * r2) * np.exp(-root))


def squared_differences(a: Array, b: Array, categorical: np.ndarray) -> Array:
    """(d, n, m) squared differences of coordinates; 0 or 1 for categorical ones (the Hamming distance)."""
    differences = a.T[:, :, None] - b.T[:, None, :]
    squared = differences**2
    if categorical.any():
        squared[categorical] = np.abs(differences[categorical]) > 1e-9
    return squared


def distances(a: Array, b: Array, inverse: Array, categorical: np.ndarray) -> Array:
    """(n, m) r2: squared differences of coordinates a (n, d) and b (m, d) times `inverse` (d,), summed; categories as above."""
    numbers = ~categorical
    scale = np.sqrt(inverse[numbers])
    x, y = a[:, numbers] * scale, b[:, numbers] * scale
    r2: Array = np.sum(x**2, axis=1)[:, None] + np.sum(y**2, axis=1)[None, :] - 2.0 * (x @ y.T)
    np.maximum(r2, 0.0, out=r2)
    for k in np.flatnonzero(categorical).tolist():
        r2 += inverse[k] * (np.abs(a[:, k, None] - b[None, :, k]) > 1e-9)
    return r2


class Stationary(NamedTuple):
    """A kernel of u = sum_k (|x_k - x'_k| / l_k)^power.

    `profile` gives the kernel and minus its derivative by u, `alone` the kernel. So dk/dlog l_k = power falls(u) u_k with u_k
    the k-th term of the sum.
    """

    power: int
    profile: Callable[[Array], tuple[Array, Array]]
    alone: Callable[[Array], Array]


def _matern_profile(u: Array) -> tuple[Array, Array]:
    k, slope = matern52(u)
    return k, 0.5 * slope


def _exponential(u: Array) -> tuple[Array, Array]:
    k = np.exp(-u)
    return k, k


def _exponential_alone(u: Array) -> Array:
    return np.asarray(np.exp(-u))


MATERN52 = Stationary(2, _matern_profile, matern52_alone)
GAUSSIAN = Stationary(2, _exponential, _exponential_alone)
"""The squared exponential of Levesque et al. 2017, eq. (5): no factor 1/2, l^2 where they write l."""
LAPLACE = Stationary(1, _exponential, _exponential_alone)
"""Levesque et al. 2017, eq. (11), with a length-scale per coordinate."""
