"""Modules that are imported when they are first used: SciPy takes longer to import than all of raytree."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module. What was asked for once is an attribute from then on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


special = Lazy("scipy.special")
lapack = Lazy("scipy.linalg.lapack")
optimize = Lazy("scipy.optimize")
interpolate = Lazy("scipy.interpolate")
qmc = Lazy("scipy.stats.qmc")
