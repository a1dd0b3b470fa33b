"""Finding the best next row: Sobol points and points around good ones on every path, the best refined.

Continuous coordinates are refined by L-BFGS-B inside the path's box, so that an optimum on the boundary is reached exactly;
discrete ones by trying their neighbours. Work is counted in evaluations, never in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from raytree.design import shifted_net
from raytree.gp.linalg import Array
from raytree.lazy import optimize
from raytree.space import Categorical, Path, Space

Score = Callable[[Path, Array], Array]
"""(path, rows (m, d)) -> (m,) to be maximised."""
Slope = Callable[[Path, Array], tuple[float, Array]]
"""(path, row (d,)) -> value and gradient (d,)."""

RADII = (0.2, 0.05, 0.01, 0.002)
"""Distances at which rows around a good one are looked at."""
FIRST = 12
"""Gradients for every start."""
LAST = 40
"""Gradients for the best of them afterwards."""
ROUGH = 1e-4
"""The tolerance for every start."""
EXACT = 1e-6
"""The tolerance for the best."""
APART = 0.05
"""Starts closer than this end at one summit."""
GLANCE = 16
"""Sobol points of a path that decide whether it is searched."""
SEARCHED = 4
"""Paths that are searched: of more, those that are best at a glance."""
KEPT = 4
"""Rows that a path keeps as starts and as a reserve."""
KEPT_DISCRETE = 32
"""The same where all parameters are discrete: the best may have been evaluated."""
_MAX_NEIGHBOURS = 12


class Candidate(NamedTuple):
    """A row (d,) on its path, and what it is worth."""

    value: float
    path: Path
    row: Array


class Gain(NamedTuple):
    """What rows are worth: the score of many, and the score of one with its gradient."""

    score: Score
    slope: Slope


class Box(NamedTuple):
    """The coordinates of a path that vary: continuous ones with their bounds, discrete ones."""

    continuous: np.ndarray
    bounds: Array  # (k, 2)
    discrete: tuple[int, ...]


def box_of(space: Space, path: Path, fixed: frozenset[int] = frozenset()) -> Box:
    """What can be changed on a path, `fixed` parameters left out."""
    free = [i for i in space.free(path) if i not in fixed]
    cell_of = space.cell_of(path)
    continuous = [i for i in free if math.isinf(space.parameters[i].domain.size)]
    bounds = []
    for i in continuous:
        ends = np.array([0.0, 1.0])
        ends = space.cells[i].place(cell_of[i], ends) if i in cell_of else ends
        bounds.append(space.parameters[i].domain.snap(ends))
    discrete = tuple(i for i in free if i not in set(continuous))
    return Box(np.array(continuous, dtype=int), np.array(bounds).reshape(-1, 2), discrete)


def numeric_slope(score: Score, box: Box, step: float = 1e-6) -> Slope:
    """The slope of a score by differences in the continuous coordinates of a box, which they do not leave."""

    def slope(path: Path, row: Array) -> tuple[float, Array]:
        places = box.continuous
        up, down = np.minimum(row[places] + step, box.bounds[:, 1]), np.maximum(row[places] - step, box.bounds[:, 0])
        rows = np.repeat(row[None], 2 * len(places) + 1, axis=0)
        each = np.arange(len(places))
        rows[1 + each, places], rows[1 + len(places) + each, places] = up, down
        values = score(path, rows)
        gradient = np.zeros(len(row))
        gradient[places] = (values[1 : 1 + len(places)] - values[1 + len(places) :]) / np.maximum(up - down, 1e-12)
        return float(values[0]), gradient

    return slope


def starting_rows(
    space: Space, path: Path, box: Box, units: Array, around: Array, rng: np.random.Generator, n_local: int
) -> Array:
    """(m, d) rows on a path from units of the cube, and each of `around` (k, d) with rows near it at several distances."""
    parts = [space.on_path(path, units), around]
    spread = np.repeat(RADII, n_local)[:, None]
    for row in around:
        rows = np.repeat(row[None], len(spread), axis=0)
        steps = spread * rng.normal(size=(len(spread), len(box.continuous)))
        steps *= rng.random(steps.shape) < max(0.5, 1.0 / max(1, len(box.continuous)))
        rows[:, box.continuous] = np.clip(rows[:, box.continuous] + steps, box.bounds[:, 0], box.bounds[:, 1])
        for i in box.discrete:
            others = _elsewhere(space, path, i, float(row[i]))
            moved = np.flatnonzero(rng.random(len(rows)) < max(0.25, 1.0 / len(box.discrete)))
            if others:
                rows[moved, i] = np.array(others)[rng.integers(len(others), size=len(moved))]
        parts.append(rows)
    rows = np.concatenate(parts)
    return _distinct(rows) if box.discrete else rows


def _distinct(rows: Array) -> Array:
    """Rows without repetitions, in their order."""
    return rows[sorted({row.tobytes(): k for k, row in reversed(list(enumerate(rows)))}.values())]


def _elsewhere(space: Space, path: Path, i: int, unit: float) -> list[float]:
    """Units of other values of a discrete parameter that stay on the path."""
    cell_of = space.cell_of(path)
    domain = space.parameters[i].domain
    return [
        other
        for other in neighbours(space, i, unit)
        if i not in cell_of or space.cells[i].index(domain.code(other)) == cell_of[i]
    ]


def transplanted(space: Space, row: Array, paths: Sequence[Path]) -> Array:
    """(p, d) a row moved to other paths: what is alive on both keeps its value, what comes to life is in its middle."""
    moved: Array = space.on_paths(paths, np.full((1, space.d), 0.5))[:, 0]
    kept = ~np.isnan(moved) & ~np.isnan(row)
    here = space.paths_of(row[None])[0]
    for k, j in enumerate(space.decisions):
        kept[:, j] &= np.array([path[k] == here[k] for path in paths], dtype=bool)
    return np.where(kept, row, moved)


def maximize(
    space: Space,
    paths: Sequence[Path],
    gain: Gain,
    around: dict[Path, Array],
    rng: np.random.Generator,
    n_sobol: int = 128,
    n_local: int = 4,
    n_refined: int = 2,
    like: Array | None = None,
    everywhere: Array | None = None,
) -> list[Candidate]:
    """Candidates, best first: the refined ones, then the best of the others as a reserve against duplicates.

    Args:
        space: the search space.
        paths: where to look.
        gain: to be maximised.
        around: for some of the paths, rows (k, d) near which to look.
        rng: of the starting points.
        n_sobol: Sobol points per path.
        n_local: points per row of `around` and distance.
        n_refined: how many starts are refined, over all paths.
        like: a row (d,) whose shared parameters all candidates have.
        everywhere: a row (d,), such as the best so far, that is tried on every path, as far as it is alive there.
    """
    fixed = frozenset() if like is None else space.shared
    shared = sorted(fixed)
    units = shifted_net(n_sobol, space.d, rng)
    boxes = {path: box_of(space, path, fixed) for path in paths}
    near = {path: around.get(path, np.empty((0, space.d))) for path in paths}
    if everywhere is not None:
        moved = transplanted(space, everywhere, paths)
        near = {path: np.vstack([near[path], moved[k : k + 1]]) for k, path in enumerate(paths)}

    def best_of(path: Path, rows: Array) -> list[Candidate]:
        if like is not None:
            rows[:, shared] = like[shared]
        values = gain.score(path, rows)
        kept = KEPT if len(boxes[path].continuous) else KEPT_DISCRETE
        return [Candidate(float(values[k]), path, rows[k]) for k in np.argsort(-values, kind="stable")[:kept].tolist()]

    found: list[Candidate] = []
    searched = list(paths)
    if len(paths) > SEARCHED:
        glances = space.on_paths(paths, units[:GLANCE])
        seen = [best_of(path, np.vstack([rows, near[path]])) for path, rows in zip(paths, glances, strict=True)]
        seen.sort(key=lambda best: -best[0].value)
        searched = [best[0].path for best in seen[:SEARCHED]]
        found = [candidate for best in seen[SEARCHED:] for candidate in best]
    for path in searched:
        found += best_of(path, starting_rows(space, path, boxes[path], units, near[path], rng, n_local))
    found.sort(key=lambda candidate: -candidate.value)
    first = [refine(space, start, boxes[start.path], gain, FIRST, ROUGH) for start in _apart(found, n_refined)]
    first.sort(key=lambda candidate: -candidate.value)
    best = refine(space, first[0], boxes[first[0].path], gain, LAST, EXACT)
    return [best, *first, *found]


def _apart(found: Sequence[Candidate], n: int) -> list[Candidate]:
    """The first n candidates that are not close to an earlier one: two starts on one slope end at one summit."""
    chosen: list[Candidate] = []
    for candidate in found:
        same = (other.row for other in chosen if other.path == candidate.path)
        if all(np.nanmax(np.abs(row - candidate.row), initial=0.0) > APART for row in same):
            chosen.append(candidate)
            if len(chosen) == n:
                break
    return chosen


def refine(space: Space, start: Candidate, box: Box, gain: Gain, evaluations: int, tolerance: float) -> Candidate:
    """A candidate at least as good as `start`, on the same path; about so many evaluations of the gradient."""
    best = start
    for _ in range(3):
        climbed = _climb(best, box, gain.slope, evaluations, tolerance)
        moved = _exchange(space, climbed, box, gain.score)
        stop = moved.value <= climbed.value
        best = moved
        if stop:
            break
    return best


def _climb(start: Candidate, box: Box, slope: Slope, evaluations: int, tolerance: float) -> Candidate:
    if not len(box.continuous):
        return start
    row = start.row.copy()
    best = start

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal best
        row[box.continuous] = x
        value, gradient = slope(start.path, row)
        if value > best.value:
            best = Candidate(value, start.path, row.copy())
        return -value, -gradient[box.continuous]

    optimize.minimize(
        negative, start.row[box.continuous], jac=True, method="L-BFGS-B", bounds=box.bounds,
        options={"maxfun": evaluations, "ftol": tolerance, "gtol": tolerance},
    )  # fmt: skip
    return best


def _exchange(space: Space, start: Candidate, box: Box, score: Score) -> Candidate:
    """The best row that differs in one discrete coordinate, or `start`."""
    rows = []
    for i in box.discrete:
        for unit in _elsewhere(space, start.path, i, float(start.row[i])):
            row = start.row.copy()
            row[i] = unit
            rows.append(row)
    if not rows:
        return start
    values = score(start.path, np.array(rows))
    k = int(np.argmax(values))
    return Candidate(float(values[k]), start.path, rows[k]) if values[k] > start.value else start


def neighbours(space: Space, i: int, unit: float) -> list[float]:
    """Units of other values of a discrete parameter: all of a few, else the adjacent ones and some further away."""
    domain = space.parameters[i].domain
    n = int(min(domain.size, 2**31))
    if isinstance(domain, Categorical) or n <= _MAX_NEIGHBOURS:
        every = {domain.unit(code) for code in domain.codes()}
        return sorted(every - {unit})
    code, step = domain.code(unit), getattr(domain, "step", 1) or 1
    jumps = (1, 2, 5, max(1, n // 20), max(1, n // 5))
    codes = set()
    for jump in jumps:
        for sign in (-1, 1):
            try:
                codes.add(domain.accept(code + sign * jump * step))
            except ValueError:  # beyond the end
                continue
    return sorted(domain.unit(other) for other in codes - {code})
