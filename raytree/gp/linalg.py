"""The only place that factorises: Cholesky with a fixed jitter ladder, row append, solves, and the thread limit.

Notation: K (n, n) a kernel matrix with its noise, L (n, n) its lower Cholesky factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from raytree.lazy import lapack

Array = NDArray[np.float64]

JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Tried in turn, relative to the mean of the diagonal; always the same, so that results are reproducible."""


@cache
def _controller() -> Any:
    lapack.dpotrf  # noqa: B018  SciPy brings a BLAS of its own, which must be there to be limited
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread: small matrices gain nothing from more, and Ray's workers need the cores."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


def cholesky(K: Array, scale: float | None = None) -> Array:
    """The lower factor of K, with the least jitter of the ladder that works.

    Args:
        K: (n, n).
        scale: what jitter is relative to; the mean of the diagonal, if left out.

    Raises:
        numpy.linalg.LinAlgError: if none does: K is not a covariance matrix.
    """
    n = len(K)
    if n == 0:
        return np.empty((0, 0))
    scale = max(float(np.trace(K)) / n if scale is None else scale, np.finfo(float).tiny)
    for jitter in JITTERS:
        L, info = lapack.dpotrf(K if jitter == 0.0 else K + jitter * scale * np.eye(n), lower=1, clean=1)
        if info == 0 and np.isfinite(L[-1, -1]):
            return np.asarray(L)
    raise np.linalg.LinAlgError("matrix is not positive definite, even with jitter")


def append(L: Array, cross: Array, corner: Array) -> Array:
    """The factor of [[K, cross], [cross', corner]] from the factor of K.

    Args:
        L: (n, n) factor of K.
        cross: (n, m) covariances of the old rows with the new ones.
        corner: (m, m) covariance of the new rows, noise included.
    """
    n, m = cross.shape
    B = solve_lower(L, cross)
    grown = np.zeros((n + m, n + m), order="F")  # as LAPACK has it: solves need no copy
    grown[:n, :n] = L
    grown[n:, :n] = B.T
    # What is left of the corner may be all rounding errors, and those are relative to the corner itself.
    grown[n:, n:] = cholesky(corner - B.T @ B, float(np.trace(corner)) / m)
    return grown


def solve_lower(L: Array, b: Array) -> Array:
    """inv(L) b for b (n,) or (n, m)."""
    if len(L) == 0:
        return np.zeros_like(b)
    return np.asarray(lapack.dtrtrs(L, b, lower=1)[0])


def solve_upper(L: Array, b: Array) -> Array:
    """inv(L') b for b (n,) or (n, m)."""
    if len(L) == 0:
        return np.zeros_like(b)
    return np.asarray(lapack.dtrtrs(L, b, lower=1, trans=1)[0])


def solve(L: Array, b: Array) -> Array:
    """inv(L L') b."""
    return solve_upper(L, solve_lower(L, b))


def log_det(L: Array) -> float:
    """log |L L'|."""
    return 2.0 * float(np.sum(np.log(np.diagonal(L))))


def inverse_factors(K: Array) -> tuple[Array, Array]:
    """Inverse lower factors (P, m, m) and log-determinants (P,) of a stack of P matrices.

    Raises:
        numpy.linalg.LinAlgError: if one of several is not positive definite; only a single one has a jitter ladder.
    """
    if len(K) == 1:
        L = cholesky(K[0])
        inverse = solve_lower(L, np.eye(len(L)))
        return inverse[None], np.array([log_det(L)])
    factors = np.linalg.cholesky(K)
    eye = np.broadcast_to(np.eye(K.shape[-1]), K.shape)
    return np.linalg.solve(factors, eye), 2.0 * np.log(np.diagonal(factors, axis1=-2, axis2=-1)).sum(-1)
