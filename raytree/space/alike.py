"""Whether two values are the same value after a journey: through JSON, a pickle, or another process.

JSON turns tuples into lists and keys into text; pickles turn an object into a copy that may not even compare equal to it;
Tune puts placeholders where objects were (see `naming`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from raytree.space.naming import HIDDEN_FUNCTION, Seen, hidden, signature


class Match(IntEnum):
    """How well a value fits what a space has in its place."""

    NO = 0
    MAYBE = 1
    """A placeholder of an object that was never seen: it may stand for the value."""
    YES = 2


def match(wanted: Any, given: Any, objects: Mapping[str, Seen], hint: str = "") -> Match:
    """How well `given` fits `wanted`, a value of the space, which may hold placeholders.

    Args:
        wanted: a constant or a category.
        given: the value in a configuration.
        objects: what placeholders stand for, as far as that is known.
        hint: a text that names the placeholders of the configuration by their hashes, if there is one.
    """
    key = hidden(wanted)
    if key is not None:
        if hidden(given) is not None:
            return Match.YES if hidden(given) == key else Match.NO
        if hint:
            return Match.YES if key in hint else Match.NO
        if wanted[0] == HIDDEN_FUNCTION:
            return Match.MAYBE
        if key in objects:
            return Match.YES if objects[key].is_like(given) else Match.NO
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
    return signature(a) == signature(b)
