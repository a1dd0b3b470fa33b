"""From losses to what a Gaussian process can model, and back.

A loss of 1e14 where training diverged, a tail over ten decades and a metric in per mille are all ordinary. A Gaussian process
wants numbers of order one without tails. So the better half of the losses stays linear: it is where the optimum is, and
differences there mean what they say. The worse half becomes the normal quantiles of its ranks: how bad a bad configuration is
says little about the optimum.

Ranks and spread come from a reference, the first quarter of the results (16 at least). The later ones are where the
search exploits: with them the scale would zoom in, and all else would look equally bad. Failed trials have no part in it.

Notation: z, the transformed loss; centre and spread, the median of the reference and the deviation of its better half.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from raytree.gp.linalg import Array

REFERENCE = 16
"""The least number of results that ranks and spread are taken from."""
SHARE = 4
"""One in so many results is in the reference, the first ones, once that is more."""
BEYOND = 0.5
"""How much further up than the worst of the reference any loss can be, in units of z."""
TAIL = 1e3
"""A loss so many times further from the best than the one before it has diverged, and is not in the better half."""
_QUARTILE = 0.6745  # of a standard normal


@dataclass(frozen=True)
class Transform:
    """loss = centre + spread z up to the centre; above it, z rises through `heights` (k,) at losses `knots` (k,).

    Without knots it is linear everywhere.
    """

    centre: float
    spread: float
    knots: Array
    heights: Array

    def forward(self, losses: Array) -> Array:
        """(n,) z of finite losses (n,)."""
        unit = self._unit
        z = (losses / unit - self.centre / unit) / (self.spread / unit)
        if not len(self.knots):
            return np.asarray(z)
        above = np.interp(losses, self.knots, self.heights)
        reach = self._reach
        beyond = BEYOND * -np.expm1(-np.maximum(losses / reach - self.knots[-1] / reach, 0.0))
        return np.where(losses > self.knots[0], above + beyond, np.minimum(z, 0.0))

    def backward(self, z: Array) -> Array:
        """(n,) losses of z (n,)."""
        linear = self.centre + self.spread * z
        if not len(self.knots):
            return np.asarray(linear)
        above = np.interp(z, self.heights, self.knots)
        left = np.clip((z - self.heights[-1]) / BEYOND, 0.0, 1.0 - 1e-9)
        return np.where(z > 0.0, above - self._reach * np.log1p(-left), linear)

    @property
    def _unit(self) -> float:
        """By which to divide before differences are taken, so that 1e308 does not overflow."""
        return max(1.0, abs(self.centre))

    @property
    def _reach(self) -> float:
        span = self.knots[-1] / 2.0 - self.knots[0] / 2.0
        return float(span if span > 0 else self.spread)


def linear(losses: Array) -> Transform:
    """Losses (n,) with mean 0 and standard deviation 1, as the papers have them."""
    unit = max(1.0, float(np.max(np.abs(losses), initial=0.0)))
    centre, spread = (float(np.mean(losses / unit)), float(np.std(losses / unit))) if len(losses) else (0.0, 1.0)
    return Transform(unit * centre, unit * (spread if spread > 1e-300 else 1.0), np.empty(0), np.empty(0))


def robust(losses: Array) -> Transform:
    """The transform for losses (n,) in the order in which their trials were suggested, failed ones left out."""
    if not len(losses):
        return Transform(0.0, 1.0, np.empty(0), np.empty(0))
    known = np.sort(losses[: max(REFERENCE, len(losses) // SHARE)])
    centre = min(float(np.median(known)), float(_without_tail(known)[-1]))
    worse = known[known > centre]
    above = np.searchsorted(worse, worse, side="left") + np.searchsorted(worse, worse, side="right")
    heights = ndtri(0.5 + 0.5 * np.minimum(above / 2.0, len(worse) - 0.5) / max(1, len(worse)))
    knots, first = np.unique(np.append(centre, worse), return_index=True)
    return Transform(centre, _spread(known, centre), knots, np.append(0.0, np.maximum(heights, 1e-9))[first])


def _without_tail(known: Array) -> Array:
    """Sorted losses (n,) up to the first that is orders of magnitude further from the best than those before it."""
    unit = max(1.0, abs(known[0]))
    gaps = known / unit - known[0] / unit
    least = max(3, len(known) // 8)
    for k in range(least, len(known)):
        if gaps[k] > TAIL * gaps[k - 1] > 0.0:
            return known[:k]
    return known


def _spread(known: Array, centre: float) -> float:
    """The deviation of the better half of sorted losses (n,), or whatever there is where they are equal."""
    unit = max(1.0, abs(centre))
    below = centre / unit - known[known <= centre] / unit
    guesses = ((np.quantile(below, 0.5) if len(below) else 0.0) / _QUARTILE, below.mean() if len(below) else 0.0)
    spread = next((guess for guess in guesses if guess > 1e-300), 0.0)
    if not spread:
        spread = float(np.quantile(known, 0.75) / unit - centre / unit)
    return unit * (spread if spread > 1e-300 else 1.0)


TRANSFORMS = {"robust": robust, "linear": linear}
