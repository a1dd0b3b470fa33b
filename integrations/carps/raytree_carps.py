"""raytree's optimizers in CARP-S, the benchmark of optimizers by the AutoML groups. See README.md beside this file.

CARP-S hands over a task with a ConfigSpace, asks for trials and tells their costs. Everything is minimised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from carps.optimizers.optimizer import Optimizer as CarpsOptimizer
from carps.utils.trials import StatusType, TrialInfo, TrialValue
from ConfigSpace import Configuration, ConfigurationSpace

import raytree
from raytree.space.configspace import from_configspace

METHODS = {
    "tree": raytree.TreeOptimizer,
    "conditional": raytree.CondKernelOptimizer,
    "htbo": raytree.HTBOOptimizer,
    "random": raytree.RandomOptimizer,
}


class RaytreeOptimizer(CarpsOptimizer):
    """One method of raytree as an optimizer of CARP-S.

    Args:
        task: what to optimize; several objectives are refused, of several fidelities the highest is used.
        method: one of `METHODS`.
        seed: of the search.
        settings: of the method, such as ``{"num_initial": 10}``.
        loggers: CARP-S's own.
        expects_multiple_objectives: CARP-S's own; always False.
        expects_fidelities: CARP-S's own; always False.
    """

    def __init__(
        self,
        task: Any,
        method: str = "tree",
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
        loggers: list[Any] | None = None,
        expects_multiple_objectives: bool = False,
        expects_fidelities: bool = False,
    ) -> None:
        super().__init__(task, loggers, expects_multiple_objectives, expects_fidelities)
        if method not in METHODS:
            raise ValueError(f"method: there is no {method!r}. Use one of {', '.join(METHODS)}.")
        if task.output_space.n_objectives != 1:
            raise ValueError("raytree optimizes one objective; this task has several. Use a task with one.")
        self.method, self.seed, self.settings = method, seed, dict(settings or {})
        self._told: dict[str, tuple[TrialInfo, TrialValue]] = {}

    def convert_configspace(self, configspace: ConfigurationSpace) -> raytree.Space:
        """The space of a task, conditions included."""
        return from_configspace(configspace)

    def _setup_optimizer(self) -> raytree.Optimizer:
        space = self.convert_configspace(self.task.input_space.configuration_space)
        budget = self.task.optimization_resources.n_trials
        return METHODS[self.method](space, seed=self.seed, budget=None if budget is None else int(budget), **self.settings)

    def convert_to_trial(self, suggestion: raytree.Suggestion) -> TrialInfo:  # type: ignore[override]
        """A suggestion as a trial: the active values alone, at the highest fidelity, on the task's own seed."""
        config = Configuration(self.task.input_space.configuration_space, values=suggestion.config)
        fidelity = self.task.input_space.fidelity_space
        return TrialInfo(config=config, name=suggestion.id, budget=fidelity.max_fidelity if fidelity.is_multifidelity else None)

    def ask(self) -> TrialInfo:
        """The next trial; a configuration of a used-up finite space is drawn again, since CARP-S goes on asking."""
        suggestion = self.solver.ask()
        if suggestion is None:
            return TrialInfo(config=self.task.input_space.configuration_space.sample_configuration())
        return self.convert_to_trial(suggestion)

    def tell(self, trial_info: TrialInfo, trial_value: TrialValue) -> None:
        """Takes the cost of a trial, or that it has failed."""
        if trial_info.name is None:
            return
        if trial_value.status is StatusType.SUCCESS:
            self.solver.tell(trial_info.name, trial_value.cost)
        else:
            self.solver.fail(trial_info.name)
        self._told[trial_info.name] = (trial_info, trial_value)

    def get_current_incumbent(self) -> tuple[TrialInfo, TrialValue] | None:
        """The trial with the lowest cost so far, as for the other optimizers of CARP-S; None before the first success."""
        done = [pair for pair in self._told.values() if pair[1].status is StatusType.SUCCESS and math.isfinite(pair[1].cost)]
        return min(done, key=lambda pair: pair[1].cost, default=None)
