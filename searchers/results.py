"""What a result of Tune's says: the metric, the time, the configuration."""

from __future__ import annotations

from typing import Any

from raytree.space.flat import flatten
from raytree.store import as_value

MISSING = object()
"""The metric of a result that has none."""


def measured(result: dict[str, Any], metric: str) -> Any:
    """The metric in a result, flat or nested; `MISSING` if it is not there."""
    if metric in result:
        return result[metric]
    value: Any = result
    for key in metric.split("/"):
        if not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def time_of(result: dict[str, Any], time_attr: str) -> float | None:
    """How far a trial was, if the result says so; some count from 0."""
    t = as_value(result.get(time_attr))
    return t if t is not None and t >= 0 else None


def config_of(result: dict[str, Any]) -> dict[str, Any] | None:
    """The configuration in a result, flat: its keys begin with "config/", or it is nested under "config"."""
    if isinstance(result.get("config"), dict):
        return flatten(result["config"])
    flat = {key[len("config/") :]: value for key, value in result.items() if isinstance(key, str) and key.startswith("config/")}
    return flat or None
