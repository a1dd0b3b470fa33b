"""What a model says in the end: which configuration to use, and what was learnt of every path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from raytree.explain import Explanation, Notes, path_table
from raytree.gp.linalg import Array, one_thread
from raytree.gp.posterior import Posterior, Prediction
from raytree.gp.transform import Transform
from raytree.store import Status, Trial
from raytree.strategies.base import Answer, Search
from raytree.strategies.fitted import Fitted

P = TypeVar("P", bound=Posterior)

Trusted = Callable[[Sequence[Trial], Sequence[int]], list[int]]
"""Which of some trials, by their numbers in a list, are known well enough to be recommended."""


def in_units(search: Search, scale: Transform, prediction: Prediction) -> tuple[float, float]:
    """Mean and sd of one prediction, in the user's sign and units."""
    mean, sd = float(prediction.mean[0]), float(prediction.sd[0])
    low, middle, high = scale.backward(np.array([mean - sd, mean, mean + sd])).tolist()
    return search.trials.sign * middle, max(middle - low, (high - low) / 2.0)


def answer(
    search: Search, trials: Sequence[Trial], fit: Callable[[], Fitted[P]], trusted: Trusted, doubt: float
) -> Answer | None:
    """The evaluated configuration with the lowest posterior mean, of those that can be trusted unless another one is better
    beyond doubt; None if no trial has finished.

    Args:
        search: the search.
        trials: those that the model is fitted to, in their order.
        fit: the model.
        trusted: which of them can be trusted.
        doubt: how many standard deviations are beyond doubt.
    """
    valid = [k for k, trial in enumerate(trials) if trial.status is Status.FINISHED]
    if not valid:
        return None
    with one_thread():
        fitted = fit()
        means = fitted.posterior.target_means()

        def at(k: int) -> Prediction:
            return fitted.posterior.predict(trials[k].path, search.given_row(trials[k]))

        best, known = min(valid, key=lambda k: float(means[k])), trusted(trials, valid)
        if known and best not in known:
            second = min(known, key=lambda k: float(means[k]))
            mean, sd = at(best)
            if float(mean[0] + doubt * sd[0]) >= float(at(second).mean[0]):
                best = second
        return Answer(trials[best], *in_units(search, fitted.scale, at(best)))


def explained(
    search: Search,
    title: str,
    fit: Callable[[], Fitted[P]],
    describe: Callable[[Fitted[P], Trial, Array], dict[str, Prediction]],
    notes: Callable[[Fitted[P]], Notes],
) -> Explanation:
    """Per path: trials, best value, share, and what the model says of its best trial; then what it says in general.

    Args:
        search: the search.
        title: a first line.
        fit: the model.
        describe: predictions to show of a trial, by name.
        notes: what the model says in general.
    """
    table = path_table(search.trials)

    def loss(trial: Trial) -> float:
        return search.trials.sign * trial.value if trial.value is not None else math.inf

    with one_thread():
        fitted = fit()
        best: dict[str, Trial] = {}
        for trial in sorted(search.trials, key=loss, reverse=True):
            best[search.space.path_label(trial.path)] = trial
        for label, trial in best.items():
            for name, prediction in describe(fitted, trial, search.given_row(trial)).items():
                mean, sd = in_units(search, fitted.scale, prediction)
                table.loc[table["path"] == label, f"{name}_mean"] = mean
                table.loc[table["path"] == label, f"{name}_sd"] = sd
        said = notes(fitted)
        return Explanation(table, title=title, notes=said.text, edges=said.edges)
