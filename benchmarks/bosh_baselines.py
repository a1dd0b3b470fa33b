"""What BOSH is compared with: batches by local penalisation, and cross-validation fold by fold. To compare with, not to use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from raytree import Optimizer, Space
from raytree.acquisition.improvement import log_ei
from raytree.gp import linalg
from raytree.gp.kernels import matern52
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import standardized
from raytree.models.leaf import Settings
from raytree.optimizers.tree import TreeInference
from raytree.strategies.base import Search, Strategy


def _climbed(score: Any, starts: Array, step: float = 1e-5) -> Array:
    """The best row of the unit cube from starts (k, d): coordinates by finite differences."""

    def negative(x: Array) -> tuple[float, Array]:
        steps = step * np.eye(len(x))
        values = score(np.vstack([x, x + steps, x - steps]))
        return -float(values[0]), -(values[1 : 1 + len(x)] - values[1 + len(x) :]) / (2.0 * step)

    found = [
        minimize(negative, x, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(x), options={"maxfun": 25}) for x in starts
    ]
    return np.asarray(min(found, key=lambda result: float(result.fun)).x)


class Penalized(Strategy):
    """Expected improvement of the tree model, pushed down around running trials."""

    def __init__(self, search: Search) -> None:
        super().__init__(search)
        self.inference = TreeInference(search.given, search.seed, Settings(), "smooth", "edges", "linear", fidelities=False)

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            space, trials = self.search.space, self.search.trials
            fitted = self.inference.fit(trials.losses(), 1.0)
            posterior, path = fitted.posterior.parts[0], space.paths()[0]
            grid = rng.random((500, space.d))
            steepest = max(float(np.linalg.norm(posterior.gradient(path, row).by_mean)) for row in grid[:100])
            running = np.array([trial.row for trial in trials.running()]).reshape(-1, space.d)
            there = posterior.predict(path, running)

            def score(rows: Array) -> Array:
                prediction = posterior.predict(path, rows)
                value = log_ei(prediction.mean, prediction.sd, fitted.best)
                for row, mean, sd in zip(running, there.mean, there.sd, strict=True):
                    distance = np.linalg.norm(rows - row, axis=1)
                    value = value + log_ndtr((max(steepest, 1e-7) * distance - (mean - fitted.best)) / max(sd, 1e-9))
                return np.asarray(value)

            best = grid[np.argsort(-score(grid))[:5]]
            return [_climbed(score, np.vstack([best, fitted.around[path][:1]])), *best]


class LocalPenalization(Optimizer):
    """Batches of expected improvement (Gonzalez et al. 2016): EI is pushed down around running trials, as far as a function with
    the estimated Lipschitz constant cannot do better there. Spaces of real parameters without decisions only."""

    def __init__(self, space: Any, **settings: Any) -> None:
        super().__init__(space, Penalized, {}, **settings)


class FastCV:
    """Multi-task cross-validation (Swersky et al. 2013): K fixed seeds as tasks with a free covariance between them.

    A configuration is chosen by expected improvement of the mean over tasks, then the one task by its own. Starts with d + 3
    configurations on every task. Minimises; real parameters only.
    """

    def __init__(self, space: Space, k: int, seed: int) -> None:
        self.space, self.k = space, k
        self._rng = np.random.default_rng([seed, 9])
        self._queue = [(row, task) for row in self._rng.random((space.d + 3, space.d)) for task in range(k)]
        self._rows: list[Array] = []
        self._tasks: list[int] = []
        self._values: list[float] = []
        self._theta: Array | None = None

    def ask(self) -> tuple[dict, int]:
        row, task = self._queue.pop(0) if self._queue else self._choose()
        self._asked = (row, task)
        return self._config(row), task

    def _config(self, row: Array) -> dict:
        return self.space.config(self.space.decode(self.space.mask(row[None])[0]))

    def tell(self, value: float) -> None:
        row, task = self._asked
        self._rows.append(row)
        self._tasks.append(task)
        self._values.append(value)

    def _unpack(self, theta: Array) -> tuple[float, Array, Array]:
        d, k = self.space.d, self.k
        factor = np.zeros((k, k))
        factor[np.tril_indices(k)] = theta[1 + d :]
        return float(np.exp(theta[0])), np.exp(-2.0 * theta[1 : 1 + d]), factor @ factor.T

    def _correlation(self, a: Array, b: Array, inverse: Array) -> Array:
        return matern52(np.einsum("ijk,k->ij", (a[:, None] - b[None]) ** 2, inverse))[0]

    def _fit(self) -> None:
        X, tasks = np.array(self._rows), np.array(self._tasks)
        self._scale = standardized(np.array(self._values))
        y = self._scale.forward(np.array(self._values))
        d, k = self.space.d, self.k
        start = np.concatenate([[np.log(1e-2)], np.full(d, np.log(0.3)), (0.7 * np.eye(k) + 0.5)[np.tril_indices(k)]])

        def objective(theta: Array) -> float:
            noise, inverse, C = self._unpack(theta)
            try:
                L = linalg.cholesky(C[np.ix_(tasks, tasks)] * self._correlation(X, X, inverse) + (noise + 1e-6) * np.eye(len(y)))
            except np.linalg.LinAlgError:
                return 1e10
            v = linalg.solve_lower(L, y)
            prior = 0.5 * np.sum((theta[1 : 1 + d] - np.log(0.3)) ** 2 / 0.64) + 0.5 * np.sum(
                (theta[1 + d :] - start[1 + d :]) ** 2
            )
            return float(0.5 * (v @ v + linalg.log_det(L)) + prior + 0.5 * ((theta[0] - start[0]) / 3.0) ** 2)

        bounds = [(np.log(1e-6), 1.0), *[(np.log(0.02), np.log(10.0))] * d, *[(-4.0, 4.0)] * (k * (k + 1) // 2)]
        first = start if self._theta is None else self._theta
        self._theta = minimize(objective, first, method="L-BFGS-B", bounds=bounds, options={"maxiter": 8}).x
        noise, self._inverse, self._C = self._unpack(self._theta)
        self._X, self._at = X, tasks
        K = self._C[np.ix_(tasks, tasks)] * self._correlation(X, X, self._inverse)
        self._L = linalg.cholesky(K + (noise + 1e-6) * np.eye(len(y)))
        self._alpha = linalg.solve(self._L, y)

    def _predict(self, rows: Array, weights: Array) -> tuple[Array, Array]:
        """Mean and sd of a weighted sum of tasks at rows (m, d)."""
        k = (self._C[self._at] @ weights)[:, None] * self._correlation(self._X, rows, self._inverse)
        w = linalg.solve_lower(self._L, k)
        prior = float(weights @ self._C @ weights)
        return self._alpha @ k, np.sqrt(np.maximum(prior - np.sum(w**2, axis=0), 1e-12))

    def _choose(self) -> tuple[Array, int]:
        with one_thread():
            self._fit()
            mean = np.full(self.k, 1.0 / self.k)
            best = float(self._predict(self._X, mean)[0].min())

            def score(rows: Array) -> Array:
                return log_ei(*self._predict(rows, mean), best)

            grid = np.vstack([self._rng.random((500, self.space.d)), self._X])
            row = _climbed(score, grid[np.argsort(-score(grid))[:4]])
            tasks = []
            for task in range(self.k):
                one = np.eye(self.k)[task]
                known = self._X[self._at == task]
                tasks.append(float(log_ei(*self._predict(row[None], one), float(self._predict(known, one)[0].min()))[0]))
            return row, int(np.argmax(tasks))

    def recommend(self) -> dict:
        """The evaluated configuration with the lowest mean over tasks."""
        with one_thread():
            self._fit()
            means = self._predict(self._X, np.full(self.k, 1.0 / self.k))[0]
        return self._config(self._X[int(np.argmin(means))])
