"""What methods with log-EI on paths have in common: rounds of suggestions, and a guard against giving up too early."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from raytree.acquisition.explore import exchanged, farthest, least_tried
from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import Candidate, Score, Slope
from raytree.acquisition.typical import Typical
from raytree.gp.linalg import Array
from raytree.observations import Status
from raytree.optimizers.surrogate import EXPLORE_EVERY, MOST_PATHS, NEGLIGIBLE, Fitted, P, SurrogateOptimizer
from raytree.space import Path, Point

ACQUAINT_EVERY = 4
"""Every so many suggestions one goes to a path with no more trials than parameters of its own, if paths are few."""
ACQUAINTED = 2
"""On the best path, a category that has fewer trials than this is tried next to the best one, as often."""
ALONE = 100
"""Up to so many observations a path that is explored has a model of its own."""
SAME = 1e-3
"""Of the unit interval: a running trial this close makes a second one pointless."""
MOST_TOGETHER, NEWS = 16, 6
"""As many suggestions as trials are running are found with the next one, up to so many, and together no more than one for so many
results: what those in between would say changes little then (benchmarks/pending.py), and the work is done once."""


class ExploringOptimizer(SurrogateOptimizer[P]):
    """Finds as many suggestions at a time as trials are running, and guards exploring, if `_method["explore"]` says so: looks
    where little was tried (`acquisition.explore`), and for a while not into corners (`acquisition.typical`)."""

    _method: dict[str, Any]

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

    def _gains(self, posterior: Any, chance: dict[Path, float]) -> tuple[Score, Slope]:
        """What rows are worth: log-EI, weighed by each path's chance of a valid value; and its gradient at one.

        Rows that are far out in a corner are discounted, if exploring is guarded.
        """
        typical = Typical(self.given_space, len(self.observations) if self._method["explore"] else math.inf)

        def score(path: Path, rows: Array) -> Array:
            return log_improvement(posterior, path, rows) + chance.get(path, 0.0) + typical.discount(path, rows)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            value, gradient = log_improvement_slope(posterior, path, row)
            discount, by_row = typical.slope(path, row)
            return value + chance.get(path, 0.0) + discount, gradient + by_row

        return score, slope

    def _follow(self, posterior: Any, found: Sequence[Candidate | Array]) -> None:
        """Queues the suggestions to come after the first one found, each as if those before it were running.

        They are the best of the candidates as they are: refining each takes as long as the first and gains nothing
        (benchmarks/README.md).
        """
        left: dict[Path, list[Candidate]] = {}
        for candidate in found:
            if isinstance(candidate, Candidate):
                left.setdefault(candidate.path, []).append(candidate)
        chance = self._log_feasible()
        row = found[0].row if isinstance(found[0], Candidate) else found[0]
        path = self.given_space.paths_of(row[None])[0]
        for _ in range(self._more()):
            posterior = posterior.condition(row[None], [path])
            left[path] = [c for c in left.get(path, []) if np.nanmax(np.abs(c.row - row), initial=0.0) > SAME]
            score, _ = self._gains(posterior, chance)
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

    # Exploring

    def _guarded(
        self, fitted: Fitted[P], candidates: Sequence[Candidate], known: list[Path], rng: np.random.Generator
    ) -> list[Candidate | Array]:
        """The candidates, best first; before them a row where little was tried, when that is due."""
        rows: list[Candidate | Array] = list(candidates)
        settled = candidates[0].value < math.log(NEGLIGIBLE) and self._due(EXPLORE_EVERY)
        if settled or self._is_running(candidates[0]):
            return [*self._explore(known, rng), *rows]
        if self._due(ACQUAINT_EVERY) and self.given_space.n_paths <= MOST_PATHS:
            strange = self._explore([path for path in known if self._is_strange(path)], rng)
            return [*(strange or self._exchanged(fitted)), *rows]
        return rows

    def _exchanged(self, fitted: Fitted[P]) -> list[Array]:
        """The best row with a category that its path has hardly tried, if there is one."""
        path = fitted.visited[0]
        tried = [self._plain_rows(trial)[0] for trial in self.observations if trial.path == path]
        space, best = self.given_space, fitted.around[path][0]
        row = exchanged(space, path, best, np.array(tried), ACQUAINTED, lambda row: self.observations.used(space.decode(row)))
        return [] if row is None else [row]

    def _due(self, every: int) -> bool:
        """Whether one of the suggestions that are found now is one in so many."""
        return -self._asks % every <= self._more()

    def _is_strange(self, path: Path) -> bool:
        """Whether a path has no more trials than parameters of its own: what the model says of its best is a guess."""
        own = [i for i in self.given_space.free(path) if i not in self.given_space.shared]
        return sum(trial.path == path for trial in self.observations) <= len(own)

    def _is_running(self, candidate: Candidate) -> bool:
        """Whether a trial that is running (unless those are ignored), or has failed, is so close that another adds nothing."""
        unknown = [t for t in self.observations.unknown() if t.status is not Status.RUNNING or self.treatment != "ignore"]
        near = (self._plain_rows(trial)[0] for trial in unknown if trial.path == candidate.path)
        return any(np.nanmax(np.abs(row - candidate.row), initial=0.0) < SAME for row in near)

    def _explore(self, paths: list[Path], rng: np.random.Generator) -> list[Array]:
        """A row on the path that was tried least, for when the model expects nothing any more."""
        space = self.given_space
        path = least_tried(space, (trial.path for trial in self.observations), paths, self._log_feasible())
        if path is None:
            return []
        data = self._data()
        here = [k for k, p in enumerate(data.paths) if p == path]
        if self._is_strange(path) or not len(space.free(path)) < len(here) <= ALONE:
            rows = [self._plain_rows(trial)[0] for trial in self.observations if trial.path == path]
            return [farthest(space, path, np.array(rows), rng)]
        alone = self._alone(data.rows[here], data.losses[here], [path] * len(here))
        return [self._maximize(alone, self._with_pending(alone, rng), [path], rng)[0].row]

    def _alone(self, rows: Array, losses: Array, paths: Sequence[Path]) -> Fitted[P]:
        """A model of one path, which the others have not taught anything."""
        raise NotImplementedError

    def _maximize(self, fitted: Fitted[P], posterior: Any, paths: list[Path], rng: np.random.Generator) -> list[Candidate]:
        """The acquisition function maximised on some paths, best first."""
        raise NotImplementedError

    # State

    def _method_state(self) -> dict[str, Any]:
        return {**super()._method_state(), "queue": [list(point) for point in self._queue]}

    def _restore_method(self, state: dict[str, Any]) -> None:
        super()._restore_method(state)
        self._queue = [self._checked_point(point) for point in state.get("queue", [])]
