"""What the model expects around the leader of a branch: along single parameters, over pairs, and the best anywhere."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from raytree.gp.linalg import Array
from raytree.lazy import qmc
from raytree.report.belief import Belief
from raytree.report.view import Contour, Slice
from raytree.space import Path

FINE = 41
"""Places along a slice, where the parameter has so many values."""
COARSE = 21
"""Places along each side of a contour."""
MOST_PAIRED = 6
"""Parameters of a branch, the most important ones, that contours are drawn of."""
SHOWN = 0.8
"""Of a contour, the better part, that is told apart: what is worse looks all alike."""
LOOKED_AT = 256
"""Places of a branch among which its best expected value is looked for."""


def places(belief: Belief, path: Path, parameter: int, most: int) -> tuple[Array, list[float]]:
    """Units (k,) along a parameter inside the cell of its path, if it is a decision, and the values there."""
    space = belief.space
    domain = space.parameters[parameter].domain
    if domain.size <= most:
        units = np.array([domain.unit(code) for code in domain.codes()])
        cell = space.cell_of(path).get(parameter)
        if cell is not None:
            low, high = space.cells[parameter].interval(cell)
            units = units[(units >= low) & (units <= high)]
    else:
        units = np.linspace(0.0, 1.0, most)
        cell = space.cell_of(path).get(parameter)
        units = np.unique(domain.snap(units if cell is None else space.cells[parameter].place(cell, units)))
    return units, [float(domain.code(float(unit))) for unit in units]


def slices(belief: Belief, branch: int, path: Path, row: Array) -> list[Slice]:
    """A slice for every parameter that can vary on a path, through a row (d,)."""
    found = []
    for parameter in belief.space.free(path):
        units, values = places(belief, path, parameter, FINE)
        rows = np.repeat(row[None], len(units), axis=0)
        rows[:, parameter] = units
        outlook = belief.predict(path, rows)
        found.append(Slice(branch, parameter, values, outlook.mean.tolist(), outlook.low.tolist(), outlook.high.tolist()))
    return found


def contours(belief: Belief, branch: int, path: Path, row: Array, parameters: Sequence[int]) -> list[Contour]:
    """A contour for every pair of some parameters of a path, through a row (d,)."""
    found = []
    for across, up in combinations(parameters[:MOST_PAIRED], 2):
        (units_x, x), (units_y, y) = (places(belief, path, i, COARSE) for i in (across, up))
        rows = np.repeat(row[None], len(x) * len(y), axis=0)
        rows[:, across], rows[:, up] = np.tile(units_x, len(y)), np.repeat(units_y, len(x))
        mean = belief.predict(path, rows).mean
        ends = (0.0, SHOWN) if belief.lower_is_better else (1.0 - SHOWN, 1.0)
        low, high = (float(end) for end in np.quantile(mean, ends))
        mean = np.clip(mean, low, high)
        levels = np.round(255.0 * (mean - low) / (high - low) if high > low else np.zeros(len(mean))).astype(np.uint8)
        found.append(Contour(branch, across, up, x, y, low, high, base64.b64encode(levels.tobytes()).decode()))
    return found


def reachable(belief: Belief, path: Path, rows: Array, goal: float) -> tuple[float, float, float]:
    """The best expected value of a path, its sd, and the chance of the most promising place to be better than a goal.

    Args:
        belief: what to ask.
        path: the path.
        rows: (m, d) its evaluated configurations.
        goal: a value in the user's units.
    """
    new = _untried(belief, path, rows)
    every = np.vstack([rows, new])
    k = int(np.argmin(belief.z(path, every)[0]))
    outlook = belief.predict(path, every[k][None])
    chance = float(belief.chance_below(path, new, goal).max()) if len(new) else 0.0
    return float(outlook.mean[0]), float(outlook.sd[0]), chance


def _untried(belief: Belief, path: Path, rows: Array) -> Array:
    """(k, d) rows of a path to look at: all over it, around the best of its evaluated ones (m, d), or those left of a pool."""
    space, left = belief.space, belief.candidates()
    if left is not None:
        return left[[found == path for found in space.paths_of(left)]]

    drawn = qmc.Sobol(max(1, space.d), scramble=True, rng=np.random.default_rng(0)).random(LOOKED_AT)[:, : space.d]
    near = rows[np.argsort(belief.z(path, rows)[0], kind="stable")[:8]]
    spread = np.random.default_rng(0).normal(scale=0.05, size=(16, len(near), space.d))
    around = np.clip(np.nan_to_num(near, nan=0.5)[None] + spread, 0.0, 1.0).reshape(-1, space.d)
    around = np.where(np.isnan(np.tile(near, (16, 1))), np.nan, around)
    snapped = around.copy()
    for i, parameter in enumerate(space.parameters):
        alive = ~np.isnan(around[:, i])
        snapped[alive, i] = parameter.domain.snap(around[alive, i])
    inside = snapped[[found == path for found in space.paths_of(snapped)]]
    tried = {row.tobytes() for row in np.round(rows, 9)}
    new = np.vstack([space.on_path(path, drawn), inside])
    return new[[row.tobytes() not in tried for row in np.round(new, 9)]]
