"""Which seeds there are, which of them are in use, and which may come next (Moss et al. 2020, section 3).

A search starts with a few realizations and adds fresh ones as it goes on. The paper lets what an evaluation would tell decide
alone; by default the pool grows with the number of trials instead, and every realization in it gets about its share of them
(ours; why is said where it is decided). Realizations are known by their codes: the seed itself, or a number in a list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from raytree.errors import SettingError
from raytree.space import Categorical, Integer

LARGEST_SEED = 2**31 - 2
MOST_REALIZATIONS = 10_000
"""That a search may be told to use; more than anybody can evaluate."""
UNEQUAL = 1.2
"""A realization has at most so many times its share of the trials."""


class Realizations:
    """The seeds of a search.

    Args:
        domain: all that there are, see `domain_of`.
        most: how many are used at most: a number, "all" (no limit), or "auto": sqrt(2 n) of n trials, not fewer either.
        initial: how many a search starts with.
        seed: of the fresh ones.

    Raises:
        SettingError: where one of them is not what it must be.
    """

    def __init__(self, domain: Integer | Categorical, most: int | str, initial: int, seed: int) -> None:
        for name, count in (("max_realizations", most), ("initial_realizations", initial)):
            fine = type(count) is int and 0 < count <= MOST_REALIZATIONS
            if not fine and not (name.startswith("max") and count in ("auto", "all")):
                raise SettingError(name, f"must be a positive integer up to {MOST_REALIZATIONS:,}, got {count!r}.")
        self.domain, self._most, self.initial, self._seed = domain, most, initial, seed

    def pool(self, used: Sequence[int]) -> list[int]:
        """The codes in use, in order of appearance, and then fresh ones up to the initial number.

        Args:
            used: the code of every trial, in order.
        """
        pool = list(dict.fromkeys(used))
        while len(pool) < self.initial:
            fresh = self.fresh(pool, len(used))
            if fresh is None:
                break
            pool.append(fresh)
        return pool

    def fresh(self, pool: Sequence[int], trials: int) -> int | None:
        """A code that was not used yet; None if there is no other, or none is due after so many trials."""
        return None if len(pool) >= self._limit(trials) else self._unseen(pool)

    def reserve(self, pool: Sequence[int], trials: int) -> int | None:
        """A fresh code for when nothing is left to try on the pool: only a limit that was given as a number stands."""
        return self._unseen(pool) if isinstance(self._most, str) else self.fresh(pool, trials)

    def allowed(self, pool: Sequence[int], used: Sequence[int]) -> list[int]:
        """Which may come next, by their places in the pool; the place behind it is a fresh one's.

        One step ahead a fresh seed mostly tells most, but many steps ahead seeds that were evaluated in several places tell
        more, hence a limit. With a limit, none may have many more trials than the others: the model thinks it knows how much
        realizations differ, and prefers those it knows best, which may be alike by chance.
        """
        fresh = [] if self.fresh(pool, len(used)) is None else [len(pool)]
        if self._most == "all":
            return [*range(len(pool)), *fresh]
        if fresh and self._most == "auto":
            return fresh
        count = Counter(used)
        share = UNEQUAL * (1 + len(used)) / len(pool)
        return [k for k, code in enumerate(pool) if count[code] < share] + fresh

    def _limit(self, trials: int) -> float:
        """How many there may be after so many trials."""
        if self._most == "auto":
            return max(self.initial, math.ceil(math.sqrt(2 * (1 + trials))))
        return math.inf if isinstance(self._most, str) else self._most

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
