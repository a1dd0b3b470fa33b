"""From losses to what a Gaussian process can model, and back.

A loss of 1e14 where training diverged, a tail over ten decades and a metric in per mille are all ordinary. A Gaussian process
wants numbers of order one without tails. The better half of the losses always stays linear: it is where the optimum is, and
differences there mean what they say. The worse half is either linear as well, or bent: a smooth curve through a few quantiles of
its ranks, since how bad a bad configuration is says little about the optimum. Which of the two, the data decide: by the
likelihood of the model with the transform's Jacobian (`candidates`, `log_slope`).

Centre, spread and ranks come from a reference, the first quarter of the results (16 at least). The later ones are where the
search exploits: with them the scale would zoom in, and all else would look equally bad. Failed trials have no part in it.

Notation: z, the transformed loss; u = (loss - centre) / spread; s = log(1 + u), on which the curve is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import interpolate, special

if TYPE_CHECKING:
    from scipy.interpolate import CubicHermiteSpline

REFERENCE = 16
"""The least number of results that ranks and spread are taken from."""
SHARE = 4
"""One in so many results is in the reference, the first ones, once that is more."""
QUANTILES = (0.25, 0.5, 0.75)
"""Of the worse half: the curve goes through them, and through the worst."""
BEYOND = 0.5
"""How much further up than the worst of the reference any loss can be, in units of z."""
TAIL = 1e3
"""A loss so many times further from the best than the one before it has diverged, and is not in the better half."""
LARGEST = 1e3
"""In units of z: losses beyond are never linear."""
_QUARTILE = 0.6745  # of a standard normal
_FINE = 512  # places at which the curve is inverted, before so many steps of Newton's method
_NEWTON = 4
_HUGE = 1e300  # any u is less


@dataclass(frozen=True)
class Transform:
    """z = u up to the centre; above it a rising curve through `heights` (k,) at places `knots` (k,) of s, both from 0 on.

    Without knots it is linear everywhere.
    """

    centre: float
    spread: float
    knots: Array
    heights: Array

    @property
    def bent(self) -> bool:
        return len(self.knots) > 1

    @cached_property
    def _curve(self) -> CubicHermiteSpline:
        """The curve in s: monotone, and as steep as the linear half where they meet, if that is possible."""

        s, z = self.knots, self.heights
        steps = np.diff(z) / np.diff(s)
        slopes = interpolate.PchipInterpolator(s, z).derivative()(s) if len(s) > 2 else np.repeat(steps, 2)
        slopes[0] = min(1.0, 3.0 * steps[0])
        return interpolate.CubicHermiteSpline(s, z, slopes)

    @cached_property
    def _last_slope(self) -> float:
        return max(float(self._curve(self.knots[-1], 1)), 1e-3)

    def _units(self, losses: Array) -> Array:
        """u; divided before differences are taken, so that 1e308 does not overflow."""
        unit = max(1.0, abs(self.centre))
        with np.errstate(over="ignore"):
            u = (losses / unit - self.centre / unit) / (self.spread / unit)
        return np.clip(u, -_HUGE, _HUGE)

    def forward(self, losses: Array) -> Array:
        """(n,) z of finite losses (n,)."""
        u = self._units(losses)
        if not self.bent:
            return _tamed(u)
        s = np.log1p(np.maximum(u, 0.0))
        further = np.maximum(s - self.knots[-1], 0.0)
        above = self._curve(np.minimum(s, self.knots[-1])) - BEYOND * np.expm1(-further * self._last_slope / BEYOND)
        return np.asarray(np.where(u > 0.0, above, _tamed(u)))

    def log_slope(self, losses: Array) -> Array:
        """(n,) the log of dz/dloss at losses (n,)."""
        u = self._units(losses)
        flat: Array = -np.log(self.spread) - np.log(np.maximum(np.abs(u) / LARGEST, 1.0))
        if not self.bent:
            return flat
        s = np.log1p(np.maximum(u, 0.0))
        further = np.maximum(s - self.knots[-1], 0.0)
        inside = np.log(np.maximum(self._curve(np.minimum(s, self.knots[-1]), 1), 1e-3))
        outside = np.log(self._last_slope) - further * self._last_slope / BEYOND
        found: Array = np.where(u > 0.0, np.where(further > 0.0, outside, inside) - s - np.log(self.spread), flat)
        return found

    def backward(self, z: Array) -> Array:
        """(n,) losses of z (n,)."""
        far = np.maximum(np.abs(z) / LARGEST, 1.0)
        linear = self.centre + self.spread * np.where(far > 1.0, np.sign(z) * LARGEST * np.exp(np.minimum(far - 1.0, 684.0)), z)
        if not self.bent:
            return np.asarray(linear)
        places = np.linspace(0.0, self.knots[-1], _FINE)
        s = np.interp(z, np.maximum.accumulate(self._curve(places)), places)
        aim = np.clip(z, 0.0, self.heights[-1])
        for _ in range(_NEWTON):
            step = (self._curve(s) - aim) / np.maximum(self._curve(s, 1), 1e-3)
            s = np.clip(s - np.clip(step, -places[1], places[1]), 0.0, self.knots[-1])
        left = np.clip((z - self.heights[-1]) / BEYOND, 0.0, 1.0 - 1e-9)
        s = s - np.log1p(-left) * BEYOND / self._last_slope
        return np.where(z > 0.0, self.centre + self.spread * np.expm1(np.minimum(s, 700.0)), linear)


def _tamed(u: Array) -> Array:
    """u, as it is up to `LARGEST` on either side, and beyond only with its logarithm: 1e300 can be squared."""
    far = np.maximum(np.abs(u) / LARGEST, 1.0)
    return np.asarray(np.where(far > 1.0, np.sign(u) * LARGEST * (1.0 + np.log(far)), u))


NONE = np.empty(0)


def standardized(losses: Array) -> Transform:
    """Losses (n,) with mean 0 and standard deviation 1, as the papers have them."""
    unit = max(1.0, float(np.max(np.abs(losses), initial=0.0)))
    centre, spread = (float(np.mean(losses / unit)), float(np.std(losses / unit))) if len(losses) else (0.0, 1.0)
    return Transform(unit * centre, unit * (spread if spread > 1e-300 else 1.0), NONE, NONE)


def bent(losses: Array) -> Transform:
    """The transform of losses (n,), in the order in which their trials were suggested, with a bent worse half."""
    if not len(losses):
        return Transform(0.0, 1.0, NONE, NONE)
    known = np.sort(losses[: max(REFERENCE, len(losses) // SHARE)])
    centre = min(float(np.median(known)), float(_without_tail(known)[-1]))
    plain = Transform(centre, _spread(known, centre), NONE, NONE)
    worse = np.log1p(plain._units(known[known > centre]))
    if not len(worse):
        return plain
    worst = 1.0 - 0.5 / len(worse)
    shares = np.array([share for share in QUANTILES if share < worst] + [worst])
    places = np.quantile(worse, shares, method="hazen")
    places[-1] = worse[-1]
    knots, heights = [0.0], [0.0]
    for place, height in zip(places.tolist(), special.ndtri(0.5 + 0.5 * shares).tolist(), strict=True):
        if place > knots[-1] + 1e-9:
            knots.append(place)
            heights.append(height)
    return Transform(centre, plain.spread, np.array(knots), np.array(heights))


def straight(losses: Array) -> Transform | None:
    """The same without the bend; None where losses are too far apart for that."""
    made = bent(losses)
    plain = Transform(made.centre, made.spread, NONE, NONE)
    return plain if len(losses) and float(np.max(plain.forward(losses))) < LARGEST else None


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


def candidates(losses: Array) -> dict[str, Transform]:
    """The transforms that losses (n,) may have, by name; the data choose."""
    plain = straight(losses)
    return {"bent": bent(losses)} if plain is None else {"bent": bent(losses), "straight": plain}


TRANSFORMS: dict[str, Callable[[Array], dict[str, Transform]]] = {
    "robust": candidates,
    "bent": lambda losses: {"bent": bent(losses)},
    "linear": lambda losses: {"linear": standardized(losses)},
}
"""By the name of the setting: the transforms among which the data choose."""
