"""What a search asks its strategy: rows to start with, the next row, an answer, and what to remember.

A strategy works on a `Search` and never changes it. The base class is search without a model: it knows the initial design and
random rows, and answers with the best trial. A method replaces `propose`, and whatever else it does in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from raytree.design import Design
from raytree.errors import StateError
from raytree.explain import Explanation, path_table
from raytree.gp.linalg import Array
from raytree.space import Point, Space
from raytree.store import Observations, Trial

LISTABLE = 200_000
"""Finite spaces up to this size are listed to find what is left."""


@dataclass(frozen=True)
class Search:
    """What a strategy works on.

    Args:
        given: the space as the user gave it.
        space: the space that is searched: the same, or with a parameter that the method adds as the last one.
        trials: every trial so far.
        seed: of everything random.
    """

    given: Space
    space: Space
    trials: Observations
    seed: int

    def given_row(self, trial: Trial) -> Array:
        """(1, d) a trial's row in the space as it was given."""
        return trial.row[None, : self.given.d]

    def checked(self, codes: Sequence[Any]) -> Point:
        """A saved point of the searched space; raises `StateError` if it is none."""
        point = tuple(codes)
        if not self.space.admits(point):
            raise StateError("state", f"the point {list(codes)!r} is not in the space.", "Use another snapshot.")
        return point


class Answer(NamedTuple):
    """The trial whose configuration to use, with the expected metric in the user's sign and units."""

    trial: Trial
    value: float
    sd: float | None


class Strategy:
    """Search without a model.

    Args:
        search: what to work on.
    """

    def __init__(self, search: Search) -> None:
        self.search = search

    # Rows without a model

    def initial(self, design: Design, k: int) -> Array:
        """(d,) the k-th row of the initial design."""
        return design.row(k)

    def at_random(self, rng: np.random.Generator, n: int) -> Array:
        """(n, d) rows for when nothing better is known."""
        return self.search.space.sample(rng, n)

    def leftover(self, rng: np.random.Generator) -> Point | None:
        """A point that was not tried, when chance no longer finds one."""
        space = self.search.space
        if space.size <= LISTABLE:
            left = [point for point in space.points() if not self.search.trials.used(point)]
            return left[int(rng.integers(len(left)))] if left else None
        return space.decode(self.at_random(rng, 1)[0])

    def added_value(self) -> Any:
        """The value of the parameter that the method adds, in a configuration from elsewhere."""
        raise NotImplementedError

    # Proposing

    def ready(self) -> bool:
        """Whether there is anything to learn from."""
        return self.search.trials.best() is not None

    def queued(self) -> list[Array]:
        """Rows that were found together with an earlier one, if any are left: the next to suggest."""
        return []

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        """Rows in order of preference; the first that was not tried is taken. The method itself.

        Args:
            ask: the number of the question.
            rng: of this question alone.
        """
        raise NotImplementedError

    def expect_curves(self) -> None:
        """Trials are being stopped or paused on their way from now on."""

    # What was learnt

    def answer(self) -> Answer | None:
        """The configuration to use: the best one seen. None before there is a value."""
        best = self.search.trials.best()
        return None if best is None or best.value is None else Answer(best, best.value, None)

    def explain(self, title: str) -> Explanation:
        """What was tried where: per path, trials, failures, best and mean value, share of trials."""
        return Explanation(path_table(self.search.trials), title=title)

    # State

    def state(self) -> dict[str, Any]:
        """What the method itself must remember, as JSON values."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """The inverse of `state`, called after the trials are back."""


class RandomStrategy(Strategy):
    """Random rows, as Tune draws them."""

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        return self.search.space.sample(rng, 1)


class DesignStrategy(Strategy):
    """The initial design, for as long as asked."""

    def ready(self) -> bool:
        return False
