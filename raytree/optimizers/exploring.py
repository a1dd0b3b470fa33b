"""What methods with log-EI on paths have in common: rounds of suggestions, and a look elsewhere when nothing is expected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from raytree.acquisition.explore import least_tried
from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import Candidate, Score, Slope
from raytree.gp.linalg import Array
from raytree.models.success import Success
from raytree.observations import Losses, Status
from raytree.optimizers.surrogate import EXPLORE_EVERY, FAILED, NEGLIGIBLE, Fitted, P, SurrogateOptimizer
from raytree.space import Path, Point

ALONE = 100
"""Up to so many observations a path that is explored has a model of its own."""
RESERVE = 4
"""Paths that are looked at when the least tried one has nothing new left."""
SAME = 1e-3
"""Of the unit interval: rows closer than this are the same trial twice."""
MOST_TOGETHER = 16
"""The most suggestions that are found together with one: as many as trials are running, up to so many."""
NEWS = 6
"""Together with one suggestion, at most one more for so many results is found: what came in between would change little."""


class ExploringOptimizer(SurrogateOptimizer[P]):
    """Finds as many suggestions at a time as trials are running. With `_method["explore"]`, looks elsewhere when the model
    expects nothing any more: every second suggestion then goes to the path that was tried least, searched as if it were
    alone."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._queue: list[Point] = []  # suggestions that were found together with an earlier one

    # Rounds

    def _preferred(self, rng: np.random.Generator) -> Iterable[Array]:
        while self._queue:
            point = self._queue.pop(0)
            if not self.observations.used(point):
                return [self.space.encode(point)]
        return super()._preferred(rng)

    def _more(self) -> int:
        """How many suggestions are found beside the next one, from what is known now.

        Only believers know what running trials are taken for.
        """
        if self.treatment != "believer":
            return 0
        running = len(self.observations.with_status(Status.RUNNING))
        return min(MOST_TOGETHER, running, max(0, (len(self.observations) - running) // NEWS - 1))

    def _gains(self, posterior: Any, success: Success | None) -> tuple[Score, Slope]:
        """What rows are worth: log-EI and the log of their chance of success; and its gradient at one."""

        def score(path: Path, rows: Array) -> Array:
            values = log_improvement(posterior, path, rows)
            return values if success is None else values + success.log_chance(path, rows)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            value, gradient = log_improvement_slope(posterior, path, row)
            if success is None:
                return value, gradient
            chance, by_row = success.log_chance_slope(path, row)
            return value + chance, gradient + by_row

        return score, slope

    def _follow(self, posterior: Any, success: Success | None, found: Sequence[Candidate | Array]) -> None:
        """Queues the suggestions to come after the first one found, each as if those before it were running.

        They are the best of the candidates as they are: refining each takes as long as the first and gains nothing.
        """
        left: dict[Path, list[Candidate]] = {}
        for candidate in found:
            if isinstance(candidate, Candidate):
                left.setdefault(candidate.path, []).append(candidate)
        row = found[0].row if isinstance(found[0], Candidate) else found[0]
        path = self.given_space.paths_of(row[None])[0]
        for _ in range(self._more()):
            posterior = posterior.condition(row[None], [path])
            left[path] = [c for c in left.get(path, []) if np.nanmax(np.abs(c.row - row), initial=0.0) > SAME]
            score, _ = self._gains(posterior, success)
            renewed: set[Path] = set()
            while True:  # nothing is worth more than before, so that only what leads needs a new value
                best = max((c for group in left.values() for c in group), key=lambda c: c.value, default=None)
                if best is None:
                    return
                if best.path in renewed:
                    break
                values = score(best.path, np.array([c.row for c in left[best.path]]))
                left[best.path] = [c._replace(value=float(v)) for c, v in zip(left[best.path], values, strict=True)]
                renewed.add(best.path)
            _, path, row = best
            self._queue.append(self.space.decode(row))

    # Looking elsewhere

    def _elsewhere(
        self, candidates: Sequence[Candidate], success: Success | None, known: list[Path], rng: np.random.Generator
    ) -> list[Candidate | Array]:
        """The candidates, best first; before them a row on the path that was tried least, when nothing is expected of them."""
        rows: list[Candidate | Array] = [*self._apart(candidates)]
        settled = candidates[0].value < math.log(NEGLIGIBLE) and -self._asks % EXPLORE_EVERY <= self._more()
        return [*self._least_tried(success, known, rng), *rows] if self._method["explore"] and settled else rows

    def _apart(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates without those that are the same as a running trial, unless all are: what it will say is on its way."""
        if self.treatment == "ignore":
            return list(candidates)
        running = [(trial.path, self._plain_rows(trial)[0]) for trial in self._latest(self.pending)]

        def is_running(candidate: Candidate) -> bool:
            same = (row for path, row in running if path == candidate.path)
            return any(np.nanmax(np.abs(row - candidate.row), initial=0.0) < SAME for row in same)

        return [candidate for candidate in candidates if not is_running(candidate)] or list(candidates)

    def _least_tried(self, success: Success | None, paths: list[Path], rng: np.random.Generator) -> list[Array]:
        """A row on the path that was tried least for its dimension; behind it rows of the next ones, should it be used up.

        While a path has no more trials than parameters, at random; then where a search of that path alone would go.
        """
        space = self.given_space
        failed = [trial.path for trial in self.observations.with_status(*FAILED)]
        order = least_tried(space, (trial.path for trial in self.observations), failed, paths)[:RESERVE]
        rows = [space.on_path(path, rng.random((1, space.d)))[0] for path in order]
        data = self._data()
        here = [k for k, path in enumerate(data.paths) if order and path == order[0]]
        if order and len(space.free(order[0])) < len(here) <= ALONE:
            alone = self._alone(
                Losses(data.rows[here], data.losses[here], [order[0]] * len(here), [data.trials[k] for k in here])
            )
            rows.insert(0, self._maximize(alone, self._with_pending(alone, rng), success, order[:1], rng)[0].row)
        return rows

    def _alone(self, data: Losses) -> Fitted[P]:
        """A model of one path, which the others have not taught anything."""
        raise NotImplementedError

    def _maximize(
        self, fitted: Fitted[P], posterior: Any, success: Success | None, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        """The acquisition function maximised on some paths, best first."""
        raise NotImplementedError

    # State

    def _method_state(self) -> dict[str, Any]:
        return {**super()._method_state(), "queue": [list(point) for point in self._queue]}

    def _restore_method(self, state: dict[str, Any]) -> None:
        super()._restore_method(state)
        self._queue = [self._checked_point(point) for point in state.get("queue", [])]
