"""Short names of values for people: no memory addresses, no placeholders where the object behind one is known.

Ray Tune hides objects from searchers: in `param_space` it puts ``("__ref_ph", hash)`` in the place of a class, an array or
an estimator, and ``("__fn_ph", hash)`` in that of a `tune.sample_from`. What a placeholder stands for is known once a trial
has reported the configuration it got. A `Seen` holds that: the object while this process lives, and what it is recognised
by, which a file can hold.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

HIDDEN_OBJECT = "__ref_ph"
HIDDEN_FUNCTION = "__fn_ph"
UNSEEN = "(not seen yet)"
LONGEST = 24
_DEEPEST = 6
"""What is nested deeper than this in an object does not tell it from others."""
_WIDEST = 1000
"""Nor does what comes after so many items."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_TELLING = ("kind", "name", "type", "model", "class", "method", "algorithm")
"""Keys whose values name a branch, before any other that tells the branches apart."""


@dataclass(frozen=True)
class Seen:
    """What a placeholder stands for: a name for people, a signature to recognise it by, and the object if it is at hand."""

    name: str
    signature: str
    value: Any = None

    @classmethod
    def of(cls, value: Any) -> Seen:
        return cls(name_of(value), signature(value), value)

    def is_like(self, value: Any) -> bool:
        """Whether a value is the object, or a copy of it."""
        return signature(value) == self.signature

    def shown(self) -> Any:
        return f"({self.name})" if self.value is None else self.value


def full_name(value: Any) -> str:
    """Module and qualified name: of a class or a function its own, of any other object that of its class."""
    named = value if isinstance(getattr(value, "__qualname__", None), str) else type(value)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def signature(value: Any) -> str:
    """A digest that copies of an object share, in every process: of its class and contents, as far as they can be seen."""
    try:
        text = _described(value, 0)
    except Exception:  # noqa: BLE001  a foreign object may raise anything when it is looked at
        text = f"{type(value).__module__}.{type(value).__qualname__}"
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _described(value: Any, depth: int) -> str:
    """A text of a value without addresses."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key!s}: {_described(item, depth + 1)}" for key, item in islice(value.items(), _WIDEST))
        return f"{len(value)} {{{inside}}}"
    if isinstance(value, (list, tuple)):
        return f"{len(value)} [" + ", ".join(_described(item, depth + 1) for item in value[:_WIDEST]) + "]"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(_described(item, depth + 1) for item in value)) + "}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return f"{full_name(value)}{_code(value, depth)}"
    if isinstance(value, functools.partial):
        return f"{full_name(value)}({_described([value.func, value.args, value.keywords], depth + 1)})"
    held = getattr(value, "__dict__", None) or (_slots(value) if _own_words(value) is None else None)
    return f"{full_name(value)}({_described(held, depth + 1) if held else _own_words(value)})"


def _slots(value: Any) -> dict[str, Any]:
    """What an object holds in slots."""
    listed = [kind.__dict__.get("__slots__", ()) for kind in type(value).__mro__]
    names = [name for slots in listed for name in ([slots] if isinstance(slots, str) else slots)]
    return {name: getattr(value, name) for name in names if name not in ("__dict__", "__weakref__") and hasattr(value, name)}


def _own_words(value: Any) -> str | None:
    """What an object says about itself, unless that is only where it lies in memory."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a foreign __repr__ may raise anything
        return None
    return None if _ADDRESS.search(text) else text


def _code(function: Any, depth: int) -> str:
    """What tells functions of one name apart: lambdas of one line, closures."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    constants = [c for c in code.co_consts if not hasattr(c, "co_code")]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return f"{code.co_code!r}{code.co_names}{_described([constants, cells, function.__defaults__], depth + 1)}"


def hidden(value: Any) -> str | None:
    """The hash of a placeholder; None for anything else."""
    if type(value) is tuple and len(value) == 2 and value[0] in (HIDDEN_OBJECT, HIDDEN_FUNCTION) and type(value[1]) is str:
        return str(value[1])
    return None


def holds_hidden(value: Any) -> bool:
    """Whether a structure of dicts, lists and tuples has a placeholder in it."""
    if hidden(value) is not None:
        return True
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(holds_hidden(item) for item in inside)


def revealed(value: Any, objects: Mapping[str, Seen]) -> Any:
    """A structure with what its placeholders stand for in their place; `UNSEEN` where that is not known."""
    key = hidden(value)
    if key is not None:
        return objects[key].shown() if key in objects else UNSEEN
    if type(value) is dict:
        return {name: revealed(item, objects) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(revealed(item, objects) for item in value)
    return value


def name_of(value: Any, objects: Mapping[str, Seen] | None = None) -> str:
    """A few characters that a reader recognises a value by."""
    key = hidden(value)
    if key is not None:
        return objects[key].name if objects and key in objects else UNSEEN
    if isinstance(value, str):
        text = value
    elif isinstance(value, type) or (callable(value) and isinstance(getattr(value, "__name__", None), str)):
        text = value.__name__.replace("<lambda>", "lambda")
    elif isinstance(value, functools.partial):
        text = name_of(value.func)
    elif isinstance(value, np.ndarray):
        text = f"array{value.shape}"
    elif type(value) is dict:
        text = "{" + ", ".join(f"{name_of(key)}: {name_of(item, objects)}" for key, item in value.items()) + "}"
    elif type(value) in (list, tuple):
        inside = ", ".join(name_of(item, objects) for item in value)
        text = f"[{inside}]" if type(value) is list else f"({inside})"
    else:
        text = _plain(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _plain(value: Any) -> str:
    """The text of a value without an address; the name of its class where the text is only that, or long."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a foreign __repr__ may raise anything
        return type(value).__name__
    return type(value).__name__ if _ADDRESS.search(text) or len(text) > LONGEST else text


def branch_names(choices: Sequence[Any], objects: Mapping[str, Seen] | None = None) -> tuple[str, ...]:
    """A readable name per branch: the constant that tells dict branches apart, the value itself, or its number."""
    dicts = [choice for choice in choices if isinstance(choice, dict)]
    shared = [key for key in (dicts[0] if dicts else ()) if all(key in choice for choice in dicts)]
    shared.sort(key=lambda key: _TELLING.index(key) if key in _TELLING else len(_TELLING))
    for key in shared:
        values = [_constant_name(choice[key], objects) for choice in dicts]
        if None not in values and len(set(values)) == len(values):
            names = iter(str(value) for value in values)
            return _distinct([next(names) if isinstance(c, dict) else _alone(c, objects) for c in choices])
    return _distinct([_alone(choice, objects) for choice in choices])


def _alone(choice: Any, objects: Mapping[str, Seen] | None) -> str:
    """The name of one branch by itself; empty if it has none."""
    if isinstance(choice, dict):
        telling = [choice[key] for key in _TELLING if key in choice] + [v for v in choice.values() if not _is_plain(v)]
        return next((name for name in (_constant_name(value, objects) for value in telling) if name), "")
    if hasattr(choice, "describe") and not hasattr(choice, "choices"):  # a domain
        return str(choice.describe())
    return _constant_name(choice, objects) or ""


def _constant_name(value: Any, objects: Mapping[str, Seen] | None) -> str | None:
    """The name of a constant that can name a branch; None for containers, domains, arrays and what is not seen yet."""
    key = hidden(value)
    if key is not None:
        seen = (objects or {}).get(key)
        return None if seen is None or isinstance(seen.value, np.ndarray) else seen.name
    if isinstance(value, (dict, list, tuple, set)) or hasattr(value, "describe"):
        return None
    return None if isinstance(value, np.ndarray) else name_of(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, np.generic))


def _distinct(names: list[str]) -> tuple[str, ...]:
    """Names with their numbers where they have none, or not one of their own."""
    return tuple(name if name and names.count(name) == 1 else f"{name}[{k}]" if name else f"#{k}" for k, name in enumerate(names))
