"""Context kernels: what an evaluation at fidelity s says about one at fidelity s' (1 is complete, 0 the least there is).

A model multiplies its kernel by one: K((x, s), (x', s')) = K(x, x') K_context(s, s'). All are positive semi-definite with
K_context(1, 1) = 1, so that complete evaluations are modelled as if there were no others.

- "quadratic": f(x, s) = (1 + a e) g0(x) + c e g1(x) with e = (1 - s)^2 (Klein et al. 2017, "Fabolas", on log-fidelities).
- "decay": the same with e = (exp(k (1 - s)) - 1) / (exp(k) - 1). On log-fidelities that is a power law, as learning curves are.
- "matern": Matern-5/2 in s; fidelities far apart have little to do with each other, with no shape in between.

`trend` has the features of a curve that all evaluations have in common. What neither explains of evaluations that are not
complete is noise, more of it the further they are from complete (`early`): without, curves of another shape than the
kernel's blur what is known exactly at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from raytree.gp.kernels import matern52
from raytree.gp.linalg import Array

TRENDS = 2
"""The number of features of the common curve."""


class Parameter(NamedTuple):
    """A normal prior and bounds."""

    mean: float
    sd: float
    low: float
    high: float


class Context(NamedTuple):
    """A context kernel: `slopes` gives it and its derivatives (k, n, m) by its k parameters, for s (n,) and t (m,)."""

    name: str
    parameters: tuple[Parameter, ...]
    slopes: Callable[[Array, Array, Array], tuple[Array, Array]]

    def __call__(self, theta: Array, s: Array, t: Array) -> Array:
        """(..., n, m) the kernel of fidelities s (..., n) and t (..., m)."""
        return self.slopes(theta, s, t)[0]

    def diagonal(self, theta: Array, s: Array) -> Array:
        """(n,) the kernel of each fidelity with itself."""
        return self(theta, s[:, None], s[:, None])[:, 0, 0]


def early(s: Array) -> Array:
    """(...) how much of the early noise's variance evaluations at fidelities s have: complete ones none."""
    return np.asarray((1.0 - s) ** 2)


def trend(s: Array) -> Array:
    """(..., 2) features of fidelities, 0 for complete evaluations."""
    left = 1.0 - s
    return np.stack([left, left**2], axis=-1)


def _rank_two(a: float, log_c: float, e: Array, f: Array) -> tuple[Array, Array]:
    """(1 + a e)(1 + a f)' + c^2 e f', and its derivatives by a and log c."""
    e, f = e[..., :, None], f[..., None, :]
    own = np.exp(2.0 * log_c) * e * f
    return (1.0 + a * e) * (1.0 + a * f) + own, np.stack([e * (1.0 + a * f) + f * (1.0 + a * e), 2.0 * own])


def _quadratic(theta: Array, s: Array, t: Array) -> tuple[Array, Array]:
    return _rank_two(theta[0], theta[1], (1.0 - s) ** 2, (1.0 - t) ** 2)


def _decay(theta: Array, s: Array, t: Array) -> tuple[Array, Array]:
    a, log_c, k = float(theta[0]), float(theta[1]), float(np.exp(theta[2]))

    def curve(left: Array) -> tuple[Array, Array]:
        value = np.expm1(k * left) / np.expm1(k)
        return value, k * (left * np.exp(k * left) - value * np.exp(k)) / np.expm1(k)

    (e, de), (f, df) = curve(1.0 - s), curve(1.0 - t)
    kernel, slopes = _rank_two(a, log_c, e, f)
    by_e = a * (1.0 + a * f[..., None, :]) + np.exp(2.0 * log_c) * f[..., None, :]
    by_f = a * (1.0 + a * e[..., :, None]) + np.exp(2.0 * log_c) * e[..., :, None]
    by_k = de[..., :, None] * by_e + df[..., None, :] * by_f
    return kernel, np.concatenate([slopes, by_k[None]])


def _matern(theta: Array, s: Array, t: Array) -> tuple[Array, Array]:
    scaled = ((s[..., :, None] - t[..., None, :]) * np.exp(-theta[0])) ** 2
    kernel, slope = matern52(scaled)
    return kernel, (slope * scaled)[None]


EARLY_NOISE = Parameter(np.log(1e-4), 3.0, np.log(1e-8), 2.0)
"""Of the logarithm of the early noise's variance, in units of standardised losses."""
_SHRINK = Parameter(0.0, 0.5, -3.0, 3.0)
_OWN = Parameter(np.log(0.5), 1.0, -5.0, 2.0)
CONTEXTS = {
    "quadratic": Context("quadratic", (_SHRINK, _OWN), _quadratic),
    "decay": Context("decay", (_SHRINK, _OWN, Parameter(np.log(2.0), 0.5, -2.0, 2.0)), _decay),
    "matern": Context("matern", (Parameter(0.0, 0.7, -3.0, 3.0),), _matern),
}
