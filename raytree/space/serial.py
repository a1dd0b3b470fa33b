"""Spaces as JSON, and their fingerprints.

What JSON has no word for is tagged: ``{"$": "tuple", "v": [...]}``. Objects that cannot be written (a class, an array)
become ``{"$": "opaque", "v": "module.Class"}``: such a space can be recognised by its fingerprint but not rebuilt from the
file.
Nothing here evaluates or imports anything a file names.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import fields
from typing import Any

import numpy as np

from raytree.errors import RaytreeError, StateError
from raytree.space.conditions import Conditional, Test
from raytree.space.parameters import Categorical, Constant, Float, Integer, Normal
from raytree.space.tree import Space

_TAG = "$"
_RECORDS = {cls.__name__: cls for cls in (Float, Integer, Normal, Categorical, Constant, Conditional, Test)}
MAX_DEPTH = 200


def dump(value: Any) -> Any:
    """A JSON-able form of a structure, opaque objects included."""
    if isinstance(value, np.generic):
        value = value.item()  # numpy's numbers come back as Python's
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "v": repr(value)}
    if type(value) is list:
        return [dump(item) for item in value]
    if type(value) is tuple:
        return {_TAG: "tuple", "v": [dump(item) for item in value]}
    if type(value) is dict:
        if _TAG not in value and all(type(key) is str for key in value):
            return {key: dump(item) for key, item in value.items()}
        return {_TAG: "dict", "v": [[dump(key), dump(item)] for key, item in value.items()]}
    if type(value).__name__ in _RECORDS and type(value) is _RECORDS[type(value).__name__]:
        return {_TAG: type(value).__name__, **{f.name: dump(getattr(value, f.name)) for f in fields(value)}}
    return {_TAG: "opaque", "v": f"{type(value).__module__}.{type(value).__qualname__}"}


def load(data: Any, depth: int = 0) -> Any:
    """The structure of a JSON-able form; raises `StateError` on anything `dump` does not write."""
    if depth > MAX_DEPTH:
        raise StateError("space", "nested too deeply.", "The file is damaged or not ours.")
    if data is None or isinstance(data, (bool, str, int, float)):
        return data
    if isinstance(data, list):
        return [load(item, depth + 1) for item in data]
    if not isinstance(data, dict):
        raise StateError("space", f"unexpected {type(data).__name__}.", "")
    if _TAG not in data:
        return {key: load(item, depth + 1) for key, item in data.items()}
    kind = data[_TAG]
    try:
        if kind == "tuple":
            return tuple(load(item, depth + 1) for item in data["v"])
        if kind == "dict":
            return {load(key, depth + 1): load(item, depth + 1) for key, item in data["v"]}
        if kind == "float" and data["v"] in ("nan", "inf", "-inf"):
            return float(data["v"])
        if kind in _RECORDS:
            return _RECORDS[kind](**{key: load(item, depth + 1) for key, item in data.items() if key != _TAG})
    except RaytreeError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise StateError("space", f"a {kind!r} entry is malformed ({error}).", "The file is damaged or not ours.") from None
    if kind == "opaque":
        raise StateError(
            "space",
            f"it contains an object of type {data.get('v')} that cannot be stored in a file.",
            "Give the same space again: TreeSearcher(space=...), then restore.",
        )
    raise StateError("space", f"unknown entry {kind!r}.", "The file was written by a newer version, or is not ours.")


def fingerprint(space: Space) -> str:
    """The same for equal spaces with keys in the same order, in every process; opaque objects count by their type."""
    text = json.dumps(dump(space.structure), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def storable(data: Any) -> bool:
    """Whether a dumped structure can be loaded again."""
    if isinstance(data, dict):
        return data.get(_TAG) != "opaque" and all(storable(item) for item in data.values())
    return all(storable(item) for item in data) if isinstance(data, list) else True
