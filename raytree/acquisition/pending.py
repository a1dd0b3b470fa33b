"""What running trials are taken for while the next one is chosen.

- "believer": they come out as expected. Means stay, variances shrink: rows near running trials are worth less.
- "fantasy": the acquisition is averaged over guesses at their values.
- "thompson": while some are running, the next one minimises a function drawn from the posterior.
- "ignore": nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from raytree.acquisition.maximize import Candidate
from raytree.gp import linalg
from raytree.gp.linalg import Array
from raytree.gp.posterior import Mixture, Posterior
from raytree.space import Path, Space

TREATMENTS = ("believer", "fantasy", "thompson", "ignore")
FANTASIES = 8
"""Guesses at the values of running trials."""
SAME = 1e-3
"""Of the unit interval: rows closer than this are the same trial twice."""
DRAWN = 24
"""Random rows of a path, among which a drawn function is minimised."""
SPRAYED = 8
"""The same around each of the path's best rows, at each distance."""
SPREADS = (0.1, 0.01, 0.001)
"""Those distances."""
RESERVE = 32
"""Rows handed on, should the lowest of a drawn function have been tried."""


def fantasies(posterior: Mixture, rows: Array, paths: Sequence[Path], rng: np.random.Generator) -> Mixture:
    """A mixture over guesses at the values of running trials with rows (m, d)."""
    guesses = draws(posterior, rows, paths, FANTASIES, rng)
    each = [posterior.condition(rows, paths, values) for values in guesses]
    parts = [part for mixture in each for part in mixture.parts]
    return Mixture(parts, np.concatenate([mixture.weights for mixture in each]) / len(each))


def draws(posterior: Posterior, rows: Array, paths: Sequence[Path], n: int, rng: np.random.Generator) -> Array:
    """(n, m) functions drawn from a posterior at rows (m, d)."""
    mean, covariance = posterior.joint(rows, paths)
    return np.asarray(mean + rng.normal(size=(n, len(mean))) @ linalg.cholesky(covariance).T)


def lowest_of_drawn(posterior: Posterior, rows: Array, paths: Sequence[Path], rng: np.random.Generator) -> list[Array]:
    """Rows (m, d) in the order of a function drawn from the posterior, lowest first (Thompson sampling)."""
    drawn = draws(posterior, rows, paths, 1, rng)[0]
    return list(rows[np.argsort(drawn, kind="stable")[:RESERVE]])


def places(space: Space, paths: Sequence[Path], around: dict[Path, Array], rng: np.random.Generator) -> Array:
    """(m, d) rows to look for the lowest value of a drawn function: random ones of some paths, and some around good ones."""
    groups = []
    for path in paths:
        units = [rng.random((DRAWN, space.d))]
        for row in around.get(path, np.empty((0, space.d))):
            units += [np.nan_to_num(row, nan=0.5) + spread * rng.normal(size=(SPRAYED, space.d)) for spread in SPREADS]
        groups.append(space.on_path(path, np.clip(np.concatenate(units), 0.0, 1.0)))
    return np.concatenate(groups)


def apart(candidates: Sequence[Candidate], running: Sequence[tuple[Path, Array]]) -> list[Candidate]:
    """The candidates without those that are the same as a running trial, unless all are: what it will say is on its way."""
    rows: dict[Path, list[Array]] = {}
    for path, row in running:
        rows.setdefault(path, []).append(row)
    on_path = {path: np.array(of_path) for path, of_path in rows.items()}

    def is_running(candidate: Candidate) -> bool:
        if candidate.path not in on_path:
            return False
        apart = np.nanmax(np.abs(on_path[candidate.path] - candidate.row), axis=1, initial=0.0)
        return bool(apart.min() < SAME)

    return [candidate for candidate in candidates if not is_running(candidate)] or list(candidates)
