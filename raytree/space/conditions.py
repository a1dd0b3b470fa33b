"""Conditions: when a parameter is alive, and how they cut a decision's domain into cells.

A *test* compares one parent with a value; a *clause* is a conjunction of tests; a *condition* is a disjunction of clauses.
Tests are written against raw values. `Cells` is what becomes of a parent once every test on it is known: each category is a
cell of its own, and a numeric domain is cut wherever some test changes its answer, so that the answer of every test
depends on the cell alone. A lowered condition speaks of (decision, set of cells) only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from raytree.errors import SpaceError
from raytree.space.parameters import Array, Categorical, Code, Domain, Float, Integer, Normal, tidy

Clause = tuple[tuple[int, frozenset[int]], ...]
"""(decision, cells) pairs that must all hold; decisions are positions in the list of parameters."""
Condition = tuple[Clause, ...]
"""Clauses of which one must hold; `ALWAYS` is the empty conjunction."""
ALWAYS: Condition = ((),)
MAX_CLAUSES = 1000

OPERATORS = ("eq", "ne", "isin", "ge", "gt", "le", "lt")


@dataclass(frozen=True)
class Test:
    """One comparison: ``parent operator value``; false while the parent is inactive."""

    __test__ = False  # not a pytest class
    parent: str
    operator: str
    value: Any

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise SpaceError(self.parent, f"unknown comparison {self.operator!r}.", f"Use one of {', '.join(OPERATORS)}.")

    def __str__(self) -> str:
        sign = {"eq": "==", "ne": "!=", "isin": "in", "ge": ">=", "gt": ">", "le": "<=", "lt": "<"}[self.operator]
        return f"{self.parent} {sign} {self.value!r}"


@dataclass(frozen=True)
class Conditional:
    """`then` exists only where one of the clauses holds. May stand wherever a value of a dict may stand."""

    any_of: tuple[tuple[Test, ...], ...]
    then: Any

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, clause)) for clause in self.any_of)


def both(a: Condition, b: Condition) -> Condition:
    """The condition that holds where `a` and `b` do."""
    if len(a) * len(b) > MAX_CLAUSES:
        raise SpaceError("conditions", f"more than {MAX_CLAUSES} alternatives.", "Simplify the nested conditions.")
    clauses = []
    for left in a:
        for right in b:
            merged = dict(left)
            for decision, cells in right:
                merged[decision] = merged.get(decision, cells) & cells
            if all(merged.values()):
                clauses.append(tuple(sorted(merged.items())))
    return tuple(dict.fromkeys(clauses))


@dataclass(frozen=True)
class Cells:
    """A partition of a decision's domain: K cells, each an interval of units.

    Args:
        domain: the decision's domain.
        cuts: for numeric domains, sorted (code, after) pairs: a new cell begins at the code, or right after it.
        labels: K strings.
    """

    domain: Domain
    cuts: tuple[tuple[float, bool], ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def index(self, code: Code) -> int:
        """The cell that holds a code."""
        if isinstance(self.domain, Categorical):
            return int(code)
        return sum(code > cut if after else code >= cut for cut, after in self.cuts)

    def interval(self, cell: int) -> tuple[float, float]:
        """The units of a cell, (low, high)."""
        return self._edges[cell], self._edges[cell + 1]

    @cached_property
    def _edges(self) -> list[float]:
        if isinstance(self.domain, Categorical):
            return [cell / len(self) for cell in range(len(self) + 1)]
        return [0.0, *(self._edge(cut, after) for cut, after in self.cuts), 1.0]

    def _edge(self, cut: float, after: bool) -> float:
        if not math.isfinite(self.domain.size):
            return self.domain.unit(cut)
        half = float(getattr(self.domain, "step", 1)) / 2
        low, high = (self.domain.unit(self.domain.accept(code)) for code in (cut - half, cut + half))
        while low < (middle := (low + high) / 2) < high:  # values own intervals of unequal lengths: look where they meet
            low, high = (middle, high) if self.domain.code(middle) < cut else (low, middle)
        return high

    def place(self, cell: int, units: Array) -> Array:
        """`units` of [0, 1] moved into a cell."""
        low, high = self.interval(cell)
        margin = 1e-9 * (high - low)  # stay off an edge that belongs to the neighbour
        low, high = low + margin * (cell > 0), high - margin * (cell < len(self) - 1)
        return low + (high - low) * units

    def size(self, cell: int) -> float:
        """The number of values in a cell."""
        return self._sizes[cell]

    @cached_property
    def _sizes(self) -> list[float]:
        if isinstance(self.domain, Categorical):
            return [1] * len(self)
        if not math.isfinite(self.domain.size):
            return [math.inf] * len(self)
        step = float(getattr(self.domain, "step", 1))
        ends = [self.domain.code(0.0) - step / 2, *(cut for cut, _ in self.cuts), self.domain.code(1.0) + step / 2]
        return [round((above - below) / step) for below, above in pairwise(ends)]

    def wide(self, cell: int) -> bool:
        """Whether the decision is still an ordinary parameter inside the cell."""
        return self.size(cell) > 1


def cells_of(domain: Domain, name: str, tests: Iterable[Test], labels: Sequence[str] | None = None) -> Cells:
    """The partition that `tests` induce on the domain of the parameter called `name`."""
    if isinstance(domain, Categorical):
        return Cells(domain, (), tuple(labels) if labels else tuple(str(choice) for choice in domain.choices))
    cuts: set[tuple[float, bool]] = set()
    for test in tests:
        for before, after in _boundaries(domain, name, test):
            cuts |= {(before, False)} if before is not None else set()
            cuts |= {(after, True)} if after is not None else set()
    low, high = domain.code(0.0), domain.code(1.0)
    if isinstance(domain, (Integer, Normal, Float)) and math.isfinite(domain.size):
        half = (domain.step or 1) / 2  # on a grid, cut midway between two values: no comparison hangs on a rounding error
        cuts = {(tidy(cut + (half if after else -half), half), False) for cut, after in cuts}
        inside = sorted(cut for cut in cuts if low < cut[0] < high)
        firsts = [low, *(domain.accept(cut + half) for cut, _ in inside)]
        lasts = [*(domain.accept(cut - half) for cut, _ in inside), high]
        labels = tuple(f"{a:g}" if a == b else f"{a:g}..{b:g}" for a, b in zip(firsts, lasts, strict=True))
        return Cells(domain, tuple(inside), labels)
    inside = sorted(cut for cut in cuts if low < cut[0] < high or cut in ((low, True), (high, False)))
    return Cells(domain, tuple(inside), _interval_labels(low, high, inside))


def _interval_labels(low: Code, high: Code, cuts: Sequence[tuple[float, bool]]) -> tuple[str, ...]:
    ends = [(low, False), *cuts]
    labels = []
    for k, (start, after) in enumerate(ends):
        left = f"({start:g}" if after else f"[{start:g}"
        if k + 1 < len(ends):
            stop, included = ends[k + 1]
            labels.append(f"{left}, {stop:g}" + ("]" if included else ")"))
        else:
            labels.append(f"{left}, {high:g}]")
    return tuple(labels)


def _boundaries(domain: Domain, name: str, test: Test) -> list[tuple[float | None, float | None]]:
    """(cut before, cut after) pairs at which the answer of a test on a numeric domain changes."""
    if test.operator in ("eq", "ne", "isin"):
        if not math.isfinite(domain.size):
            raise SpaceError(
                name, f"{test} asks for single values of a continuous domain.", "Compare with ge, gt, le or lt instead."
            )
        values = test.value if test.operator == "isin" else [test.value]
        return [(float(code), float(code)) for code in (_accept(domain, name, test, v) for v in values)]
    bound = test.value
    if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)) or not math.isfinite(bound):
        raise SpaceError(name, f"{test} compares with something that is not a finite number.", "")
    cut = float(bound)
    if math.isfinite(domain.size):  # move the bound onto the grid
        step = float(getattr(domain, "step", 1) or 1)
        origin = float(domain.code(0.0))
        k = (cut - origin) / step
        near = round(k)
        k = near if abs(k - near) < 1e-9 else math.ceil(k) if test.operator in ("ge", "lt") else math.floor(k)
        cut = origin + k * step
    return [(cut, None)] if test.operator in ("ge", "lt") else [(None, cut)]


def _accept(domain: Domain, name: str, test: Test, value: Any) -> Code:
    try:
        return domain.accept(value)
    except ValueError as error:
        raise SpaceError(name, f"{test} can never hold: {error}.", "Compare with a value of the domain.") from None


def holds(test: Test, cells: Cells, name: str) -> frozenset[int]:
    """The cells of `name` in which a test is true."""
    domain = cells.domain
    if isinstance(domain, Categorical):
        if test.operator not in ("eq", "ne", "isin"):
            if not domain.ordered:
                raise SpaceError(name, f"{test} orders the values of a categorical.", "Use eq, ne or isin.")
            pivot = _accept(domain, name, test, test.value)
            compare = {"ge": pivot.__le__, "gt": pivot.__lt__, "le": pivot.__ge__, "lt": pivot.__gt__}[test.operator]
            return frozenset(k for k in range(len(cells)) if compare(k))
        values = test.value if test.operator == "isin" else [test.value]
        chosen = {domain.first[int(_accept(domain, name, test, v))] for v in values}
        wanted = frozenset(k for k in range(len(cells)) if domain.first[k] in chosen)
        return frozenset(range(len(cells))) - wanted if test.operator == "ne" else wanted
    middles = (sum(cells.interval(k)) / 2 for k in range(len(cells)))  # every value of a cell gives the same answer
    return frozenset(k for k, unit in enumerate(middles) if _answer(test, domain.code(unit), domain))


def _answer(test: Test, code: Code, domain: Domain) -> bool:
    if test.operator in ("eq", "ne", "isin"):
        values = test.value if test.operator == "isin" else [test.value]
        found = any(domain.accept(v) == code for v in values)
        return not found if test.operator == "ne" else found
    found = {
        "ge": code >= test.value,
        "gt": code > test.value,
        "le": code <= test.value,
        "lt": code < test.value,
    }[test.operator]
    return bool(found)


def satisfied(condition: Condition, cell_of: Mapping[int, int]) -> bool:
    """Whether a condition holds when each decision is in the given cell (-1 or absent: inactive)."""
    return any(all(cell_of.get(j, -1) in cells for j, cells in clause) for clause in condition)
