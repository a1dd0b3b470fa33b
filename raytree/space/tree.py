"""Space: everything that can be searched, and the tree of decisions in it.

A `Space` is built from a nested structure of dicts, lists, tuples, constants and domains. A categorical whose choices
contain domains, and any parameter that a `Conditional` asks about, is a *decision*; its *cells* are the parts of its domain
that decide alike. A *path* gives every decision its cell, -1 where the decision itself is inactive, and so says which
parameters are alive. Paths are counted, never listed, unless somebody asks for them.

Notation: d parameters, n rows; a *point* holds codes, a *row* (d,) holds units with NaN where a parameter is inactive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from raytree.errors import ConfigurationError, MissingKeyError, SpaceError, SpaceTooLargeError, UnknownKeyError
from raytree.space.build import Built, build
from raytree.space.conditions import Cells, Condition, satisfied
from raytree.space.naming import Seen, branch_names, holds_hidden
from raytree.space.parameters import Array, Categorical, Code, Domain
from raytree.space.template import Point, Reader, Reading, constants, render

Path = tuple[int, ...]
"""A cell for each decision, in the order of `Space.decisions`; -1 where the decision is inactive."""

MAX_PATHS = 1_000_000
MOST_REMEMBERED = 10_000
"""So many paths are remembered at once with what is alive on them."""
_MAX_STATES = 100_000
_ROUNDING = 1e-9  # of units: closer to an edge than this, the code itself is looked at


class Alive(NamedTuple):
    """What is alive on a path: (d,) bool, and which of it can still vary."""

    mask: np.ndarray
    free: tuple[int, ...]


class Parameter(NamedTuple):
    """One searched value: its name is its place in the space, unique even where two branches use one key."""

    name: str
    domain: Domain
    condition: Condition


class Space:
    """A search space with conditions.

    Args:
        structure: a dict (or any nesting) of domains, constants and instances of `Conditional`.

    Raises:
        SpaceError: where something in it cannot be searched; the message names the place.
    """

    def __init__(self, structure: Any) -> None:
        self.structure: Any = structure.structure if isinstance(structure, Space) else structure
        built: Built = build(self.structure)
        self.template = built.template
        self.parameters = tuple(Parameter(*entry) for entry in zip(built.names, built.domains, built.conditions, strict=True))
        self.decisions: tuple[int, ...] = tuple(built.cells)
        self.cells: dict[int, Cells] = built.cells
        self.order = built.order
        self._position = {j: k for k, j in enumerate(self.decisions)}
        self.objects: dict[str, Seen] = {}
        self._reader = Reader(self.template, built.names, built.domains, self.objects)
        self._domains = built.domains
        self._alive: dict[Path, Alive] = {}
        if self.n_paths > MAX_PATHS:
            raise SpaceTooLargeError(
                "space",
                f"{self.n_paths:,} paths; the limit is {MAX_PATHS:,}.",
                "Make some of the sibling decisions plain categoricals, or search them in turn.",
            )

    # What Tune hides

    @cached_property
    def hides(self) -> bool:
        """Whether Tune has put placeholders into the space."""
        return any(holds_hidden(value) for value in constants(self.template, self._domains))

    def reveal(self, objects: dict[str, Seen]) -> None:
        """What placeholders stand for, by hash; branches are named after it."""
        self.objects.update(objects)
        for j, cells in self.cells.items():
            if isinstance(cells.domain, Categorical):
                self.cells[j] = replace(cells, labels=branch_names(cells.domain.choices, self.objects))

    # Size

    @property
    def d(self) -> int:
        """The number of parameters."""
        return len(self.parameters)

    @cached_property
    def n_paths(self) -> int:
        """The number of paths."""
        return self._count_paths()

    def _count_paths(self, alive: int | None = None) -> int:
        """The number of paths, or of those on which a parameter is alive."""
        order = [j for j in self.order if j in self.cells or j == alive]
        return int(self._fold(order, lambda i, cell: 1, lambda a, b: a * b, lambda a, b: a + b, 1, required=alive))

    @cached_property
    def size(self) -> float:
        """The number of different configurations; infinite if any continuous parameter can be alive."""

        def count(i: int, cell: int | None) -> float:
            return self.parameters[i].domain.size if cell is None else self.cells[i].size(cell)

        return self._fold(self.order, count, lambda a, b: a * b, lambda a, b: a + b, 1)

    @cached_property
    def dimension(self) -> int:
        """The largest number of parameters alive on one path, decisions that their cell settles left out."""

        def free(i: int, cell: int | None) -> float:
            return 1 if cell is None or self.cells[i].wide(cell) else 0

        return int(self._fold(self.order, free, lambda a, b: a + b, max, 0))

    def _fold(
        self,
        order: Sequence[int],
        weight: Callable[[int, int | None], float],
        times: Callable[[float, float], float],
        plus: Callable[[float, float], float],
        one: float,
        required: int | None = None,
    ) -> float:
        """The `plus` over all paths of the `times` over their alive parameters, among those in `order`, of their `weight`.

        Only paths on which the parameter `required` is alive count, if one is given; 0 if there are none. Goes through the
        parameters once, keeping partial results apart only by the cells that later conditions still ask about; so siblings
        add work instead of multiplying it.
        """
        last_use: dict[int, int] = {}
        for step, i in enumerate(order):
            for clause in self.parameters[i].condition:
                for j, _ in clause:
                    last_use[j] = step
        states: dict[tuple[tuple[int, int], ...], float] = {(): one}
        for step, i in enumerate(order):
            following: dict[tuple[tuple[int, int], ...], float] = {}
            for known, total in states.items():
                cell_of = dict(known)
                kept = tuple(pair for pair in known if last_use[pair[0]] > step)
                outcomes: list[tuple[tuple[tuple[int, int], ...], float]]
                if not satisfied(self.parameters[i].condition, cell_of):
                    outcomes = [] if i == required else [(kept, total)]
                elif i in self.cells:
                    remembered = last_use.get(i, -1) > step
                    outcomes = [
                        (((*kept, (i, cell)) if remembered else kept), times(total, weight(i, cell)))
                        for cell in range(len(self.cells[i]))
                    ]
                else:
                    outcomes = [(kept, times(total, weight(i, None)))]
                for key, value in outcomes:
                    following[key] = plus(following[key], value) if key in following else value
            if len(following) > _MAX_STATES:
                raise SpaceTooLargeError("space", "too many interlocking conditions.", "Remove some of the parents.")
            states = following
        return reduce(plus, states.values()) if states else 0

    def free(self, path: Path) -> tuple[int, ...]:
        """The parameters that can still vary on a path: alive, and not settled by the path's cells."""
        return self._alive_on(path).free

    @cached_property
    def shared(self) -> frozenset[int]:
        """The parameters alive on more than one path, decisions that every cell settles left out."""
        if self.n_paths == 1:
            return frozenset()
        found = set()
        for i in range(self.d):
            if i in self.cells and not any(self.cells[i].wide(cell) for cell in range(len(self.cells[i]))):
                continue
            if self._count_paths(alive=i) > 1:
                found.add(i)
        return frozenset(found)

    # Paths

    def paths(self, limit: int | None = None) -> list[Path]:
        """All paths, or the first `limit` of them."""
        return list(islice(self._paths(), limit))

    def _paths(self) -> Iterator[Path]:
        order = [i for i in self.order if i in self.cells]

        def walk(step: int, cell_of: dict[int, int]) -> Iterator[Path]:
            if step == len(order):
                yield tuple(cell_of.get(j, -1) for j in self.decisions)
                return
            j = order[step]
            if not satisfied(self.parameters[j].condition, cell_of):
                yield from walk(step + 1, cell_of)
                return
            for cell in range(len(self.cells[j])):
                yield from walk(step + 1, {**cell_of, j: cell})

        return walk(0, {})

    def active(self, path: Path) -> np.ndarray:
        """(d,) bool: the parameters alive on a path. Read-only and shared."""
        return self._alive_on(path).mask

    def _alive_on(self, path: Path) -> Alive:
        found = self._alive.get(path)
        if found is None:
            cell_of = self.cell_of(path)
            mask = np.array([satisfied(p.condition, cell_of) for p in self.parameters], dtype=bool)
            mask.setflags(write=False)
            free = (i for i in np.flatnonzero(mask).tolist() if i not in cell_of or self.cells[i].wide(cell_of[i]))
            if len(self._alive) >= MOST_REMEMBERED:
                self._alive.clear()
            found = self._alive[path] = Alive(mask, tuple(free))
        return found

    def cell_of(self, path: Path) -> dict[int, int]:
        """The cell of each alive decision, by parameter."""
        return {j: cell for j, cell in zip(self.decisions, path, strict=True) if cell >= 0}

    def path_of(self, row: Array) -> Path:
        """The path of a row."""
        return self.path(self.decode(row))

    def paths_of(self, rows: Array) -> list[Path]:
        """The paths of rows (n, d)."""
        cells = np.full((len(rows), len(self.decisions)), -1)
        for k, j in enumerate(self.decisions):
            alive = ~np.isnan(rows[:, j])
            cells[alive, k] = self._cells_at(j, rows[alive, j])
        return list(map(tuple, cells.tolist()))

    def _cells_at(self, j: int, units: Array) -> np.ndarray:
        """The cells of a decision that snapped units are in.

        On an edge the condition decides: "more than 0.5" leaves 0.5 itself below.
        """
        edges = np.array([self.cells[j].interval(cell)[0] for cell in range(1, len(self.cells[j]))])
        found = np.searchsorted(edges, units, side="right")
        near = np.abs(units[:, None] - edges[None, :]).min(axis=1, initial=1.0) < _ROUNDING
        for k in np.flatnonzero(near).tolist():
            found[k] = self.cells[j].index(self.parameters[j].domain.code(float(units[k])))
        return found

    def path(self, point: Point) -> Path:
        """The path of a point."""
        cells = []
        for j in self.decisions:
            code = point[j]
            cells.append(-1 if code is None else self.cells[j].index(code))
        return tuple(cells)

    def path_label(self, path: Path) -> str:
        """A short name such as ``model=svm, kernel=rbf``; ``all`` in a space without decisions."""
        named = (f"{self.parameters[j].name}={self.cells[j].labels[cell]}" for j, cell in self.cell_of(path).items())
        return ", ".join(named) or "all"

    # Configurations, points, rows

    def point(self, config: Any) -> Point:
        """The codes of a configuration; raises `ConfigurationError` with the place where it leaves the space."""
        reading = self._reader.read(config)
        found = reading.codes
        point: list[Code | None] = [None] * self.d
        cell_of: dict[int, int] = {}
        for i in self.order:
            name, _, condition = self.parameters[i]
            alive = satisfied(condition, cell_of)
            if alive and i not in found:
                raise MissingKeyError(name, "is missing although it is active.", "Give it a value.")
            if not alive and i in found:
                raise UnknownKeyError(name, "has a value although it is not active here.", "Leave it out.")
            if alive:
                point[i] = found[i]
                if i in self.cells:
                    cell_of[i] = self.cells[i].index(found[i])
        for place, condition, present in reading.guards:
            if present and not satisfied(condition, cell_of):
                raise UnknownKeyError(place, "is given although its condition does not hold.", "Leave it out.")
            if not present and satisfied(condition, cell_of):
                raise MissingKeyError(place, "is missing although its condition holds.", "Give it a value.")
        return tuple(point)

    def partial(self, config: Any, preferred: Sequence[Code]) -> Reading:
        """What a partial configuration holds; see `fill`."""
        return self._reader.partial(config, preferred)

    def config(self, point: Point) -> Any:
        """The configuration of a point, active keys only."""
        return render(self.template, point, self._domains, self.cell_of(self.path(point)))

    def contains(self, config: Any) -> bool:
        """Whether a configuration is in the space."""
        try:
            self.point(config)
        except ConfigurationError:
            return False
        return True

    def encode(self, point: Point) -> Array:
        """(d,) row of a point."""
        return np.array(
            [math.nan if code is None else p.domain.unit(code) for code, p in zip(point, self.parameters, strict=True)]
        )

    def decode(self, row: Array) -> Point:
        """The point of a row; entries of inactive parameters are ignored, whatever they are."""
        point: list[Code | None] = [None] * self.d
        cell_of: dict[int, int] = {}
        for i in self.order:
            _, domain, condition = self.parameters[i]
            if satisfied(condition, cell_of):
                unit = float(row[i])
                if not 0.0 <= unit <= 1.0:
                    raise SpaceError(self.parameters[i].name, f"a unit must be in [0, 1], got {unit}.", "")
                code = domain.code(unit)
                point[i] = code
                if i in self.cells:
                    cell_of[i] = self.cells[i].index(code)
        return tuple(point)

    def key(self, point: Point) -> Point:
        """A hashable stand-in that equal configurations share."""
        return tuple(
            p.domain.first[int(code)] if code is not None and hasattr(p.domain, "first") else code
            for code, p in zip(point, self.parameters, strict=True)
        )

    def mask(self, units: Array) -> Array:
        """(n, d) rows from (n, d) units of the whole cube: snapped, NaN where inactive."""
        rows = np.empty_like(units)
        cell_of: dict[int, np.ndarray] = {}
        for i in self.order:
            _, domain, condition = self.parameters[i]
            alive = np.zeros(len(units), dtype=bool)
            for clause in condition:
                holds = np.ones(len(units), dtype=bool)
                for j, cells in clause:
                    holds &= np.isin(cell_of[j], list(cells))
                alive |= holds
            snapped = domain.snap(units[:, i])
            if i in self.cells:
                cell_of[i] = np.where(alive, self._cells_at(i, snapped), -1)
            rows[:, i] = np.where(alive, snapped, np.nan)
        return rows

    def on_path(self, path: Path, units: Array) -> Array:
        """(n, d) rows on one path from (n, d) units: decisions moved into their cells, NaN where inactive."""
        cell_of = self.cell_of(path)
        rows = np.full_like(units, np.nan)
        for i in np.flatnonzero(self.active(path)).tolist():
            rows[:, i] = self._snapped(i, cell_of.get(i, -1), units[:, i])
        return rows

    def on_paths(self, paths: Sequence[Path], units: Array) -> Array:
        """(p, n, d): `on_path` of the same units on each of several paths."""
        rows = np.full((len(paths), *units.shape), np.nan)
        active, cells = np.array([self.active(path) for path in paths]), np.array(paths, dtype=int).reshape(len(paths), -1)
        for i in np.flatnonzero(active.any(axis=0)).tolist():
            cell = cells[:, self._position[i]] if i in self.cells else np.full(len(paths), -1)
            for one in np.unique(cell[active[:, i]]).tolist():
                rows[active[:, i] & (cell == one), :, i] = self._snapped(i, one, units[:, i])
        return rows

    def _snapped(self, i: int, cell: int, units: Array) -> Array:
        """Units (n,) of a parameter moved into a cell, if it is a decision, and to the nearest value."""
        return self.parameters[i].domain.snap(units if cell < 0 else self.cells[i].place(cell, units))

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        """(n, d) rows drawn as Tune would draw configurations."""
        return self.mask(rng.random((n, self.d)))

    def points(self) -> Iterator[Point]:
        """Every point of a finite space, lazily."""

        def walk(step: int, point: list[Code | None], cell_of: dict[int, int]) -> Iterator[Point]:
            if step == len(self.order):
                yield tuple(point)
                return
            i = self.order[step]
            _, domain, condition = self.parameters[i]
            if not satisfied(condition, cell_of):
                yield from walk(step + 1, point, cell_of)
                return
            for code in domain.codes():
                point[i] = code
                below = {**cell_of, i: self.cells[i].index(code)} if i in self.cells else cell_of
                yield from walk(step + 1, point, below)
            point[i] = None

        return walk(0, [None] * self.d, {})

    def admits(self, point: Point) -> bool:
        """Whether codes that come from outside, such as a file, make a point of this space."""
        if len(point) != self.d:
            return False
        cell_of: dict[int, int] = {}
        for i in self.order:
            _, domain, condition = self.parameters[i]
            code = point[i]
            if satisfied(condition, cell_of) != (code is not None):
                return False
            if code is None:
                continue
            try:
                if isinstance(domain, Categorical):
                    known = type(code) is int and 0 <= code < len(domain.choices)
                else:
                    known = domain.accept(code) == code
            except (ValueError, OverflowError):
                return False
            if not known:
                return False
            if i in self.cells:
                cell_of[i] = self.cells[i].index(code)
        return True

    # For people

    def __str__(self) -> str:
        from raytree.space.draw import draw

        return draw(self)

    def _repr_html_(self) -> str:
        from raytree.space.draw import draw_html

        return draw_html(self)

    def __repr__(self) -> str:
        return f"Space({self.d} parameters, {self.n_paths} paths)"

    def names(self, indices: Sequence[int]) -> list[str]:
        """The names of some parameters."""
        return [self.parameters[i].name for i in indices]
