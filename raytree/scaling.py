"""Metric values to standardised losses and back.

Centre and spread are the median and the interquartile range, after division by the largest magnitude, so that 1e300, 1e-300, a
constant, one value or an outlier all give something of order one. What is much worse than the median says little about the
optimum and distorts a stationary model, so the worse half is compressed: beyond a knee k, z becomes k + log(1 + z - k) (ours;
measured in benchmarks/README.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from raytree.gp.linalg import Array

_NORMAL_IQR = 1.349  # of a standard normal


class Scale(NamedTuple):
    """loss = unit (centre + spread z), z compressed above a knee, which may be infinite."""

    unit: float
    centre: float
    spread: float
    knee: float

    def forward(self, losses: Array) -> Array:
        """Standardised losses."""
        z = (losses / self.unit - self.centre) / self.spread
        return np.minimum(z, self.knee) + np.log1p(np.maximum(z - self.knee, 0.0))

    def bend(self, losses: Array) -> float:
        """The sum over losses (n,) of the logarithm of what compressing does to a small difference: 0 without."""
        z = (losses / self.unit - self.centre) / self.spread
        return -float(np.sum(np.log1p(np.maximum(z - self.knee, 0.0))))

    def backward(self, z: Array) -> Array:
        """Losses of standardised ones."""
        z = np.minimum(z, self.knee) + np.expm1(np.clip(z - self.knee, 0.0, 700.0))
        return self.unit * (self.centre + self.spread * z)


def scale_of(losses: Array, compress: bool = True, robust: bool = True, knee: float = 0.0) -> Scale:
    """The scale of finite losses (n,): median and interquartile range, or if not robust mean and standard deviation."""
    knee = knee if compress else math.inf
    unit = float(np.max(np.abs(losses), initial=0.0)) or 1.0
    scaled = losses / unit
    if not robust and len(scaled):
        spread = float(np.std(scaled))
        return Scale(unit, float(np.mean(scaled)), spread if spread > 1e-12 else 1.0, knee)
    centre = float(np.median(scaled)) if len(scaled) else 0.0
    quartiles = np.quantile(scaled, [0.25, 0.75]) if len(scaled) else np.zeros(2)
    spread = float(quartiles[1] - quartiles[0]) / _NORMAL_IQR
    if spread <= 1e-12:
        spread = float(np.std(scaled)) if len(scaled) else 0.0
    return Scale(unit, centre, spread if spread > 1e-12 and math.isfinite(spread) else 1.0, knee)
