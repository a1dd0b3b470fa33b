"""Search by expected improvement on paths: a model, a way to maximise, and what is done about running and stopped trials.

    known data -> inference: a posterior -> running trials -> gain of a row -> search for the best row -> suggestion

Each arrow is a part of its own: `Inference` (a model over the course of a search), `acquisition.pending`, the gain (log expected
improvement and the log-chance of success), a `Find` (how the gain is maximised), `Fidelity` (stopped trials, chosen lengths),
`acquisition.rounds` (several suggestions from one fit). The strategy connects them and knows nothing of any model.

One rule is not the model's: when it expects nothing any more, every second suggestion goes to the path that was tried least,
searched as if it were alone. A leaf that is bad wherever it was tried may hold the best point of all at a narrow optimum, and no
model of the values that were seen can know better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from raytree.acquisition import pending, rounds
from raytree.acquisition.explore import least_tried
from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import Candidate, Gain
from raytree.acquisition.paths import known_paths
from raytree.design import Design
from raytree.explain import Explanation
from raytree.gp.linalg import Array, one_thread
from raytree.gp.posterior import Mixture
from raytree.models.success import Success
from raytree.space import Path, Point
from raytree.store import FAILED, Data, Trial
from raytree.strategies.answers import answer, explained
from raytree.strategies.base import Answer, Search, Strategy
from raytree.strategies.fidelity import Fidelity
from raytree.strategies.fitted import Chances, Fitted, Inference, enough, latest

MOST_PATHS = 24
"""With more paths than this, full improvement is for the most promising ones."""
NEGLIGIBLE = 1e-4
"""Less expected improvement than this, in units of the transformed losses, is none."""
EXPLORE_EVERY = 2
"""Once none is expected, one in so many suggestions goes where little was tried."""
ALONE = 100
"""Up to so many observations a path that is explored has a model of its own."""
RESERVE = 4
"""Paths that are looked at when the least tried one has nothing new left."""

Find = Callable[[Gain, Fitted[Mixture], Mixture, list[Path], np.random.Generator], list[Candidate]]
"""How a gain is maximised: (gain, fitted model, posterior with running trials, paths, rng) -> candidates, best first."""


class ImprovementStrategy(Strategy):
    """Expected improvement on the paths of a space.

    Args:
        search: what to work on.
        inference: the model.
        find: how the gain is maximised.
        fidelity: what is known about trials that are not complete.
        treatment: of running trials, see `acquisition.pending`.
        explore: whether to look elsewhere when the model expects nothing.
    """

    def __init__(
        self,
        search: Search,
        inference: Inference[Mixture],
        find: Find,
        fidelity: Fidelity,
        treatment: str,
        explore: bool,
    ) -> None:
        super().__init__(search)
        self.inference, self.find, self.fidelity = inference, find, fidelity
        self.treatment, self.explore = treatment, explore
        self.chances = Chances(search)
        self.queue: list[Point] = []

    # Rows without a model

    def initial(self, design: Design, k: int) -> Array:
        return self.fidelity.initial(design.row(k), k)

    def added_value(self) -> float:
        return 1.0  # of a complete evaluation

    def ready(self) -> bool:
        return self.fidelity.ready()

    def queued(self) -> list[Array]:
        while self.queue:
            point = self.queue.pop(0)
            if not self.search.trials.used(point):
                return [self.search.space.encode(point)]
        return []

    def expect_curves(self) -> None:
        self.inference.expect_curves()

    # Proposing

    def known(self, remember: bool = False) -> Data:
        """All that is known."""
        return self.chances.believable(self.fidelity.known(), remember)

    def data(self) -> Data:
        """What the model of a suggestion is fitted to."""
        return enough(self.known(), self.inference.block_of)

    def measured(self) -> Data:
        """What the model of an answer is fitted to."""
        return self.chances.measured(self.fidelity.known())

    def fit(self, remember: bool = True) -> Fitted[Mixture]:
        """The model for what is known now."""
        known = self.known(remember)
        return self.inference.fit(known, self.fidelity.target(known), remember)

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            space = self.search.given
            known = self.known(remember=True)
            fitted = self.inference.fit(known, self.fidelity.target(known))
            paths = known_paths(space, fitted.visited, rng)
            if self.treatment == "thompson" and self.search.trials.running():
                rows = pending.places(space, paths[:MOST_PATHS], fitted.around, rng)
                return pending.lowest_of_drawn(fitted.posterior, rows, space.paths_of(rows), rng)
            posterior, success = self.with_running(fitted.posterior, rng), self.chances.now()
            found = self.find(self.gain(posterior, success), fitted, posterior, paths, rng)
            first: list[Array] = []
            follow = self._round()
            if self.explore and found[0].value < math.log(NEGLIGIBLE) and -ask % EXPLORE_EVERY <= follow:
                first = self._least_tried(known, success, paths, rng)
            found = found if self.treatment == "ignore" else pending.apart(found, self._running_rows())
            self._queue(posterior, success, first, found, follow)
            return self.fidelity.with_fractions(fitted.posterior, first, found)

    def with_running(self, posterior: Mixture, rng: np.random.Generator) -> Mixture:
        """A posterior that knows of running trials."""
        rows, paths = self.fidelity.running(self._running())
        if not len(rows) or self.treatment == "ignore":
            return posterior
        return pending.fantasies(posterior, rows, paths, rng) if self.treatment == "fantasy" else posterior.condition(rows, paths)

    def _running(self) -> list[Trial]:
        return latest(self.search.trials.running(), self.inference.block_of)

    def _running_rows(self) -> list[tuple[Path, Array]]:
        return [(trial.path, self.search.given_row(trial)[0]) for trial in self._running()]

    def gain(self, posterior: Mixture, success: Success | None) -> Gain:
        """What rows are worth: log-EI and the log of their chance of success; see `Fidelity.realistic` for stopped trials."""
        return self.fidelity.realistic(_gain(posterior, success), posterior, lambda nearer: _gain(nearer, success))

    # Rounds

    def _round(self) -> int:
        """How many suggestions follow the next one; only believers know what running trials are taken for."""
        if self.treatment != "believer" or self.fidelity.chosen:
            return 0
        running = len(self.search.trials.running())
        return rounds.length(running, len(self.search.trials) - running)

    def _queue(
        self, posterior: Mixture, success: Success | None, first: Sequence[Array], found: Sequence[Candidate], n: int
    ) -> None:
        row = first[0] if first else found[0].row
        start = self.search.given.path_of(row), row
        rows = rounds.following(posterior, lambda grown: self.gain(grown, success).score, start, found, n)
        self.queue += [self.search.space.decode(row) for row in rows]

    # Looking elsewhere

    def _least_tried(self, known: Data, success: Success | None, paths: list[Path], rng: np.random.Generator) -> list[Array]:
        """A row on the path that was tried least for its dimension; behind it rows of the next ones, should it be used up.

        While a path has no more trials than parameters, at random; then where a search of that path alone would go.
        """
        space = self.search.given
        failed = [trial.path for trial in self.search.trials.with_status(*FAILED)]
        order = least_tried(space, (trial.path for trial in self.search.trials), failed, paths)[:RESERVE]
        rows = [space.on_path(path, rng.random((1, space.d)))[0] for path in order]
        here = [k for k, path in enumerate(known.paths) if order and path == order[0]]
        if order and len(space.free(order[0])) < len(here) <= ALONE:
            own = known.at(here)
            target = float(own.rows[:, -1].max()) if self.fidelity.on else 1.0
            alone = self.inference.alone(own, target)
            posterior = self.with_running(alone.posterior, rng)
            rows.insert(0, self.find(self.gain(posterior, success), alone, posterior, order[:1], rng)[0].row)
        return rows

    # Answers

    def final(self) -> Fitted[Mixture]:
        """The model to answer questions from."""
        return self.inference.final(self.measured())

    def answer(self) -> Answer | None:
        return self.answer_from(self.final)

    def answer_from(self, fit: Callable[[], Fitted[Mixture]]) -> Answer | None:
        """The answer that a model gives."""
        trials = enough(self.measured(), self.inference.block_of).trials
        return answer(self.search, trials, fit, self.fidelity.trusted, self.fidelity.doubt) or super().answer()

    def explain(self, title: str) -> Explanation:
        if not self.ready():
            return super().explain(title)
        return explained(self.search, title, self.final, self.inference.describe, self.inference.notes)

    # State

    def state(self) -> dict[str, Any]:
        return {
            "inference": self.inference.state(),
            "success": self.chances.state(),
            "queue": [list(point) for point in self.queue],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.inference.restore(state["inference"])
        self.chances.restore(state["success"])
        self.queue = [self.search.checked(point) for point in state["queue"]]


def _gain(posterior: Mixture, success: Success | None) -> Gain:
    """Log-EI, and the log of the chance of success."""

    def score(path: Path, rows: Array) -> Array:
        values = log_improvement(posterior, path, rows)
        return values if success is None else values + success.log_chance(path, rows)

    def slope(path: Path, row: Array) -> tuple[float, Array]:
        value, gradient = log_improvement_slope(posterior, path, row)
        if success is None:
            return value, gradient
        chance, by_row = success.log_chance_slope(path, row)
        return value + chance, gradient + by_row

    return Gain(score, slope)
