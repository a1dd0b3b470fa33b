"""A search in the formats of others: an Optuna study, a ConfigSpace file."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from raytree.errors import SettingError
from raytree.optimizer import Optimizer
from raytree.report.space_view import keys_of
from raytree.report.view import View
from raytree.space import Categorical, Float, Integer, Normal, Space
from raytree.space.configspace import to_configspace
from raytree.space.naming import name_of


def to_optuna(optimizer: Optimizer, view: View, target: str | Path) -> int:
    """Writes an SQLite file that optuna-dashboard opens; returns the number of trials in it.

    Each trial has its active parameters only. Parameters that share a key in several branches have their places for names.

    Raises:
        SettingError: if Optuna is not installed, or the file is there already.
    """
    try:
        import optuna
    except ImportError:
        raise SettingError("optuna", "is not installed.", "pip install optuna") from None
    path = Path(target).expanduser()
    if path.exists():
        raise SettingError(str(path), "is there already.", "Remove it, or give another name.")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = optimizer.given_space
    names = _unique(space)
    distributions = {names[i]: _distribution(optuna, space, i) for i in range(space.d)}
    states = optuna.trial.TrialState
    kinds = {"finished": states.COMPLETE, "stopped": states.PRUNED, "running": states.RUNNING}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        direction = "minimize" if view.mode == "min" else "maximize"
        study = optuna.create_study(study_name=view.title, storage=storage, direction=direction)
        study.set_user_attr("metric", view.metric)
    except OSError as error:
        raise SettingError(str(path), f"cannot be written ({error.strerror}).", "Give another path.") from None
    for k, trial in enumerate(optimizer.observations):
        active = [i for i in range(space.d) if trial.point[i] is not None]
        params = {names[i]: _value(space, i, trial.point[i]) for i in active}
        state = kinds.get(view.trials.status[k], states.FAIL)
        said = {int(t): value for t, value in trial.reports.items() if value is not None and float(t).is_integer()}
        study.add_trial(
            optuna.trial.create_trial(
                state=state, params=params, distributions={name: distributions[name] for name in params},
                value=trial.value if state in (states.COMPLETE, states.PRUNED) else None, intermediate_values=said,
                user_attrs={"trial_id": trial.id, "branch": view.branches[view.trials.branch[k]].label},
            )
        )  # fmt: skip
    return len(view.trials)


def _unique(space: Space) -> list[str]:
    keys = keys_of(space)
    count = Counter(keys)
    return [key if count[key] == 1 else space.parameters[i].name for i, key in enumerate(keys)]


def _distribution(optuna: Any, space: Space, i: int) -> Any:
    domain = space.parameters[i].domain
    if isinstance(domain, Categorical):
        return optuna.distributions.CategoricalDistribution(_labels(space, i))
    if isinstance(domain, Integer):
        log = domain.log and domain.step == 1
        return optuna.distributions.IntDistribution(domain.lower, domain.upper, log=log, step=1 if log else domain.step)
    assert isinstance(domain, (Float, Normal))
    log = bool(getattr(domain, "log", False))
    low, high = float(domain.code(0.0)), float(domain.code(1.0))
    step = domain.step if domain.step and not log and math.isfinite(domain.size) else None
    return optuna.distributions.FloatDistribution(low, high, log=log, step=step)


def _labels(space: Space, i: int) -> list[str]:
    domain = space.parameters[i].domain
    assert isinstance(domain, Categorical)
    labels = list(space.cells[i].labels) if i in space.cells else [name_of(choice, space.objects) for choice in domain.choices]
    return [label if labels.count(label) == 1 else f"{label} [{k}]" for k, label in enumerate(labels)]


def _value(space: Space, i: int, code: Any) -> Any:
    domain = space.parameters[i].domain
    return _labels(space, i)[int(code)] if isinstance(domain, Categorical) else domain.render(code)


def to_configspace_file(space: Space, target: str | Path) -> None:
    """Writes the space as ConfigSpace's JSON.

    Raises:
        SpaceError: if ConfigSpace is not installed.
        SettingError: if the file cannot be written.
    """
    made = to_configspace(space)
    try:
        made.to_json(Path(target).expanduser())
    except OSError as error:
        raise SettingError(str(target), f"cannot be written ({error.strerror}).", "Give another path.") from None
