"""Expected improvement for minimisation, in the log domain.

Eq. (5) of Jenatton et al. 2017 with the sign of a loss: with xi = (y_min - m) / s,
EI = s (xi Phi(xi) + phi(xi)) = s h(xi). log h is finite and monotone for every finite xi.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian
from raytree.lazy import special
from raytree.space import Path

_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)
_ROOT_HALF_PI, _ROOT_HALF = math.sqrt(math.pi / 2.0), math.sqrt(0.5)
_FAR = -1e3


def _near(xi: Any) -> Any:
    """log h for xi of -1 and more, as it is written."""
    return np.log(np.exp(-0.5 * xi**2 - _LOG_ROOT_2PI) + xi * special.ndtr(xi))


def _tail(xi: Any) -> Any:
    """log h below: Phi(xi) = phi(xi) sqrt(pi/2) erfcx(-xi / sqrt(2)), so h = phi (1 - |xi| sqrt(pi/2) erfcx(|xi| / sqrt 2))."""
    return -0.5 * xi**2 - _LOG_ROOT_2PI + np.log1p(xi * _ROOT_HALF_PI * special.erfcx(-xi * _ROOT_HALF))


def _far(xi: Any) -> Any:
    """log h where that difference has no digits left: a series."""
    return -0.5 * xi**2 - _LOG_ROOT_2PI - 2.0 * np.log(-xi) + np.log1p(-3.0 / xi**2)


def log_h(xi: Array) -> Array:
    """log(phi(xi) + xi Phi(xi))."""
    xi = np.asarray(xi, dtype=float)
    near, tail, far = _near(np.maximum(xi, -1.0)), _tail(np.clip(xi, _FAR, -1.0)), _far(np.minimum(xi, _FAR))
    found: Array = np.where(xi > -1.0, near, np.where(xi > _FAR, tail, far))
    return found


def log_ei(mean: Array, sd: Array, best: float) -> Array:
    """log E[max(0, best - f)] for f normal with the given mean and sd; arrays of any shape."""
    return np.log(sd) + log_h((best - mean) / sd)


def log_ei_at(mean: float, sd: float, by_mean: Array, by_sd: Array, best: float) -> tuple[float, Array]:
    """`log_ei` at one point and its gradient, given the gradients of mean and sd."""
    xi = np.float64((best - mean) / sd)
    value = float((_near if xi > -1.0 else _tail if xi > _FAR else _far)(xi))
    ratio = math.exp(float(special.log_ndtr(xi)) - value)  # Phi / h, the derivative of log h
    return math.log(sd) + value, (-ratio / sd) * by_mean + ((1.0 - xi * ratio) / sd) * by_sd


def log_mean(values: Array, gradients: Array, log_weights: Array) -> tuple[float, Array]:
    """The log of the weighted sum of exp(values) (s,), and its gradient (d,) from theirs (s, d)."""
    top = float(np.max(values + log_weights))
    weights = np.exp(values + log_weights - top)
    total = float(weights.sum())
    return top + math.log(total), weights @ gradients / total


class Parts(Protocol):
    """Posteriors with equal weights.

    Each part has a `lowest`, from which improvement is measured.
    """

    @property
    def parts(self) -> Sequence[Gaussian]: ...


def log_improvement(posterior: Parts, path: Path, rows: Array) -> Array:
    """(m,) the log of EI averaged over the parts of a posterior, at rows (m, d) of one path."""
    each = []
    for part in posterior.parts:
        mean, sd = part.predict(path, rows)
        each.append(log_ei(mean, sd, part.lowest))
    return each[0] if len(each) == 1 else np.asarray(np.logaddexp.reduce(each, axis=0) - math.log(len(each)))


def log_improvement_slope(posterior: Parts, path: Path, row: Array) -> tuple[float, Array]:
    """`log_improvement` at one row (d,), and its gradient (d,)."""
    each = [log_ei_at(*part.gradient(path, row), part.lowest) for part in posterior.parts]
    if len(each) == 1:
        return each[0]
    values, gradients = zip(*each, strict=True)
    weights = np.full(len(values), -math.log(len(values)))
    return log_mean(np.array(values), np.array(gradients), weights)
