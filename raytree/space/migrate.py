"""Configurations of an earlier version of a space, brought into this one parameter by parameter.

Nothing is guessed: a parameter that has vanished must be named to be dropped, one that has appeared needs the value it had
implicitly; everything else is refused with its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from raytree.errors import ConfigurationError, MissingKeyError, UnknownKeyError
from raytree.space.template import fresh
from raytree.space.tree import Space

_MAX_CHANGES = 1000


def migrate(space: Space, config: Any, defaults: Mapping[str, Any] | None = None, drop: Collection[str] = ()) -> Any:
    """A configuration of `space` from one of an earlier version.

    Args:
        space: the space as it is now.
        config: the old configuration; left as it is.
        defaults: values of parameters that have appeared since, by their place in a configuration (``"model.C"``).
        drop: places of parameters that have vanished.

    Raises:
        ConfigurationError: at the first parameter that fits neither the space nor `defaults` nor `drop`.
    """
    config, defaults = fresh(config), defaults or {}
    for _ in range(_MAX_CHANGES):
        try:
            space.point(config)
            return config
        except UnknownKeyError as error:
            if error.where not in drop:
                raise UnknownKeyError(
                    error.where, error.problem, f"If it is gone from the space: drop=[{error.where!r}]."
                ) from None
            holder, key = _locate(config, error.where)
            del holder[key]
        except MissingKeyError as error:
            if error.where not in defaults:
                remedy = f"If it is new in the space: defaults={{{error.where!r}: its old value}}."
                raise MissingKeyError(error.where, error.problem, remedy) from None
            holder, key = _locate(config, error.where)
            holder[key] = defaults[error.where]
    raise ConfigurationError("configuration", "too many differences.", "Give a configuration of this space.")


def _locate(config: Any, place: str) -> tuple[Any, Any]:
    """The container and key of a dotted place; keys that hold dots themselves are found too."""
    parts = place.split(".")
    for n in range(1, len(parts) + 1):
        key = ".".join(parts[:n])
        rest = ".".join(parts[n:])
        if not rest:
            return config, key
        if isinstance(config, dict) and isinstance(config.get(key), dict):
            return _locate(config[key], rest)
    return config, place
