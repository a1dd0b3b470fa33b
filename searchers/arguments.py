"""The arguments of a searcher, checked before anything is spent on them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from raytree.errors import ConfigurationError, SettingError
from raytree.searchers.tune_space import to_space
from raytree.space import Space
from raytree.space.naming import name_of
from raytree.store import as_value

_ELSEWHERE = {"budget": "Tune's num_samples is the budget."}
"""Settings of an optimizer that a searcher gets in another way."""


def check_names(searcher: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raises `SettingError` at a setting that there is not, with the one that was probably meant."""
    known = [name for name in known if name not in _ELSEWHERE]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = _ELSEWHERE.get(name) or (f"Did you mean {near[0]}?" if near else "")
            raise SettingError(name, f"is not a setting of {searcher}.", f"{advice} It has {', '.join(known)}.".strip())


def space_of(given: Any) -> Space:
    """The space given to a searcher; raises `SettingError` if its configurations would be no dicts."""
    space = to_space(given)
    if not isinstance(space.structure, dict):
        raise SettingError("space", f"must be a dict of parameters, got {name_of(given)}.", "Tune configurations are dicts.")
    return space


def configurations(name: str, given: Any) -> list[dict[str, Any]]:
    """A list of configurations, from an argument; raises `SettingError` for anything else."""
    found = _listed(name, given, "configurations")
    for k, config in enumerate(found):
        if not isinstance(config, dict):
            raise SettingError(f"{name}[{k}]", f"must be a configuration, a dict, got {name_of(config)}.")
    return found


def numbers(name: str, given: Any) -> list[Any]:
    """A list of finite numbers, from an argument; raises `SettingError` for anything else."""
    found = _listed(name, given, "numbers, one a point")
    for k, value in enumerate(found):
        if as_value(value) is None:
            raise SettingError(f"{name}[{k}]", f"is no finite number: {name_of(value)}.", "Leave such points out.")
    return found


def _listed(name: str, given: Any, what: str) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, (dict, str)) or not isinstance(given, Iterable):
        kind = "a dict" if isinstance(given, dict) else name_of(given)
        raise SettingError(name, f"must be a list of {what}, got {kind}.", "Put it into a list: [...].")
    return list(given)


def located(error: ConfigurationError, where: str) -> ConfigurationError:
    """The error with the place of the configuration before the place in it; its class is a public one."""
    kind: type[ConfigurationError] = next(kind for kind in type(error).__mro__ if kind.__module__ == "raytree.errors")
    return kind(f"{where}: {error.where}", error.problem, error.remedy)
