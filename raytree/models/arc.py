"""The Gaussian process with the arc kernel (Swersky et al. 2014): a baseline of Jenatton et al. 2017, section 4.

An inactive coordinate sits at the centre of a circle of radius w_i, an active one on an arc of it:
x -> w_i (sin(pi rho_i x), cos(pi rho_i x)); then Matern-5/2 on the embedding. Between two active values that is a squared
distance of 2 w_i^2 (1 - cos(pi rho_i (x - x'))), between an active and an inactive one w_i^2.

Cost O(n^3): this is to compare with, not to use. Notation: n observations, d coordinates, theta logarithms.
"""

from __future__ import annotations

import numpy as np

from raytree.gp import linalg
from raytree.gp.inference import fit
from raytree.gp.kernels import matern52
from raytree.gp.linalg import Array
from raytree.gp.posterior import Prediction
from raytree.gp.priors import normal

_LOG_2PI = np.log(2.0 * np.pi)


class ArcGP:
    """A GP on rows (n, d) with NaN where inactive.

    Args:
        rows: (n, d).
        y: (n,) standardised losses.
        categorical: (d,) which coordinates have no order.
    """

    def __init__(self, rows: Array, y: Array, categorical: np.ndarray) -> None:
        self.rows, self.y, self.categorical = rows, y, categorical
        d = rows.shape[1]
        scale = [(np.log(1.0), 1.0)] * d  # inverse radii
        angle = [(np.log(0.5), 0.5)] * d
        prior = np.array([(np.log(1e-6), 3.0), (1.0, 1.0), *scale, *angle])
        self.mean, self.sd = prior[:, 0], prior[:, 1]
        top = [(np.log(1e-2), 0.0)] * d  # rho in (0, 1]
        self.bounds = np.array([(np.log(1e-8), 2.0), (-8.0, 8.0), *[(np.log(0.01), np.log(100.0))] * d, *top])
        self._difference = self._differences(rows, rows)

    def _differences(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Differences (d, n, m), 0 where one is inactive, and 1 (d, n, m) where exactly one is."""
        difference = a.T[:, :, None] - b.T[:, None, :]
        alone = np.isnan(a.T)[:, :, None] != np.isnan(b.T)[:, None, :]
        difference = np.nan_to_num(difference, nan=0.0)
        difference[self.categorical] = np.abs(difference[self.categorical]) > 1e-9
        return difference, alone.astype(float)

    def _distance(self, theta: Array, parts: tuple[Array, Array]) -> tuple[Array, Array]:
        """Squared distances (n, m) and their derivatives (len(theta) - 2, n, m)."""
        difference, alone = parts
        d = len(difference)
        weight = np.exp(-2.0 * theta[2 : 2 + d])[:, None, None]
        turn = np.pi * np.exp(theta[2 + d :])[:, None, None] * difference
        chord = 2.0 * (1.0 - np.cos(turn))
        chord[self.categorical] = difference[self.categorical]
        terms = weight * (chord + alone)
        by_angle = 2.0 * weight * np.sin(turn) * turn
        by_angle[self.categorical] = 0.0
        return terms.sum(0), np.concatenate([-2.0 * terms, by_angle])

    def objective(self, theta: Array) -> tuple[float, Array]:
        """Minus the log-posterior of theta, and its gradient."""
        n = len(self.y)
        r2, by_theta = self._distance(theta, self._difference)
        k, slope = matern52(r2)
        amplitude, noise = np.exp(theta[1]), np.exp(theta[0])
        L = linalg.cholesky(amplitude * k + noise * np.eye(n))
        alpha = linalg.solve(L, self.y)
        W = linalg.solve(L, np.eye(n)) - np.outer(alpha, alpha)
        value = 0.5 * (self.y @ alpha + linalg.log_det(L) + n * _LOG_2PI)
        lengths = 0.5 * np.einsum("ij,kij->k", W * (-0.5 * amplitude * slope), by_theta)
        gradient = np.concatenate([[0.5 * noise * np.trace(W), 0.5 * amplitude * np.sum(W * k)], lengths])
        penalty, by_prior = normal(theta, self.mean, self.sd)
        return float(value + penalty), gradient + by_prior

    def fit(self, start: Array | None, max_evaluations: int) -> Array:
        """The MAP theta from a warm start, which `predict` then uses."""
        theta, _ = fit(self.objective, self.mean if start is None else start, self.bounds, max_evaluations)
        self.theta = theta
        r2, _ = self._distance(theta, self._difference)
        self.L = linalg.cholesky(np.exp(theta[1]) * matern52(r2)[0] + np.exp(theta[0]) * np.eye(len(self.y)))
        self.alpha = linalg.solve(self.L, self.y)
        return theta

    def predict(self, rows: Array) -> Prediction:
        """Mean and sd of the function at rows (m, d)."""
        amplitude = np.exp(self.theta[1])
        r2, _ = self._distance(self.theta, self._differences(self.rows, rows))
        k = amplitude * matern52(r2)[0]
        w = linalg.solve_lower(self.L, k)
        return Prediction(self.alpha @ k, np.sqrt(np.maximum(amplitude - np.sum(w**2, axis=0), 1e-18)))
