"""Every error raytree raises on purpose.

A message always has three parts: where (a path in the space, a key, a file), what was found there, and what to do
about it. Callers that want to react catch the class; `RaytreeError` catches them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

LONGEST = 600
"""Of each part of a message: what was found may be huge."""


_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def _short(text: str) -> str:
    text = _ADDRESS.sub("", text)  # of no use to anybody
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 4 :]}"


class RaytreeError(Exception):
    """Base of every error raised on purpose.

    Args:
        where: the place: a path such as ``model[1].lr``, a file name, an argument.
        problem: what was found there.
        remedy: what the user can do.
    """

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        where, problem, remedy = (_short(part) for part in (where, problem, remedy))
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}" + (f" {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.problem, self.remedy)


class SpaceError(RaytreeError, ValueError):
    """The search space itself is wrong; raised before the first trial."""


class BoundsError(SpaceError):
    """A numeric domain has no usable range."""


class UnsupportedDomainError(SpaceError):
    """Something in the space cannot be searched."""


class SpaceTooLargeError(SpaceError):
    """The space is deeper or wider than the documented limits."""


class ConfigurationError(RaytreeError, ValueError):
    """A configuration does not belong to the space."""


class UnknownKeyError(ConfigurationError):
    """A configuration has a key that is not in the space, or not active in its branch."""


class MissingKeyError(ConfigurationError):
    """A configuration lacks a key that is active in its branch."""


class OutOfDomainError(ConfigurationError):
    """A configuration has a value outside its domain."""


class SettingError(RaytreeError, ValueError):
    """An argument of an optimizer or searcher is wrong or missing."""


class StateError(RaytreeError):
    """A saved state cannot be loaded; whatever was being restored is left as it was."""


class DamagedStateError(StateError):
    """A state file cannot be read, was cut short or altered: another snapshot may be whole."""


def yes_or_no(**settings: object) -> None:
    """Raises `SettingError` for the first setting that is neither True nor False."""
    for name, value in settings.items():
        if type(value).__name__ not in ("bool", "bool_"):  # numpy's as well
            raise SettingError(name, f"must be True or False, got {value!r}.")


def one_of(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raises `SettingError` if a setting has none of its allowed values."""
    if value not in tuple(allowed):
        raise SettingError(name, f"must be one of {', '.join(allowed)}, got {value!r}.")
