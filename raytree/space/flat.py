"""Configurations as Ray Tune writes them into results: ``{"a": {"b": 1}}`` becomes ``{"a/b": 1}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """The values of nested dicts by their joined keys, as text; lists and tuples stay whole, empty dicts vanish.

    Args:
        config: a dict, or any value, which is then the only one.
        prefix: what every key begins with.
    """
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}/{key}" if prefix else str(key))
    return flat
