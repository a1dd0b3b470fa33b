"""Which seeds there are, and which of them are in use (Moss et al. 2020, section 3).

A search starts with a few realizations and adds fresh ones when an evaluation on one is worth most. Realizations are known by
their codes: the seed itself, or a number in a list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from raytree.errors import SettingError
from raytree.gp.linalg import Array
from raytree.space import Categorical, Integer
from raytree.store import Trial
from raytree.strategies.base import Search

MOST_IN_USE = 24
"""Of many realizations those with the most trials are candidates: they are known best."""
LARGEST_SEED = 2**31 - 2
MOST_REALIZATIONS = 10_000
"""That a search may be told to use; more than anybody can evaluate."""


class Realizations:
    """The seeds of a search.

    Args:
        domain: all that there are, see `domain_of`.
        most: how many are used at most: a number, or "all" (no limit).
        initial: how many a search starts with.
        seed: of the fresh ones.

    Raises:
        SettingError: where one of them is not what it must be.
    """

    def __init__(self, domain: Integer | Categorical, most: int | str, initial: int, seed: int) -> None:
        for name, count in (("max_realizations", most), ("initial_realizations", initial)):
            fine = type(count) is int and 0 < count <= MOST_REALIZATIONS
            if not fine and not (name.startswith("max") and count == "all"):
                raise SettingError(name, f"must be a positive integer up to {MOST_REALIZATIONS:,}, got {count!r}.")
        self.domain, self._most, self.initial, self._seed = domain, most, initial, seed

    def pool(self, used: Sequence[int]) -> list[int]:
        """The codes in use, in order of appearance, and then fresh ones up to the initial number.

        Args:
            used: the code of every trial, in order.
        """
        pool = list(dict.fromkeys(used))
        while len(pool) < self.initial:
            fresh = self.fresh(pool)
            if fresh is None:
                break
            pool.append(fresh)
        return pool

    def fresh(self, pool: Sequence[int]) -> int | None:
        """A code that was not used yet; None if there is no other, or if there may be no more."""
        limit = math.inf if isinstance(self._most, str) else self._most
        return None if len(pool) >= limit else self._unseen(pool)

    def _unseen(self, pool: Sequence[int]) -> int | None:
        """Any code outside the pool; None if there is no other."""
        if len(pool) >= self.domain.size:
            return None
        used = set(pool)
        if isinstance(self.domain, Categorical):
            return next(int(code) for code in self.domain.codes() if code not in used)
        rng = np.random.default_rng([self._seed, 6, len(pool)])
        while True:
            code = int(rng.integers(LARGEST_SEED + 1))
            if code not in used:
                return code


class Seeds:
    """Which trial of a search has which seed. A trial's seed stands behind its other parameters, unless there is only one.

    Args:
        search: the search.
        domain: all seeds that there are.
        realizations: which may be used.
    """

    def __init__(self, search: Search, domain: Integer | Categorical, realizations: Realizations) -> None:
        self._search, self._domain, self._realizations = search, domain, realizations

    @property
    def finite(self) -> int | None:
        """How many seeds there are, if they were listed."""
        return int(self._domain.size) if isinstance(self._domain, Categorical) else None

    def code(self, trial: Trial) -> int:
        """The code of a trial's seed."""
        d = self._search.given.d
        return int(trial.point[d] or 0) if self._search.space.d > d else 0

    def pool(self) -> list[int]:
        """The codes of the seeds in use."""
        return self._realizations.pool([self.code(trial) for trial in self._search.trials])

    def initial(self) -> list[int]:
        """The codes of the seeds that a search begins with."""
        return self.pool()[: self._realizations.initial]

    def fresh(self) -> list[int]:
        """The code of a seed that was not used yet, if there may be one."""
        code = self._realizations.fresh(self.pool())
        return [] if code is None else [code]

    def first(self) -> Any:
        """The first seed, for configurations from elsewhere."""
        return self._domain.render(self.pool()[0])

    def shown(self, codes: Sequence[int]) -> list[Any]:
        """Seeds as they stand in configurations."""
        return [self._domain.render(code) for code in codes]

    def candidates(self) -> list[int]:
        """The codes of seeds that may come next: those in use, of many the most used, and a fresh one."""
        pool = self.pool()
        if len(pool) > MOST_IN_USE:
            count = Counter(self.code(trial) for trial in self._search.trials)
            pool = sorted(pool, key=lambda code: -count[code])[:MOST_IN_USE]
        return [*pool, *self.fresh()]

    def places(self, codes: Sequence[int]) -> list[int]:
        """The numbers by which a model knows seeds: their places in the pool, and the one behind it for a fresh one."""
        pool = self.pool()
        number = {code: k for k, code in enumerate(pool)}
        return [number.get(code, len(pool)) for code in codes]

    def numbers(self, trials: Sequence[Trial]) -> list[int]:
        """The same for trials."""
        return self.places([self.code(trial) for trial in trials])

    def on(self, row: Array, code: int) -> Array:
        """A row (d,) of the given space with a seed."""
        return np.append(row, self._domain.unit(code)) if self._search.space.d > self._search.given.d else row


def domain_of(listed: Sequence[Any] | None) -> Integer | Categorical:
    """The seeds there are: integers or strings that were listed, or any 31-bit integer but the largest.

    Raises:
        SettingError: if they are neither.
    """
    if listed is None:
        return Integer(0, LARGEST_SEED)
    fine = isinstance(listed, (list, tuple, range)) and len(listed) > 0
    if not fine or not all(type(value) in (int, str) for value in listed):
        raise SettingError("realizations", f"must be integers or strings, at least one, got {listed!r}.")
    return Categorical(list(listed))
