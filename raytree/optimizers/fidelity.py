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
from collections.abc import Sequence
from typing import Any

import numpy as np

from raytree.acquisition.maximize import Candidate, Score, Slope
from raytree.errors import SettingError, one_of
from raytree.gp.context import CONTEXTS
from raytree.gp.linalg import Array
from raytree.models.cost import CostModel
from raytree.models.success import Success
from raytree.observations import RUNGS, Losses, Status, Trial
from raytree.optimizers.exploring import ExploringOptimizer
from raytree.optimizers.surrogate import Added, Fitted, P
from raytree.space import Float, Path

STEP = 3.0
"""Fractions of a complete evaluation that are considered are this factor apart."""
_FAILED = (Status.INVALID, Status.ERRORED)
WEIGHED = 16
"""So many candidates, the best ones, are weighed at every fraction."""


class FidelityOptimizer(ExploringOptimizer[P]):
    """The base of methods whose models know fidelities.

    Args:
        space: the search space.
        context: the kernel between fidelities, see `gp.context`: "quadratic", "decay" or "matern".
        fidelity_key: where the fraction of a complete evaluation stands in a configuration, if the search is to choose it.
        min_fidelity: the least such fraction.
        settings: of every optimizer with a model, see `SurrogateOptimizer` and `Optimizer`.
    """

    def __init__(
        self,
        space: Any,
        *,
        context: str = "quadratic",
        fidelity_key: str | None = None,
        min_fidelity: float = 1.0 / 27.0,
        **settings: Any,
    ) -> None:
        one_of("context", context, CONTEXTS)
        if not isinstance(min_fidelity, (int, float)) or not 0.0 < min_fidelity < 1.0:
            raise SettingError("min_fidelity", f"must be between 0 and 1, got {min_fidelity!r}.")
        if fidelity_key is not None and settings.get("max_t") is not None:
            raise SettingError(
                "fidelity_key", "and max_t are two ways to do it.", "Give the one that decides how long trials are."
            )
        if fidelity_key is not None and settings.get("pending") == "thompson":
            raise SettingError("pending", "a drawn function says nothing about what a fraction would tell.", "Use 'believer'.")
        self._fraction = Float(float(min_fidelity), 1.0, log=True)
        added = None if fidelity_key is None else Added("fidelity_key", fidelity_key, self._fraction)
        super().__init__(space, added, **settings)
        self._fidelity: dict[str, Any] = {"context": context, "fidelity_key": fidelity_key, "min_fidelity": float(min_fidelity)}

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._fidelity}

    @property
    def _chooses(self) -> bool:
        """Whether the search chooses fractions."""
        return self._added is not None

    @property
    def _doubt(self) -> float:
        """How a curve goes on that a scheduler has stopped is the model's opinion, and nothing has been trained to the end."""
        return super()._doubt if self.observations.max_t is None else math.inf

    @property
    def context(self) -> str | None:
        """The context kernel, if there are fidelities."""
        on = self._chooses or self.observations.max_t is not None
        return str(self._fidelity["context"]) if on else None

    # Configurations with a fraction

    def _usual(self) -> float:
        return 1.0  # complete

    def _levels(self) -> Array:
        """(k,) the fidelities to choose from, complete evaluations last."""
        fractions = [1.0]
        while fractions[-1] / STEP >= self._fraction.lower * (1.0 - 1e-9):
            fractions.append(fractions[-1] / STEP)
        return np.array([self._fraction.unit(f) for f in reversed(fractions)])

    def _fractions(self, levels: Array) -> Array:
        """(k,) the fractions of fidelities."""
        return np.array([float(self._fraction.code(level)) for level in levels])

    def _initial(self, k: int) -> Array:
        row = super()._initial(k)
        if self._chooses:
            levels = self._levels()
            row[-1] = levels[-1 - k % len(levels)]
        return row

    # Data

    def _known(self) -> Losses:
        """Rows have a fidelity behind the columns of the given space, if there are any."""
        return self.observations.losses() if self.observations.max_t is None else self.observations.curves()

    def _has_data(self) -> bool:
        if self.observations.max_t is None:
            return super()._has_data()
        return any(value is not None for trial in self.observations for value in trial.reports.values())

    def _unknown(self) -> tuple[Array, list[Path]]:
        rows, paths = super()._unknown()
        if self.observations.max_t is not None and len(rows):
            rows = np.column_stack([rows, np.ones(len(rows))])
        return rows, paths

    def _target(self, data: Losses) -> float:
        """The fidelity at which improvement is sought: complete, or the highest at which a trial has said something."""
        if self.observations.max_t is None:
            return 1.0
        said = [float(row[-1]) for trial, row in zip(data.trials, data.rows, strict=True) if trial.status not in _FAILED]
        return max(said, default=1.0)

    def _gains(self, posterior: Any, success: Success | None) -> tuple[Score, Slope]:
        """Where no trial of a path has got to the target, what rows are worth there or where the path's trials have got to,
        whichever is less: there, improvement on the median of those that went on.

        What a scheduler stops is never seen at the end. A model that is wrong about how the curves of a path go on would
        suggest it again and again, and is not put right by trials that all end early; where they end, it is right.
        """
        score, slope = super()._gains(posterior, success)
        nearer = self._nearer(posterior, success)
        if not nearer:
            return score, slope

        def least(path: Path, rows: Array) -> Array:
            values = score(path, rows)
            return np.minimum(values, nearer[path][0](path, rows)) if path in nearer else values

        def least_slope(path: Path, row: Array) -> tuple[float, Array]:
            found = slope(path, row)
            return min(found, nearer[path][1](path, row), key=lambda pair: pair[0]) if path in nearer else found

        return least, least_slope

    def _nearer(self, posterior: Any, success: Success | None) -> dict[Path, tuple[Score, Slope]]:
        """By path, what rows are worth at the fidelity that its trials have got to, if that is short of the target."""
        if self.observations.max_t is None:
            return {}
        model, target = posterior.parts[0].model, posterior.parts[0].target
        rows, fidelities = model.rows[:, : self._plain.d], model.rows[:, -1].tolist()
        got: dict[bytes, float] = {}  # by configuration
        reached: dict[Path, float] = {}
        for row, path, fidelity in zip(rows, self._plain.paths_of(rows), fidelities, strict=True):
            got[row.tobytes()] = max(got.get(row.tobytes(), 0.0), fidelity)
            reached[path] = max(reached.get(path, 0.0), fidelity)
        furthest = np.array([got[row.tobytes()] for row in rows])
        gains = {}
        for level in {level for level in reached.values() if level < target - 1e-9}:
            if (furthest > level + 1e-9).any():  # none, if the only trials that got so far have failed
                gains[level] = super()._gains(posterior.at(level, furthest > level + 1e-9), success)
        return {path: gains[level] for path, level in reached.items() if level in gains}

    def _trusted(self, trials: Sequence[Trial], valid: Sequence[int]) -> list[int]:
        """Complete trials: what was never seen at its end is a guess."""
        if self._chooses:
            return [k for k in valid if trials[k].row[-1] > 1.0 - 1e-9]
        if self.observations.max_t == "auto":  # the longest one may be the only one of its length
            enough = self.observations.full_t / RUNGS
            return [k for k in valid if (trials[k].t or math.inf) >= enough]
        complete = {trial.number for trial in self.observations.complete()}
        return [k for k in valid if trials[k].number in complete]

    # Choosing how long

    def _more(self) -> int:
        return 0 if self._chooses else super()._more()

    def _suggested(
        self, fitted: Fitted[P], posterior: Any, success: Success | None, found: Sequence[Candidate | Array]
    ) -> list[Array]:
        """Rows to suggest, best first; what else the search has found is queued when many trials run."""
        self._follow(posterior, success, found)
        return self._with_lengths(fitted, found)

    def _with_lengths(self, fitted: Fitted[P], candidates: Sequence[Candidate | Array]) -> list[Array]:
        """Rows of the searched space: the best candidates with the fraction that gains most for its cost, best first.

        Rows that are no candidates (for exploring) come first and take the cheapest fraction.
        """
        found = [c for c in candidates if isinstance(c, Candidate)]
        first = [c for c in candidates if not isinstance(c, Candidate)]
        if not self._chooses:
            return [*first, *(c.row for c in found)]
        levels, cost = self._levels(), self._cost()
        posterior: Any = fitted.posterior
        weighed = []
        for k, candidate in enumerate(found[:WEIGHED]):
            row = candidate.row[None]
            gain = [float(np.log(np.maximum(posterior.informs(candidate.path, row, level)[0], 1e-12))) for level in levels]
            fractions = self._fractions(levels)
            rows = np.repeat(row, len(levels), axis=0)
            price = cost.log_cost(rows, [candidate.path] * len(levels), fractions)
            for j, level in enumerate(levels.tolist()):
                weighed.append((candidate.value + gain[j] - float(price[j]), -k, j, np.append(candidate.row, level)))
        weighed.sort(key=lambda entry: entry[:3], reverse=True)
        return [*(np.append(row, levels[0]) for row in first), *(entry[-1] for entry in weighed)]

    def _cost(self) -> CostModel:
        """What trials cost, from those that said so."""
        known = [trial for trial in self.observations if trial.cost is not None]
        rows = np.array([trial.row for trial in known]).reshape(len(known), self.space.d)
        fractions = self._fractions(rows[:, -1])
        return CostModel(self._plain, rows, [t.path for t in known], fractions, np.array([t.cost for t in known], dtype=float))
