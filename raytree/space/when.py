"""`when`: flat declarative conditions.

    {"layers": tune.randint(0, 5), "units_2": when("layers", ge=2, then=tune.randint(1, 31))}

`when` returns a plain dict with a marker key, so that whatever walks a space (Tune's placeholder pass among them) leaves it
readable; the space turns it into a `Conditional`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from raytree.errors import SpaceError
from raytree.space.conditions import OPERATORS, Conditional, Test
from raytree.space.parameters import same

MARK = "__raytree_when__"


def when(parent: str | Iterable[tuple[str, Mapping[str, Any]]], *, then: Any, **comparisons: Any) -> dict[str, Any]:
    """A value that exists only under a condition.

    Args:
        parent: the name of a parameter, with its comparisons as keywords; or (name, {comparison: value}) pairs that must
            all hold. An inactive parent makes the condition false.
        then: a domain, a constant, or a nested structure.
        comparisons: any of eq, ne, isin, ge, gt, le, lt; several must all hold.

    Returns:
        What to put under a key of the space. A list of such values under one key, with the same `then`, means: any of them.
    """
    if isinstance(parent, str):
        pairs: list[tuple[str, Mapping[str, Any]]] = [(parent, comparisons)]
    elif comparisons:
        raise SpaceError("when", "comparisons as keywords go with one parent.", "Put them into the pairs.")
    else:
        pairs = list(parent)
    tests = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise SpaceError("when", f"expected (name, comparisons) pairs, got {pair!r}.", "")
        name, asked = pair
        if not isinstance(asked, Mapping) or not asked:
            raise SpaceError(f"when({name!r})", "nothing is compared.", f"Give one of {', '.join(OPERATORS)}.")
        for operator, value in asked.items():
            if operator not in OPERATORS:
                raise SpaceError(f"when({name!r})", f"unknown comparison {operator!r}.", f"Use {', '.join(OPERATORS)}.")
            if operator == "isin":
                if isinstance(value, str) or not isinstance(value, Iterable):
                    raise SpaceError(f"when({name!r})", f"isin needs a collection of values, got {value!r}.", "Use eq.")
                value = list(value)
            tests.append([name, operator, value])
    if not tests:
        raise SpaceError("when", "no parent is given.", "")
    return {MARK: tests, "then": then}


def as_conditional(value: Any) -> Conditional | None:
    """The condition that `when`, or a list of them, stands for; None for anything else."""
    if isinstance(value, Conditional):
        return value
    if _is_when(value):
        return Conditional((_clause(value),), value["then"])
    if type(value) is list and value and all(_is_when(item) for item in value):
        first = value[0]["then"]
        if not all(item["then"] is first or same(item["then"], first) or item["then"] == first for item in value):
            raise SpaceError("when", "alternatives under one key must have the same `then`.", "Use one domain for all.")
        return Conditional(tuple(_clause(item) for item in value), first)
    return None


def _is_when(value: Any) -> bool:
    return isinstance(value, dict) and MARK in value


def _clause(value: dict[str, Any]) -> tuple[Test, ...]:
    return tuple(Test(name, operator, wanted) for name, operator, wanted in value[MARK])


def contains_when(value: Any) -> bool:
    """Whether a structure uses `when` anywhere."""
    if isinstance(value, dict):
        return MARK in value or any(contains_when(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(contains_when(item) for item in value)
    categories = getattr(value, "categories", None) or getattr(value, "choices", None)
    return isinstance(categories, (list, tuple)) and contains_when(list(categories))
