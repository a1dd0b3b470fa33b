"""The marginal likelihood of a Gaussian process and what its gradient needs, once for every model.

    y = mean + g + Z c + noise,    cov(g + noise) = K, one block a group of rows,    c ~ N(0, S)

Blocks of about one size are padded to a rectangle and worked on together; a padded row has a covariance of 0, a diagonal of 1
and takes no part in anything. Blocks meet only in the weights c, through Lambda = inv(S) + sum_b Z_b' inv(K_b) Z_b (section 2.2
of Jenatton et al. 2017), so that time is O(D^3 + sum_b (n_b^3 + n_b^2 D)).

A model says what K is at its hyperparameters, and contracts W = d(minus log-likelihood) / dK with the derivatives of K.

Notation: P blocks in a stack, m rows each after padding, D weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.linalg import Array

_LOG_2PI = float(np.log(2.0 * np.pi))
SIZES = (2, 4, 8, 16, 32, 64)
"""Blocks up to these sizes are stacked; larger ones stand alone."""


class Stack(NamedTuple):
    """Which rows are in the blocks of a stack."""

    rows: np.ndarray  # (P, m) their numbers, 0 for padding
    real: Array  # (P, m) 1, or 0 for padding

    @property
    def both(self) -> Array:
        """(P, m, m) 1 where two rows are real."""
        return np.asarray(self.real[:, :, None] * self.real[:, None, :])


class Blocks(NamedTuple):
    """A stack at some hyperparameters."""

    stack: Stack
    kernel: Array  # (P, m, m) without noise; whatever it is at padded rows does not matter
    noise: Array  # (P, m)
    residual: Array  # (P, m) y - mean
    features: Array  # (P, m, D), 0 for padding
    weight: Array | None = None  # (P,) how much each block's likelihood counts; 1 if left out


class Slopes(NamedTuple):
    """Derivatives of minus the log-likelihood, by what a stack was made of."""

    by_covariance: Array  # (P, m, m), 0 for padding
    by_mean: Array  # (P, m)


class Likelihood(NamedTuple):
    value: float
    slopes: list[Slopes]
    by_log_variance: Array  # (D,) by the logarithms of the variances of the weights


def stacked(groups: Sequence[np.ndarray]) -> list[tuple[list[int], Stack]]:
    """Groups of row numbers in stacks of about one size, each with the numbers of its groups."""
    sizes: dict[int, list[int]] = {}
    for k, index in enumerate(groups):
        size = next((s for s in SIZES if len(index) <= s), 0)
        sizes.setdefault(size if size else -k - 1, []).append(k)
    return [(chosen, stack_of([groups[k] for k in chosen])) for _, chosen in sorted(sizes.items())]


def stack_of(groups: Sequence[np.ndarray]) -> Stack:
    """Groups of row numbers in one stack."""
    m = max(len(index) for index in groups)
    rows, real = np.zeros((len(groups), m), dtype=int), np.zeros((len(groups), m))
    for p, index in enumerate(groups):
        rows[p, : len(index)], real[p, : len(index)] = index, 1.0
    return Stack(rows, real)


def negative_log_likelihood(blocks: Sequence[Blocks], variance: Array) -> Likelihood:
    """Minus log P(y) for weights of some variance (D,), with its derivatives.

    Raises:
        numpy.linalg.LinAlgError: where a matrix breaks down.
    """
    D = len(variance)
    factors, features, values = [], [], []
    total = 0.0
    for part in blocks:
        real = part.stack.real
        K = part.kernel * part.stack.both
        diagonal = np.arange(K.shape[-1])
        K[:, diagonal, diagonal] += part.noise * real + (1.0 - real)
        inverse, log_det = linalg.inverse_factors(K)  # inv(L)
        v = (inverse @ (part.residual * real)[:, :, None])[:, :, 0]
        weight = np.ones(len(real)) if part.weight is None else part.weight
        total += float(weight @ (np.sum(v**2, axis=1) + log_det + real.sum(axis=1) * _LOG_2PI))
        factors.append(inverse)
        values.append(v.ravel())
        features.append((inverse @ part.features).reshape(-1, D) if D else np.empty((v.size, 0)))
    solved, shared = np.concatenate(values), np.empty((0, 0))
    by_log_variance = np.empty(0)
    if D:
        A = np.concatenate(features)
        precision = A.T @ A
        precision[np.diag_indices(D)] += 1.0 / variance  # Lambda
        L = linalg.cholesky(precision)
        f = linalg.solve_lower(L, A.T @ solved)
        m = linalg.solve_upper(L, f)  # posterior mean of c
        total += linalg.log_det(L) + float(np.sum(np.log(variance))) - float(f @ f)
        solved = solved - A @ m
        shared = linalg.solve_lower(L, A.T).T
        # 1/2 s_j ((Z inv(K) Z')_jj - (Z alpha)_j^2), with Z alpha = inv(S) m
        spread = linalg.solve_lower(L, np.diag(1.0 / variance))
        by_log_variance = 0.5 * (1.0 - variance * np.sum(spread**2, axis=0) - m**2 / variance)
    slopes, begin = [], 0
    for part, inverse in zip(blocks, factors, strict=True):
        P, m_rows = part.stack.real.shape
        end = begin + P * m_rows
        transposed = np.swapaxes(inverse, 1, 2)
        alpha = (transposed @ solved[begin:end].reshape(P, m_rows, 1))[:, :, 0]
        W = transposed @ inverse - alpha[:, :, None] * alpha[:, None, :]
        if D:
            B = transposed @ shared[begin:end].reshape(P, m_rows, D)
            W -= B @ np.swapaxes(B, 1, 2)
        half = 0.5 if part.weight is None else 0.5 * part.weight[:, None, None]
        outer = 1.0 if part.weight is None else part.weight[:, None]
        slopes.append(Slopes(half * W * part.stack.both, -outer * alpha * part.stack.real))
        begin = end
    return Likelihood(0.5 * total, slopes, by_log_variance)
