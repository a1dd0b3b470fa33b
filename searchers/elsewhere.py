"""Evaluations that were not suggested here: single points, and what an earlier run tried."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ray.tune.result import EXPERIMENT_TAG

from raytree.errors import ConfigurationError
from raytree.optimizer import Optimizer
from raytree.searchers.hidden import Hidden
from raytree.searchers.history import Past
from raytree.searchers.results import MISSING, measured, time_of
from raytree.searchers.watch import Watch
from raytree.space.recover import recover


class Evaluation(NamedTuple):
    """One evaluation, in the user's sign."""

    config: Any
    value: Any
    error: bool
    intermediate: list[float] | None


class History(NamedTuple):
    """Trials of an earlier run."""

    pasts: list[Past]
    metric: str | None
    defaults: Mapping[str, Any] | None
    drop: Collection[str]


def add_evaluation(optimizer: Optimizer, entry: Evaluation) -> None:
    """Raises `ConfigurationError` if its configuration is not in the space."""
    steps = entry.intermediate or []
    if entry.error:  # its value says nothing; what it reported before it failed does
        trial_id = optimizer.adopt(optimizer.fresh_id(), entry.config).id
    else:
        trial_id = optimizer.give(entry.config, entry.value, t=float(len(steps)) if steps else None)
    for t, step in enumerate(steps if entry.error else steps[:-1], start=1):
        optimizer.report(trial_id, step, t)
    if entry.error:
        optimizer.fail(trial_id)


def add_history(optimizer: Optimizer, history: History, metric: str, time_attr: str, hidden: Hidden, watch: Watch) -> None:
    """All trials that are news and have ended, or none: raises `ConfigurationError` at the first that does not fit."""
    name = history.metric or metric
    once = {past.id if past.id is not None else k: past for k, past in enumerate(history.pasts)}
    news = [past for past in once.values() if past.id is None or past.id not in optimizer.observations]
    _learn_hidden(optimizer, news, hidden)
    found = [
        (past, optimizer.migrated(past.config, history.defaults, history.drop), measured(past.results, name)) for past in news
    ]
    if found and all(value is MISSING for past, _, value in found if not past.failed):
        watch.say("history", "none of the trials reported the metric %r; give its name there: metric=...", name)
    for past, config, value in found:
        trial_id = past.id or optimizer.fresh_id()
        if past.failed:
            optimizer.fail(optimizer.adopt(trial_id, config).id)
        elif value is not MISSING:
            optimizer.give(config, value, time_of(past.results, time_attr), trial_id)


def _learn_hidden(optimizer: Optimizer, pasts: list[Past], hidden: Hidden) -> None:
    """Takes what Tune hides from trials of an earlier run, if their space had it in the same places."""
    space = optimizer.given_space
    for past in pasts if space.hides else ():
        tag = str(past.results.get(EXPERIMENT_TAG, ""))
        try:
            suggested = space.config(recover(space, past.config, tag))
        except ConfigurationError:
            continue
        hidden.learn(past.id or "", suggested, past.config)
    hidden.tell(optimizer)
