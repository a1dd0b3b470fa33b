"""A configuration as Python that can be pasted, and as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from raytree.space.naming import name_of

WIDTH = 76


def code_of(value: Any, indent: int = 0) -> str:
    """Python for a value: dicts and lists over several lines where one is not enough; objects by name, in a comment's place."""
    flat = _flat(value)
    if len(flat) + indent <= WIDTH or not isinstance(value, (dict, list, tuple)) or not value:
        return flat
    pad, end = " " * (indent + 4), " " * indent
    if isinstance(value, dict):
        inner = [f"{pad}{key!r}: {code_of(item, indent + 4)},\n" for key, item in value.items()]
        return "{\n" + "".join(inner) + end + "}"
    ends = "[]" if isinstance(value, list) else "()"
    return ends[0] + "\n" + "".join(f"{pad}{code_of(item, indent + 4)},\n" for item in value) + end + ends[1]


def _flat(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_flat(item)}" for key, item in value.items()) + "}"
    if type(value) is list:
        return "[" + ", ".join(map(_flat, value)) + "]"
    if type(value) is tuple:
        return "(" + ", ".join(map(_flat, value)) + (",)" if len(value) == 1 else ")")
    return name_of(value)


def plain_of(value: Any) -> Any:
    """A value as JSON can hold it; objects by name."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(key): plain_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_of(item) for item in value]
    return name_of(value)
