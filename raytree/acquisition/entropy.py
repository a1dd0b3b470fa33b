"""Max-value entropy: how much a noisy evaluation tells about the largest value of another function (Moss et al. 2020, 2021).

The evaluation y at a place and the target g there have correlation rho; gamma = (m - mu_g) / s_g says how far a sampled maximum
m lies above the target's mean. Everything is for maximisation. Let r = phi(gamma) / Phi(gamma).

- MUMBO: rho^2 gamma r / 2 - log Phi(gamma) + E[log Phi((gamma - rho t) / sqrt(1 - rho^2))] over an extended skew normal t of
  density phi(t) Phi((gamma - rho t) / sqrt(1 - rho^2)) / Phi(gamma), mean -rho r (the paper prints the sign for
  minimisation) and variance 1 - rho^2 r (gamma + r).
- GIBBON: the lower bound -log(1 - rho^2 r (gamma + r)) / 2, from the normal of that variance. Exact as rho -> 0.
- At rho = 1 MUMBO is MES (Wang and Jegelka 2017): gamma r / 2 - log Phi(gamma).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Protocol

import numpy as np

from raytree.gp import linalg
from raytree.gp.linalg import Array
from raytree.lazy import optimize, special

_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_ALMOST_ONE = 1.0 - 1e-9
_REACH, _STEEP = 10.0, 6.0
_NOTHING = 1e-300
MOST_EXACT = 3
"""Of a row's realizations, so many (the best by the closed form) are scored by quadrature."""


def hazard(gamma: Array) -> Array:
    """phi(gamma) / Phi(gamma), for any gamma."""
    below = np.minimum(gamma, 0.0)
    above = np.maximum(gamma, 0.0)
    left = np.sqrt(2.0 / np.pi) / special.erfcx(-below / np.sqrt(2.0))
    return np.asarray(np.where(gamma < 0, left, np.exp(-0.5 * above**2 - _LOG_ROOT_2PI - special.log_ndtr(above))))


def _shrinkage(gamma: Array) -> Array:
    """r (gamma + r), the share of variance that knowing the maximum removes; 1 - 1 / gamma^2 far below."""
    r = hazard(gamma)
    far = gamma < -50.0
    return np.where(far, 1.0 - 1.0 / np.where(far, gamma, 1.0) ** 2, r * (gamma + r))


def gibbon(rho: Array, gamma: Array) -> Array:
    """The closed-form bound; broadcasts."""
    return np.asarray(-0.5 * np.log1p(-np.clip(rho**2 * _shrinkage(gamma), 0.0, 1.0 - 1e-12)))


def mes(gamma: Array) -> Array:
    """The information of an exact evaluation of the target itself."""
    found: Array = 0.5 * gamma * hazard(gamma) - special.log_ndtr(gamma)
    return found


def mumbo(rho: Array, gamma: Array) -> Array:
    """The mutual information by quadrature: three Gauss-Legendre rules, split where the skewing factor is steep; broadcasts."""
    rho, gamma = np.broadcast_arrays(np.clip(rho, -1.0, 1.0), gamma)
    rho = np.abs(rho)  # mirrored t
    inner = np.minimum(rho, _ALMOST_ONE)
    spread = np.maximum(np.sqrt((1.0 - inner) * (1.0 + inner)), 1e-10)
    r = hazard(gamma)
    mean = -inner * r
    sd = np.sqrt(np.clip(1.0 - inner**2 * _shrinkage(gamma), 1e-12, 1.0))
    low, high = mean - _REACH * sd, mean + _REACH * sd
    centre = gamma / np.maximum(inner, 1e-6)
    width = _STEEP * spread / np.maximum(inner, 1e-6)
    cuts = [low, np.clip(centre - width, low, high), np.clip(centre + width, low, high), high]
    normaliser = special.log_ndtr(gamma)
    total = 0.5 * inner**2 * gamma * r
    for begin, end in itertools.pairwise(cuts):
        half = 0.5 * (end - begin)
        t = begin[..., None] + half[..., None] * (_NODES + 1.0)
        log_w = special.log_ndtr((gamma[..., None] - inner[..., None] * t) / spread[..., None]) - normaliser[..., None]
        density = np.exp(-0.5 * t**2 - _LOG_ROOT_2PI + log_w)
        total = total + half * np.sum(_WEIGHTS * density * np.where(density > 0, log_w, 0.0), axis=-1)
    return np.asarray(np.where(rho >= _ALMOST_ONE, mes(gamma), np.maximum(total, 0.0)))


ACQUISITIONS: dict[str, Callable[[Array, Array], Array]] = {"gibbon": gibbon, "mumbo": mumbo}


class Evaluations(Protocol):
    """Evaluations at m rows on p realizations, and the target there."""

    @property
    def mean(self) -> Array: ...  # (m,) of the target
    @property
    def sd(self) -> Array: ...  # (m,)
    def correlation(self) -> Array: ...  # (m, p)


def log_batch_entropy(name: str, joint: Evaluations, maxima: Array, shrunk: Array) -> Array:
    """(m, p) the log of eq. (2) for one more member of a batch, at rows on realizations.

    Args:
        name: "gibbon" or "mumbo".
        joint: evaluations and target.
        maxima: (k,) sampled ones of the target, which is a loss: of minus the target.
        shrunk: (m, p) the weighted log of how much running trials shrink the variance of an evaluation: log |C|, greedily.
    """
    rho, batch = joint.correlation(), 0.5 * shrunk
    gamma = (maxima[None, :] + joint.mean[:, None]) / joint.sd[:, None]
    value = gibbon(rho[:, :, None], gamma[:, None, :]).mean(axis=-1) + batch
    if name != "gibbon":
        line, at = np.arange(len(rho))[:, None], np.argsort(-value, axis=1)[:, :MOST_EXACT]
        exact = ACQUISITIONS[name](rho[line, at][:, :, None], gamma[:, None, :]).mean(axis=-1) + batch[line, at]
        value = np.full_like(value, -np.inf)
        value[line, at] = exact
    found: Array = np.log(np.maximum(value, _NOTHING))
    return found


def exact_maxima(mean: Array, covariance: Array, draws: int, rng: np.random.Generator) -> Array:
    """(draws,) maxima of joint normal draws at k places with mean (k,) and covariance (k, k)."""
    L = linalg.cholesky(covariance + 1e-10 * np.eye(len(mean)) * max(1e-12, float(np.mean(np.diag(covariance)))))
    return np.asarray((mean[:, None] + L @ rng.normal(size=(len(mean), draws))).max(axis=0))


def gumbel_maxima(mean: Array, sd: Array, draws: int, rng: np.random.Generator) -> Array:
    """(draws,) maxima at k places taken as independent, by a Gumbel law through their quartiles (Wang and Jegelka 2017)."""

    low, high = float(np.min(mean - 5.0 * sd)), float(np.max(mean + 8.0 * sd))

    def quantile(p: float) -> float:
        return float(optimize.brentq(lambda m: float(np.sum(special.log_ndtr((m - mean) / sd))) - np.log(p), low, high))

    lower, middle, upper = quantile(0.25), quantile(0.5), quantile(0.75)
    scale = max((lower - upper) / (np.log(np.log(4.0 / 3.0)) - np.log(np.log(4.0))), 1e-12)
    place = middle + scale * np.log(np.log(2.0))
    return np.asarray(place - scale * np.log(-np.log(rng.random(draws))))
