"""How an object that a file cannot hold is recognised again: by its name and, among objects of one name, by what it holds.

Nothing here is ever read back into an object: names and digests are compared, and that is all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def name_of(value: Any) -> str:
    """Module and qualified name: of a class or a function its own, of any other object that of its class."""
    named = value if isinstance(getattr(value, "__qualname__", None), str) else type(value)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def parts_of(value: Any, digest: Callable[[bytes], str]) -> Any:
    """What makes an object differ from others of its name, as a nesting of simpler values; None if that cannot be seen.

    Args:
        value: the object.
        digest: a short text for bytes.
    """
    if isinstance(value, bytes):
        return digest(value)
    if isinstance(value, np.ndarray):
        plain = value.tolist() if value.dtype.hasobject else digest(np.ascontiguousarray(value).tobytes())
        return [str(value.dtype), list(value.shape), plain]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, partial):
        return [value.func, list(value.args), dict(value.keywords)]
    if isinstance(value, CodeType):
        return [digest(value.co_code), list(value.co_consts), list(value.co_names)]
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        return [code, list(getattr(value, "__defaults__", None) or ()), cells]
    if not isinstance(value, type):
        held = {**_slots(value), **getattr(value, "__dict__", {})}
        if held:
            return held
    return _plain_repr(value)


def _slots(value: Any) -> dict[str, Any]:
    names = [name for kind in type(value).__mro__ for name in _listed(kind.__dict__.get("__slots__", ()))]
    return {name: getattr(value, name) for name in names if name not in ("__dict__", "__weakref__") and hasattr(value, name)}


def _listed(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _plain_repr(value: Any) -> str | None:
    """What an object says of itself, unless that is only where it lies in memory."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a foreign __repr__ may raise anything
        return None
    return None if _ADDRESS.search(text) else text
