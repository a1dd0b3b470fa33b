"""A finite pool of configurations: the only ones there are, such as the samples of a deposit that can still be drilled."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from raytree.errors import ConfigurationError, SettingError
from raytree.gp.linalg import Array
from raytree.space import Point, Space
from raytree.space.recover import recover
from raytree.store import Observations


class Pool:
    """Configurations of a space; equal ones count once.

    Args:
        space: the search space.
        candidates: a list of configurations, a DataFrame with a column per parameter (nested ones as `model/C`), or an
            array (n, d).

    Raises:
        SettingError: if there is none, or if one is not in the space; its number is named.
    """

    def __init__(self, space: Space, candidates: Any) -> None:
        points: dict[Point, Point] = {}
        for k, config in enumerate(_configs(space, candidates)):
            try:
                point = space.point(config)
            except ConfigurationError as error:
                raise SettingError(f"candidates[{k}]", f"{error.where}: {error.problem}", error.remedy) from None
            points.setdefault(space.key(point), point)
        if not points:
            raise SettingError("candidates", "there is none.", "Leave it out, or give at least one.")
        self.points = list(points.values())
        self.rows: Array = np.array([space.encode(point) for point in self.points])

    @cached_property
    def fingerprint(self) -> str:
        """A short stand-in for all of them, in their order."""
        return hashlib.sha256(np.ascontiguousarray(self.rows).tobytes()).hexdigest()[:16]

    def left(self, observations: Observations) -> np.ndarray:
        """The numbers of those that were not tried."""
        return np.array([k for k, point in enumerate(self.points) if not observations.used(point)], dtype=int)

    def nearest(self, row: Array, observations: Observations) -> Array:
        """(d,) the row closest to one of the space, among those that were not tried."""
        left = self.left(observations)
        rows = self.rows[left] if len(left) else self.rows
        difference = np.where(np.isnan(rows) != np.isnan(row), 1.0, np.nan_to_num(rows - row))
        return np.asarray(rows[int(np.argmin(np.sum(difference**2, axis=1)))])


def _configs(space: Space, candidates: Any) -> Iterator[Any]:
    if hasattr(candidates, "to_dict") and hasattr(candidates, "columns"):  # a DataFrame
        nested = not set(candidates.columns) <= set(space.structure)  # then columns are named as Tune's: model/C
        for record in candidates.to_dict("records"):
            present = {key: value for key, value in record.items() if not (isinstance(value, float) and np.isnan(value))}
            yield space.config(recover(space, present)) if nested else present
    elif isinstance(candidates, np.ndarray):
        if candidates.ndim != 2 or candidates.shape[1] != space.d or space.n_paths > 1:
            raise SettingError(
                "candidates",
                f"an array must have a column for each of the {space.d} parameters of a space without decisions.",
                "Use a list of configurations.",
            )
        domains = [parameter.domain for parameter in space.parameters]
        for k, row in enumerate(candidates.tolist()):
            try:
                yield space.config(tuple(domain.accept(value) for domain, value in zip(domains, row, strict=True)))
            except ValueError as error:
                raise SettingError(f"candidates[{k}]", f"{error}.") from None
    elif isinstance(candidates, (list, tuple)):
        yield from candidates
    else:
        raise SettingError("candidates", f"must be a list, a DataFrame or an array, got {type(candidates).__name__}.")
