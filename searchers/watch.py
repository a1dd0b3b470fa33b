"""Warnings about a search that cannot go well as it is set up: each is given once, and names the remedy."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from raytree.store import RUNGS, Ending, Observations, Status

logger = logging.getLogger("raytree")

LOOKED_AT = 200
"""Trials after which nothing new about a set-up is expected."""
FEW = 3
"""So many trials that ended short are no accident."""
SOME = 10
"""After so many ends a scheduler's longest trials have been seen."""


class Watch:
    """Says every cause once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, cause: str, message: str, *args: Any) -> None:
        """A warning, unless its cause was mentioned before."""
        if cause not in self._said:
            self._said.add(cause)
            logger.warning("raytree: " + message, *args)

    def over(self, cause: str) -> None:
        """The cause is gone: if it comes back, that is worth another warning."""
        self._said.discard(cause)

    def lengths(self, observations: Observations, time_attr: str) -> None:
        """Trials that end at very different t, or before the t of a complete one."""
        if len(observations) > LOOKED_AT:
            return
        ended = [trial for trial in observations.with_status(Status.FINISHED) if trial.t is not None]
        lengths = [trial.t or 0.0 for trial in ended]
        if not lengths:
            return
        longest, shortest = max(lengths), min(lengths)
        cut = sum(trial.ending is not Ending.BY_ITSELF for trial in ended)
        if observations.max_t is None:
            if cut >= FEW and longest >= RUNGS * shortest:
                self.say(
                    "lengths",
                    "trials end at very different %s, from %g to %g, and all of them count in full. If a scheduler stops them, "
                    "give the searcher the scheduler's max_t: max_t=%g, or more.",
                    time_attr, shortest, longest, longest,
                )  # fmt: skip
        elif isinstance(observations.max_t, float) and longest < observations.max_t * (1.0 - 1e-9):
            short = [trial for trial in ended if trial.ending is Ending.BY_ITSELF]
            if len(short) >= FEW or (len(ended) >= SOME and lengths.count(longest) >= FEW):
                self.say(
                    "max_t",
                    "max_t is %g, but no trial got further than %s = %g. Until one does, the longest trials count as complete. "
                    "Give the max_t of the scheduler, or the length of a complete trial.",
                    observations.max_t, time_attr, longest,
                )  # fmt: skip


def reported(result: dict[str, Any], known: Iterable[str]) -> str:
    """The names of what a trainable reported, without what Tune adds."""
    own = [str(key) for key in result if not str(key).startswith("config") and key not in known]
    return ", ".join(own[:12]) or "nothing"
