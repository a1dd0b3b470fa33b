"""Whether two values are the same value after a journey: through JSON, a pickle, or another process.

JSON turns tuples into lists and keys into text; pickles turn an object into a copy that may not even compare equal to it;
Tune puts placeholders where objects were (see `naming`).
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from enum import IntEnum
from types import FunctionType
from typing import Any

import numpy as np

from raytree.space.naming import HIDDEN_FUNCTION, hidden


class Match(IntEnum):
    """How well a value fits what a space has in its place."""

    NO = 0
    MAYBE = 1
    """A placeholder of an object that was never seen: it may stand for the value."""
    YES = 2


def match(wanted: Any, given: Any, objects: Mapping[str, Any], hint: str = "") -> Match:
    """How well `given` fits `wanted`, a value of the space, which may hold placeholders.

    Args:
        wanted: a constant or a category.
        given: the value in a configuration.
        objects: what placeholders stand for, as far as that is known.
        hint: a text that names the placeholders of the configuration by their hashes, if there is one.
    """
    key = hidden(wanted)
    if key is not None and hidden(given) != key:
        if hint:
            return Match.YES if key in hint else Match.NO
        if wanted[0] == HIDDEN_FUNCTION:
            return Match.MAYBE
        if key in objects:
            return Match.YES if alike(objects[key], given) else Match.NO
        return Match.NO if given is None or isinstance(given, (bool, int, float, str)) else Match.MAYBE
    if isinstance(wanted, (list, tuple)) and isinstance(given, (list, tuple)) and len(wanted) == len(given):
        return min((match(a, b, objects, hint) for a, b in zip(wanted, given, strict=True)), default=Match.YES)
    if isinstance(wanted, dict) and isinstance(given, dict):
        there = {str(name): item for name, item in given.items()}
        if {str(name) for name in wanted} != set(there):
            return Match.NO
        return min((match(item, there[str(name)], objects, hint) for name, item in wanted.items()), default=Match.YES)
    return Match.YES if alike(wanted, given) else Match.NO


def alike(a: Any, b: Any) -> bool:
    """Whether two values are equal but for what JSON and pickles change."""
    try:
        return _alike(a, b)
    except Exception:  # noqa: BLE001  foreign objects may raise anything when compared; such are equal only if identical
        return a is b


def _alike(a: Any, b: Any) -> bool:
    if a is b:
        return True
    a, b = (value.item() if isinstance(value, np.generic) else value for value in (a, b))
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and bool(a == b)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        there = {str(key): item for key, item in b.items()}
        return {str(key) for key in a} == set(there) and all(_alike(item, there[str(key)]) for key, item in a.items())
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, type) and isinstance(b, type):
        return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)
    return _alike_objects(a, b)


def _alike_objects(a: Any, b: Any) -> bool:
    """Copies of one object: of one class, with the same contents."""
    if not _alike(type(a), type(b)) or isinstance(a, type):
        return False
    if isinstance(a, FunctionType):
        inside = [(f.__qualname__, f.__code__.co_code, f.__code__.co_names, f.__defaults__) for f in (a, b)]
        cells = [[cell.cell_contents for cell in f.__closure__ or ()] for f in (a, b)]
        constants = [[c for c in f.__code__.co_consts if not hasattr(c, "co_code")] for f in (a, b)]
        return inside[0] == inside[1] and _alike(cells[0], cells[1]) and _alike(constants[0], constants[1])
    if type(a).__eq__ is not object.__eq__ and bool(np.all(a == b)):
        return True
    if hasattr(a, "__dict__") and vars(a):
        return _alike(vars(a), vars(b))
    return pickle.dumps(a) == pickle.dumps(b)
