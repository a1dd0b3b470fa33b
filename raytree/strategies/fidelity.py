"""Learning from evaluations that are not complete (Jenatton et al. 2017, section 5; Levesque et al. 2017, section II).

Two ways to get them. With `max_t` a scheduler stops trials on their way, and what they have said counts at the fidelity they
got to. With `fidelity_key` the search itself says how long a trial is to be: the configuration has a fraction of a complete
evaluation under that key.

In the second case the gain of an evaluation is weighed against its cost. The paper's criterion is the same for every
fraction, so that the cheapest always wins; here expected improvement of a complete evaluation is multiplied by the share of
what is unknown about it that the evaluation would explain (a squared correlation, which falls as cheap evaluations nearby have
told what they can), and divided by the expected cost.

Models see rows of the given space with the fidelity behind them: a logarithm, 1 for a complete evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from raytree.acquisition.maximize import Candidate, Gain
from raytree.errors import SettingError
from raytree.gp.linalg import Array
from raytree.gp.posterior import Mixture
from raytree.models.cost import CostModel
from raytree.space import Float, Path
from raytree.space.added import Added
from raytree.store import RUNGS, Data, Trial
from raytree.strategies.base import Search

STEP = 3.0
"""Fractions of a complete evaluation that are considered are this factor apart."""
WEIGHED = 16
"""So many candidates, the best ones, are weighed at every fraction."""
DOUBT = 2.0
"""In standard deviations: a trial that cannot be trusted is recommended if it is better by more than that."""


def added_fraction(key: str | None, least: float, max_t: float | str | None, pending: str) -> Added | None:
    """The parameter for a fraction of a complete evaluation, if the search is to choose it.

    Raises:
        SettingError: if the settings contradict each other.
    """
    if not isinstance(least, (int, float)) or not 0.0 < least < 1.0:
        raise SettingError("min_fidelity", f"must be between 0 and 1, got {least!r}.")
    if key is None:
        return None
    if max_t is not None:
        raise SettingError("fidelity_key", "and max_t are two ways to do it.", "Give the one that decides how long trials are.")
    if pending == "thompson":
        raise SettingError("pending", "a drawn function says nothing about what a fraction would tell.", "Use 'believer'.")
    return Added("fidelity_key", key, Float(float(least), 1.0, log=True))


class Fidelity:
    """What a search knows about fidelities.

    Args:
        search: the search.
        added: the parameter for a fraction, if the search chooses it.
    """

    def __init__(self, search: Search, added: Added | None) -> None:
        self._search = search
        self._fraction = None if added is None else added.domain

    @property
    def chosen(self) -> bool:
        """Whether the search chooses fractions."""
        return self._fraction is not None

    @property
    def reported(self) -> bool:
        """Whether trials report on their way, and a scheduler may stop them."""
        return self._search.trials.max_t is not None

    @property
    def on(self) -> bool:
        """Whether rows have a fidelity."""
        return self.chosen or self.reported

    # Data

    def ready(self) -> bool:
        """Whether there is anything to learn from."""
        trials = self._search.trials
        if not self.reported:
            return bool(trials.complete())
        return any(value is not None for trial in trials for value in trial.reports.values())

    def known(self) -> Data:
        """All that is known."""
        trials = self._search.trials
        return trials.curves() if self.reported else trials.losses()

    def running(self, trials: Sequence[Trial]) -> tuple[Array, list[Path]]:
        """Rows, with a fidelity if there are any, and paths of running trials: they are expected to be completed."""
        rows = np.array([trial.row for trial in trials])
        if self.reported and len(rows):
            rows = np.column_stack([rows, np.ones(len(rows))])
        return rows, [trial.path for trial in trials]

    def target(self, data: Data) -> float:
        """The fidelity at which improvement is sought: complete, or the highest at which a trial has said something."""
        if not self.reported:
            return 1.0
        said = data.rows[~data.failed, -1]
        return float(said.max()) if len(said) else 1.0

    # Answers

    def trusted(self, trials: Sequence[Trial], valid: Sequence[int]) -> list[int]:
        """Which of some trials are complete: what was never seen at its end is a guess."""
        store = self._search.trials
        if self.chosen:
            return [k for k in valid if trials[k].row[-1] > 1.0 - 1e-9]
        if store.max_t == "auto":  # the longest one may be the only one of its length
            enough = store.full_t / RUNGS
            return [k for k in valid if (trials[k].t or math.inf) >= enough]
        complete = {trial.number for trial in store.complete()}
        return [k for k in valid if trials[k].number in complete]

    @property
    def doubt(self) -> float:
        """By how many deviations others must be better: how a stopped curve goes on is the model's opinion alone."""
        return math.inf if self.reported else DOUBT

    # Stopped trials

    def realistic(self, gain: Gain, posterior: Mixture, gain_of: Callable[[Mixture], Gain]) -> Gain:
        """Where no trial of a path has got to the target, what rows are worth there or where the path's trials have got to,
        whichever is less: there, improvement on the median of those that went on.

        What a scheduler stops is never seen at the end. A model that is wrong about how the curves of a path go on would
        suggest it again and again, and is not put right by trials that all end early; where they end, it is right.
        """
        nearer = self.nearer(posterior, gain_of) if self.reported else {}
        if not nearer:
            return gain

        def least(path: Path, rows: Array) -> Array:
            values = gain.score(path, rows)
            return np.minimum(values, nearer[path].score(path, rows)) if path in nearer else values

        def least_slope(path: Path, row: Array) -> tuple[float, Array]:
            found = gain.slope(path, row)
            return min(found, nearer[path].slope(path, row), key=lambda pair: pair[0]) if path in nearer else found

        return Gain(least, least_slope)

    def nearer(self, posterior: Mixture, gain_of: Callable[[Mixture], Gain]) -> dict[Path, Gain]:
        """By path, what rows are worth at the fidelity that its trials have got to, if that is short of the target."""
        observed, target, space = posterior.parts[0].observed, posterior.parts[0].target, self._search.given
        rows, fidelities = observed.rows[:, : space.d], observed.rows[:, -1].tolist()
        got: dict[bytes, float] = {}  # by configuration
        reached: dict[Path, float] = {}
        for row, path, fidelity in zip(rows, space.paths_of(rows), fidelities, strict=True):
            got[row.tobytes()] = max(got.get(row.tobytes(), 0.0), fidelity)
            reached[path] = max(reached.get(path, 0.0), fidelity)
        furthest = np.array([got[row.tobytes()] for row in rows])
        gains = {}
        for level in {level for level in reached.values() if level < target - 1e-9}:
            if (furthest > level + 1e-9).any():  # none, if the only trials that got so far have failed
                gains[level] = gain_of(posterior.at(level, furthest > level + 1e-9))
        return {path: gains[level] for path, level in reached.items() if level in gains}

    # Choosing how long

    def levels(self) -> Array:
        """(k,) the fidelities to choose from, complete evaluations last."""
        assert isinstance(self._fraction, Float)
        fractions = [1.0]
        while fractions[-1] / STEP >= self._fraction.lower * (1.0 - 1e-9):
            fractions.append(fractions[-1] / STEP)
        return np.array([self._fraction.unit(f) for f in reversed(fractions)])

    def initial(self, row: Array, k: int) -> Array:
        """The k-th row of a design with its fraction: complete evaluations first, then shorter and shorter ones."""
        if self.chosen:
            levels = self.levels()
            row[-1] = levels[-1 - k % len(levels)]
        return row

    def with_fractions(self, posterior: Mixture, first: Sequence[Array], found: Sequence[Candidate]) -> list[Array]:
        """Rows of the searched space: the best candidates with the fraction that gains most for its cost, best first.

        Rows that come before them, to explore, take the cheapest fraction.
        """
        if not self.chosen:
            return [*first, *(c.row for c in found)]
        levels, cost = self.levels(), self._cost()
        fractions = self._fractions(levels)
        weighed = []
        for k, candidate in enumerate(found[:WEIGHED]):
            row = candidate.row[None]
            gain = [float(np.log(np.maximum(posterior.explained(candidate.path, row, level)[0], 1e-12))) for level in levels]
            price = cost.log_cost(np.repeat(row, len(levels), axis=0), [candidate.path] * len(levels), fractions)
            for j, level in enumerate(levels.tolist()):
                weighed.append((candidate.value + gain[j] - float(price[j]), -k, j, np.append(candidate.row, level)))
        weighed.sort(key=lambda entry: entry[:3], reverse=True)
        return [*(np.append(row, levels[0]) for row in first), *(entry[-1] for entry in weighed)]

    def _fractions(self, levels: Array) -> Array:
        """(k,) the fractions of fidelities."""
        assert self._fraction is not None
        return np.array([float(self._fraction.code(level)) for level in levels])

    def _cost(self) -> CostModel:
        """What trials cost, from those that said so."""
        known = [trial for trial in self._search.trials if trial.cost is not None]
        rows = np.array([trial.row for trial in known]).reshape(len(known), self._search.space.d)
        fractions = self._fractions(rows[:, -1])
        costs = np.array([trial.cost for trial in known], dtype=float)
        return CostModel(self._search.given, rows, [trial.path for trial in known], fractions, costs)
