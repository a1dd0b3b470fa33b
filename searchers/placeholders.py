"""Tune's stand-ins for objects: a searcher sees ``("__ref_ph", hash)`` where `param_space` has a class, a function, an array.

Tune puts the objects back into a trial's configuration, as long as it has them: not after `Tuner.restore` without
`param_space`.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ray.tune.impl.placeholder import _FunctionResolver, _RefResolver

_TOKENS = (_RefResolver.TOKEN, _FunctionResolver.TOKEN)


def has_placeholders(structure: Any) -> bool:
    """Whether Tune's stand-ins are anywhere in the structure of a space."""
    if isinstance(structure, tuple) and len(structure) == 2 and isinstance(structure[0], str) and structure[0] in _TOKENS:
        return True
    if isinstance(structure, dict):
        return any(map(has_placeholders, structure.values()))
    if isinstance(structure, (list, tuple)):
        return any(map(has_placeholders, structure))
    if is_dataclass(structure) and not isinstance(structure, type):
        return any(has_placeholders(getattr(structure, field.name)) for field in fields(structure))
    return False
