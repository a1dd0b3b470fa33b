"""Rows as plain numbers for kernels over the whole space: what becomes of categories and of inactive coordinates.

- Categories: "hamming" (any two differ by one), "onehot" (the same, with a length-scale per category) or "integer" (their
  number, as Levesque et al. 2017 did). The first two are indicator columns, scaled so that two categories are at distance
  one whatever the kernel's power.
- Inactive coordinates: imputed (the middle for numbers, between all categories otherwise; section III-A of the paper), or left as
  numbers that mean nothing, drawn once and for all for every row (its "noimpute").

Numbers are snapped to their domain before they get here, so that equal configurations have equal columns.
"""

from __future__ import annotations

import zlib

import numpy as np

from raytree.errors import SettingError
from raytree.gp.linalg import Array
from raytree.space import Categorical, Space
from raytree.space.tree import MOST_REMEMBERED

CATEGORIES = ("hamming", "onehot", "integer")
DEFAULT = 0.5
"""What an inactive number is taken to be, in units."""


class Inputs:
    """From rows (n, d) to numbers (n, C).

    Args:
        space: the search space.
        categories: "hamming", "onehot" or "integer".
        impute: whether inactive coordinates are imputed.
        power: of the kernel, see `kernels.Stationary`.
        seed: of the meaningless numbers.
    """

    def __init__(self, space: Space, categories: str, impute: bool, power: int, seed: int) -> None:
        if categories not in CATEGORIES:
            raise SettingError("categories", f"must be one of {', '.join(CATEGORIES)}, got {categories!r}.")
        self.space, self.impute, self._seed = space, impute, seed
        parameter: list[int] = []
        indicator: list[int] = []
        length: list[int] = []
        self.labels: list[str] = []  # of each length-scale
        for i, (name, domain, _) in enumerate(space.parameters):
            unordered = isinstance(domain, Categorical) and not domain.ordered and categories != "integer"
            marks = [int(code) for code in domain.codes()] if unordered else [-1]
            own = unordered and categories == "onehot"
            for position, mark in enumerate(marks):
                if position == 0 or own:
                    self.labels.append(f"{name}={domain.render(mark)}" if own else name)
                parameter.append(i)
                indicator.append(mark)
                length.append(len(self.labels) - 1)
        self.parameter = np.array(parameter, dtype=int)  # of each column
        self.indicator = np.array(indicator, dtype=int)  # of each column: the category it marks, or -1 for a number
        self.length = np.array(length, dtype=int)  # of each column: its length-scale
        self._height = 0.5 ** (1.0 / power)
        self._all = np.arange(len(parameter))
        self._columns: dict[tuple[int, ...], np.ndarray] = {}
        self._last: tuple[Array, np.ndarray, Array] | None = None

    @property
    def n_lengths(self) -> int:
        return len(self.labels)

    def columns(self, parameters: tuple[int, ...]) -> np.ndarray:
        """The columns of some parameters; the last ones asked for are kept."""
        found = self._columns.get(parameters)
        if found is None:
            if len(self._columns) >= MOST_REMEMBERED:
                self._columns.clear()
            found = np.flatnonzero(np.isin(self.parameter, parameters))
            self._columns[parameters] = found
        return found

    def __call__(self, rows: Array, columns: np.ndarray | None = None) -> Array:
        """(n, c) some columns, or all. Several posteriors ask for the same rows one after the other: the last answer is kept."""
        columns = self._all if columns is None else columns
        last = self._last
        if last is None or not np.array_equal(last[1], columns) or not np.array_equal(last[0], rows, equal_nan=True):
            last = self._last = rows.copy(), columns, self._numbers(rows, columns)
        return last[2]

    def _numbers(self, rows: Array, columns: np.ndarray) -> Array:
        if not self.impute:
            rows = self._fill(rows)
        out = np.empty((len(rows), len(columns)))
        for k, (i, mark) in enumerate(zip(self.parameter[columns].tolist(), self.indicator[columns].tolist(), strict=True)):
            column = self._canonical(i, rows[:, i])
            if mark < 0:
                out[:, k] = np.where(np.isnan(column), DEFAULT, column)
            else:
                unit = self.space.parameters[i].domain.unit(mark)
                out[:, k] = self._height * (np.abs(column - unit) < 1e-9)  # False for NaN
        return out

    def _canonical(self, i: int, column: Array) -> Array:
        """Units (n,) of a parameter, where equal categories share the first one's."""
        domain = self.space.parameters[i].domain
        if not isinstance(domain, Categorical) or domain.size == len(domain.choices):
            return column
        firsts = np.array([domain.unit(code) for code in domain.first])
        alive = ~np.isnan(column)
        out = column.copy()
        out[alive] = firsts[np.clip(np.floor(column[alive] * len(firsts)), 0, len(firsts) - 1).astype(int)]
        return out

    def _fill(self, rows: Array) -> Array:
        """Rows without NaN: the same row, and rows very close to it, always get the same meaningless numbers."""
        keys = [zlib.crc32(row.tobytes()) for row in np.round(rows, 2)]
        noise = np.array([np.random.default_rng([self._seed, key]).random(rows.shape[1]) for key in keys])
        filled = np.where(np.isnan(rows), noise.reshape(rows.shape), rows)
        for i, parameter in enumerate(self.space.parameters):
            filled[:, i] = parameter.domain.snap(filled[:, i])
        return filled
