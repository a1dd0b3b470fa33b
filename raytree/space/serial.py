"""Spaces as JSON, and their fingerprints.

What JSON has no word for is tagged: ``{"$": "tuple", "v": [...]}``. Objects that cannot be written (a class, an array)
become ``{"$": "opaque", "v": "module.Class"}``: such a space can be recognised by its fingerprint but not rebuilt from
the file. Choices that would look alike have a digest of what they hold beside the name, so that a fingerprint tells
their order.
Nothing here evaluates or imports anything a file names.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from raytree.errors import RaytreeError, StateError
from raytree.space.conditions import Conditional, Test
from raytree.space.naming import full_name, signature
from raytree.space.parameters import Categorical, Constant, Float, Integer, Normal
from raytree.space.tree import Space

_TAG = "$"
_RECORDS = {cls.__name__: cls for cls in (Float, Integer, Normal, Categorical, Constant, Conditional, Test)}
MAX_DEPTH = 200


def dump(value: Any) -> Any:
    """A JSON-able form of a structure, opaque objects included."""
    return _dump(value, content=False)


def _dump(value: Any, content: bool) -> Any:
    """See `dump`.

    Args:
        value: the structure.
        content: whether opaque objects are to be told apart by what they hold.
    """
    if isinstance(value, np.generic):
        value = value.item()  # numpy's numbers come back as Python's
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "v": repr(value)}
    if type(value) is list:
        return [_dump(item, content) for item in value]
    if type(value) is tuple:
        return {_TAG: "tuple", "v": [_dump(item, content) for item in value]}
    if type(value) is dict:
        if _TAG not in value and all(type(key) is str for key in value):
            return {key: _dump(item, content) for key, item in value.items()}
        return {_TAG: "dict", "v": [[_dump(key, content), _dump(item, content)] for key, item in value.items()]}
    if type(value).__name__ in _RECORDS and type(value) is _RECORDS[type(value).__name__]:
        dumped = {f.name: _dump(getattr(value, f.name), content) for f in fields(value)}
        if isinstance(value, Categorical) and not content:
            dumped["choices"]["v"] = _told_apart(value.choices, dumped["choices"]["v"])
        return {_TAG: type(value).__name__, **dumped}
    return {_TAG: "opaque", "v": full_name(value), **({"holds": signature(value)} if content else {})}


def _told_apart(choices: Any, dumped: list[Any]) -> list[Any]:
    """The dumped choices, those that look alike with what they hold."""
    texts = [json.dumps(item) for item in dumped]
    times = Counter(texts)
    return [_dump(choice, True) if times[text] > 1 else item for choice, item, text in zip(choices, dumped, texts, strict=True)]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
            f"it contains an object, {data.get('v')}, that cannot be stored in a file.",
            "Give the same space again: TreeSearcher(space=...), then restore.",
        )
    raise StateError("space", f"unknown entry {kind!r}.", "The file was written by a newer version, or is not ours.")


def fingerprint(space: Space) -> str:
    """The same for equal spaces with keys and choices in the same order, in every process.

    Opaque objects count by module and qualified name; choices of one name also by what they hold.
    """
    return _digest(json.dumps(dump(space.structure), allow_nan=False).encode())


def alike(data: Any) -> Iterator[str]:
    """Names of objects in a dumped structure whose order a fingerprint cannot tell: choices that look the same."""
    if isinstance(data, dict):
        if data.get(_TAG) == "Categorical":
            times = Counter(json.dumps(item) for item in data["choices"]["v"])
            for text, count in times.items():
                if count > 1:
                    yield from _opaque(json.loads(text))
        for item in data.values():
            yield from alike(item)
    elif isinstance(data, list):
        for item in data:
            yield from alike(item)


def _opaque(data: Any) -> Iterator[str]:
    """Names of the opaque objects in a dumped structure."""
    if isinstance(data, dict) and data.get(_TAG) == "opaque":
        yield str(data["v"])
    elif isinstance(data, (dict, list)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from _opaque(item)


def storable(data: Any) -> bool:
    """Whether a dumped structure can be loaded again."""
    if isinstance(data, dict):
        return data.get(_TAG) != "opaque" and all(storable(item) for item in data.values())
    return all(storable(item) for item in data) if isinstance(data, list) else True
