"""Partial configurations: what is missing is filled in."""

from __future__ import annotations

from typing import Any

import numpy as np

from raytree.errors import ConfigurationError, UnknownKeyError
from raytree.space.conditions import satisfied
from raytree.space.parameters import Code
from raytree.space.template import Point
from raytree.space.tree import Space

_TRIES = 64


def filled(space: Space, config: Any, rng: np.random.Generator) -> Point:
    """A point that has the values of a partial configuration; the others are drawn.

    Raises:
        ConfigurationError: where a value is outside the space, or no configuration has such values together.
    """
    for _ in range(_TRIES):
        units = rng.random(space.d)
        try:
            return _filled(space, config, [p.domain.code(float(u)) for p, u in zip(space.parameters, units, strict=True)])
        except UnknownKeyError as error:  # perhaps alive under another draw of what it depends on
            problem: ConfigurationError = error
    raise problem


def _filled(space: Space, config: Any, drawn: list[Code]) -> Point:
    reading = space.partial(config, drawn)
    given = reading.codes
    point: list[Code | None] = [None] * space.d
    cell_of: dict[int, int] = {}
    for i in space.order:
        name, _, condition = space.parameters[i]
        if satisfied(condition, cell_of):
            code = point[i] = given.get(i, drawn[i])
            if i in space.cells:
                cell_of[i] = space.cells[i].index(code)
        elif i in given:
            raise UnknownKeyError(name, "has a value although it is not active here.", "Leave it out.")
    for place, condition, present in reading.guards:
        if present and not satisfied(condition, cell_of):
            raise UnknownKeyError(place, "is given although its condition does not hold.", "Leave it out.")
    return tuple(point)
