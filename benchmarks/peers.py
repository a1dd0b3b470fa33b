"""Other people's optimizers behind the loop of `raytree.Optimizer`, so that any benchmark can name them as methods.

    optimizer = make("tpe", space, seed=0, budget=100)
    suggestion = optimizer.ask()
    optimizer.tell(suggestion.id, 0.5)             # or optimizer.fail(suggestion.id)

Every peer sees the same space, budget and seed, with its own defaults for everything else:

- random: `RandomOptimizer`.
- tpe, tpe-group: Optuna's TPESampler; the second models parameters jointly, one group for each set that is alive together.
- gpsampler: Optuna's Gaussian process. It needs torch.
- smac: SMAC3's random forest, its facade for hyperparameters.
- hyperopt: HyperOpt's TPE.
- ax: Ax's client, a Gaussian process of BoTorch. It needs torch.

Optuna's TPE and SMAC get all conditions. HyperOpt gets those that hang on one category; other parameters are always
alive for it. GPSampler and Ax know no conditions: all parameters are always alive for them, and those that a
configuration does not have are dropped. Nothing of a trial that was stopped early but its last value reaches a peer.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from raytree import RandomOptimizer, Recommendation, Suggestion
from raytree.space import Categorical, Float, Integer, Normal, Point, Space
from raytree.space.conditions import satisfied
from raytree.space.configspace import to_configspace
from raytree.space.parameters import Code

os.environ.setdefault("PYTHONHASHSEED", "0")  # of the worker processes: SMAC goes through sets, and would differ from run to run


class PeerMissing(ImportError):
    """A peer is not installed; the message says what to install."""


class Axis(NamedTuple):
    """A parameter as a peer sees it, and the way back to the code of a value that the peer proposes."""

    kind: str  # "float", "integer", or "category": one of range(upper + 1)
    lower: float
    upper: float
    log: bool
    code: Callable[[Any], Code]


def axis(domain: Any) -> Axis:
    """The axis of a domain: an ordered category, or a value on a linear grid, is an integer that counts from 0."""
    if isinstance(domain, Categorical) or (
        isinstance(domain, (Float, Integer)) and domain.step not in (None, 1) and not domain.log
    ):
        codes = list(domain.codes())
        kind = "category" if isinstance(domain, Categorical) and not domain.ordered else "integer"
        return Axis(kind, 0, len(codes) - 1, False, lambda value: codes[int(value)])
    if isinstance(domain, Normal):  # by its quantiles
        low, high = domain.snap(np.array([0.0, 1.0]))
        return Axis("float", float(low), float(high), False, lambda value: domain.code(float(value)))

    def nearest(value: Any) -> Code:
        inside = min(max(value, domain.lower), domain.upper)  # bounds that went through a logarithm are off by a rounding error
        if isinstance(domain, Integer):
            return int(inside) if domain.step == 1 else domain.code(domain.unit(int(inside)))
        return float(inside) if domain.step is None else domain.code(domain.unit(float(inside)))

    return Axis("integer" if isinstance(domain, Integer) else "float", domain.lower, domain.upper, domain.log, nearest)


def walk(space: Space, code: Callable[[int], Code]) -> Point:
    """The point whose alive parameters have the codes that `code` gives; it is asked for those alone, parents first."""
    codes: list[Code | None] = [None] * space.d
    cell_of: dict[int, int] = {}
    visited: set[int] = set()

    def visit(i: int) -> None:
        if i in visited:
            return
        visited.add(i)
        condition = space.parameters[i].condition
        for clause in condition:
            for parent, _ in clause:
                visit(parent)
        if satisfied(condition, cell_of):
            chosen = codes[i] = code(i)
            if i in space.cells:
                cell_of[i] = space.cells[i].index(chosen)

    for i in range(space.d):
        visit(i)
    return tuple(codes)


class Peer:
    """The loop around a peer: numbers its trials, turns what it proposes into configurations, remembers the best.

    Args:
        space: what to search.
        seed: of the peer's random numbers.
        budget: trials that there will be.
        mode: "min" or "max"; peers always minimise.
    """

    def __init__(self, space: Space, seed: int, budget: int, mode: str) -> None:
        self.space = space
        self.axes = [axis(parameter.domain) for parameter in space.parameters]
        self.names = [parameter.name for parameter in space.parameters]
        self._sign = 1.0 if mode == "min" else -1.0
        self._open: dict[str, Any] = {}
        self._configs: dict[str, Any] = {}
        self._best: Recommendation | None = None
        self._start(seed, budget)

    def _start(self, seed: int, budget: int) -> None:
        """Makes the peer's own search."""
        raise NotImplementedError

    def _propose(self) -> tuple[Any, Point]:
        """The peer's own handle of its next trial, and the point."""
        raise NotImplementedError

    def _finish(self, handle: Any, loss: float) -> None:
        """A finite loss of a trial."""
        raise NotImplementedError

    def _break(self, handle: Any) -> None:
        """A trial that has failed."""
        raise NotImplementedError

    def _point(self, values: Mapping[str, Any]) -> Point:
        """The point of values by name; those of parameters that are not alive are ignored."""

        def code(i: int) -> Code:
            name, domain, condition = self.space.parameters[i]
            on_a_float = any(math.isinf(self.space.parameters[j].domain.size) for clause in condition for j, _ in clause)
            if name not in values and on_a_float:
                return domain.code(0.5)  # the peer's rounding error at the edge of a condition, the only way to get here
            return self.axes[i].code(values[name])

        return walk(self.space, code)

    def ask(self) -> Suggestion:
        """The next configuration to evaluate; any number may be open."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            handle, point = self._propose()
        number = str(len(self._configs))
        self._open[number], self._configs[number] = handle, self.space.config(point)
        return Suggestion(number, self._configs[number])

    def report(self, trial_id: str, value: float, t: float) -> None:
        """Nothing: peers learn from the end of a trial."""

    def tell(self, trial_id: str, value: float, t: float | None = None, cost: float | None = None) -> None:
        """The last value of a trial; one that is not finite is a failure."""
        if not math.isfinite(value):
            self.fail(trial_id)
            return
        if self._best is None or self._sign * value < self._sign * self._best.value:
            self._best = Recommendation(self._configs[trial_id], float(value), None, trial_id)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._finish(self._open.pop(trial_id), self._sign * float(value))

    def fail(self, trial_id: str) -> None:
        """A trial ended in error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._break(self._open.pop(trial_id))

    def recommend(self) -> Recommendation | None:
        """The best trial, or None before there is a value."""
        return self._best


class OptunaPeer(Peer):
    """A sampler of Optuna, asked for one parameter after the other."""

    conditional = True

    def _sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.TPESampler(seed=seed)

    def _start(self, seed: int, budget: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of its settings are called experimental
            self._study = optuna.create_study(sampler=self._sampler(seed))

    def _propose(self) -> tuple[Any, Point]:
        trial = self._study.ask()
        if self.conditional:
            return trial, walk(self.space, lambda i: self._suggest(trial, i))
        codes = [self._suggest(trial, i) for i in range(self.space.d)]
        return trial, walk(self.space, codes.__getitem__)

    def _suggest(self, trial: Any, i: int) -> Code:
        kind, lower, upper, log, code = self.axes[i]
        if kind == "category":
            return code(trial.suggest_categorical(self.names[i], range(int(upper) + 1)))
        if kind == "integer":
            return code(trial.suggest_int(self.names[i], int(lower), int(upper), log=log))
        return code(trial.suggest_float(self.names[i], lower, upper, log=log))

    def _finish(self, handle: Any, loss: float) -> None:
        self._study.tell(handle, loss)

    def _break(self, handle: Any) -> None:
        import optuna

        self._study.tell(handle, state=optuna.trial.TrialState.FAIL)


class GroupPeer(OptunaPeer):
    """Optuna's TPE with a joint model of the parameters that are alive together."""

    def _sampler(self, seed: int) -> Any:
        import optuna

        return optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True)


class GPSamplerPeer(OptunaPeer):
    """Optuna's Gaussian process, on the flattened space."""

    conditional = False

    def _sampler(self, seed: int) -> Any:
        import optuna

        _one_thread()
        return optuna.samplers.GPSampler(seed=seed)


class SmacPeer(Peer):
    """SMAC3 on a ConfigSpace with the same conditions; a failed trial costs as much as the worst one."""

    def _start(self, seed: int, budget: int) -> None:
        from smac import HyperparameterOptimizationFacade, Scenario

        logging.getLogger("smac").setLevel(logging.CRITICAL)
        target = to_configspace(self.space)
        self._choices = {
            parameter.name: list(
                target[parameter.name].choices if hasattr(target[parameter.name], "choices") else target[parameter.name].sequence
            )
            for parameter in self.space.parameters
            if hasattr(target[parameter.name], "choices") or hasattr(target[parameter.name], "sequence")
        }
        self._worst = -math.inf
        self._folder = tempfile.TemporaryDirectory(prefix="smac")
        scenario = Scenario(target, deterministic=True, n_trials=budget, seed=seed, output_directory=self._folder.name)
        self._smac = HyperparameterOptimizationFacade(scenario, lambda config, seed: 0.0, logging_level=False, overwrite=True)

    def _propose(self) -> tuple[Any, Point]:
        trial = self._smac.ask()
        values = {}
        for name, value in dict(trial.config).items():
            values[name] = self._choices[name].index(value) if name in self._choices else value
        return trial, self._point(values)

    def _finish(self, handle: Any, loss: float) -> None:
        from smac.runhistory import TrialValue

        self._worst = max(self._worst, loss)
        self._smac.tell(handle, TrialValue(cost=loss))

    def _break(self, handle: Any) -> None:
        from smac.runhistory import StatusType, TrialValue

        cost = self._worst if math.isfinite(self._worst) else 1.0
        self._smac.tell(handle, TrialValue(cost=cost, status=StatusType.CRASHED))


class HyperoptPeer(Peer):
    """HyperOpt's TPE on nested choices; it takes running trials for bad ones."""

    def _start(self, seed: int, budget: int) -> None:
        import hyperopt

        logging.getLogger("hyperopt").setLevel(logging.CRITICAL)
        below: dict[tuple[int, int], list[int]] = {}
        inside: set[int] = set()
        for i, parameter in enumerate(self.space.parameters):
            decisions = {j for clause in parameter.condition for j, _ in clause}
            if len(decisions) == 1 and all(parameter.condition) and self.axes[min(decisions)].kind == "category":
                for cell in frozenset().union(*(cells for clause in parameter.condition for _, cells in clause)):
                    below.setdefault((min(decisions), cell), []).append(i)
                inside.add(i)
        nodes: dict[int, Any] = {}  # one node for each parameter, even where several choices open it

        def node(i: int) -> Any:
            if i not in nodes:
                nodes[i] = _hyperopt_node(self.names[i], self.axes[i], lambda k: [node(child) for child in below.get((i, k), [])])
            return nodes[i]

        structure = [node(i) for i in range(self.space.d) if i not in inside]
        self._domain = hyperopt.base.Domain(lambda values: 0.0, structure)
        self._trials = hyperopt.Trials()
        self._rng = np.random.default_rng(seed)

    def _propose(self) -> tuple[Any, Point]:
        import hyperopt

        numbers = self._trials.new_trial_ids(1)
        self._trials.refresh()
        made = hyperopt.tpe.suggest(numbers, self._domain, self._trials, int(self._rng.integers(2**31 - 1)), verbose=False)
        self._trials.insert_trial_docs(made)
        self._trials.refresh()
        handle = self._trials._dynamic_trials[-1]
        handle["state"] = hyperopt.JOB_STATE_RUNNING
        return handle, self._point({name: found[0] for name, found in handle["misc"]["vals"].items() if len(found)})

    def _finish(self, handle: Any, loss: float) -> None:
        import hyperopt

        handle["result"] = {"loss": loss, "status": hyperopt.STATUS_OK}
        self._end(handle)

    def _break(self, handle: Any) -> None:
        import hyperopt

        handle["result"] = {"status": hyperopt.STATUS_FAIL}
        self._end(handle)

    def _end(self, handle: Any) -> None:
        import hyperopt

        handle["state"] = hyperopt.JOB_STATE_DONE
        self._trials.refresh()


def _hyperopt_node(name: str, shape: Axis, children: Callable[[int], list[Any]]) -> Any:
    """A parameter of HyperOpt, with what each category opens."""
    from hyperopt import hp

    lower, upper = shape.lower, shape.upper
    if shape.kind == "category":
        return hp.choice(name, [[k, *children(k)] for k in range(int(upper) + 1)])
    if shape.kind == "integer" and shape.log:  # `code` brings what is rounded past an end back
        return hp.qloguniform(name, math.log(lower), math.log(upper), 1)
    if shape.kind == "integer":
        return hp.uniformint(name, int(lower), int(upper))
    return hp.loguniform(name, math.log(lower), math.log(upper)) if shape.log else hp.uniform(name, lower, upper)


class AxPeer(Peer):
    """Ax on the flattened space."""

    def _start(self, seed: int, budget: int) -> None:
        _one_thread()
        logging.disable(logging.INFO)  # Ax logs while it is imported, at levels of its own
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

        logging.disable(logging.NOTSET)
        for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("ax", "botorch", "gpytorch")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        parameters: list[Any] = []
        for i, (kind, lower, upper, log, _) in enumerate(self.axes):
            if kind == "category":
                values = list(range(int(upper) + 1))
                parameters.append(ChoiceParameterConfig(name=f"p{i}", values=values, parameter_type="int", is_ordered=False))
            else:
                bounds, form = (lower, upper), "int" if kind == "integer" else "float"
                scaling = "log" if log else "linear"
                parameters.append(RangeParameterConfig(name=f"p{i}", bounds=bounds, parameter_type=form, scaling=scaling))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client = Client(random_seed=seed)
            self._client.configure_experiment(parameters=parameters)
            self._client.configure_optimization(objective="-loss")
            self._client.configure_generation_strategy(allow_exceeding_initialization_budget=True)  # with many running

    def _propose(self) -> tuple[Any, Point]:
        ((number, values),) = self._client.get_next_trials(max_trials=1).items()
        return number, self._point({name: values[f"p{i}"] for i, name in enumerate(self.names)})

    def _finish(self, handle: Any, loss: float) -> None:
        self._client.complete_trial(trial_index=handle, raw_data={"loss": loss})

    def _break(self, handle: Any) -> None:
        self._client.mark_trial_failed(trial_index=handle)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _random(space: Space, seed: int, budget: int, mode: str) -> RandomOptimizer:
    return RandomOptimizer(space, seed=seed, budget=budget, mode=mode)


PEERS: dict[str, Callable[..., Any]] = {
    "random": _random,
    "tpe": OptunaPeer,
    "tpe-group": GroupPeer,
    "gpsampler": GPSamplerPeer,
    "smac": SmacPeer,
    "hyperopt": HyperoptPeer,
    "ax": AxPeer,
}
NEEDS: dict[str, dict[str, str]] = {
    "tpe": {"optuna": "optuna"},
    "tpe-group": {"optuna": "optuna"},
    "gpsampler": {"optuna": "optuna", "torch": "torch"},
    "smac": {"smac": "smac"},
    "hyperopt": {"hyperopt": "hyperopt"},
    "ax": {"ax": "ax-platform", "torch": "torch"},
}
"""By peer: the modules that it needs, and what to install for each."""


def available(name: str) -> str | None:
    """None if a peer can be made, otherwise a message that says what to install."""
    if name not in PEERS:
        return f"{name}: unknown; there are {', '.join(PEERS)}"
    missing = [package for module, package in NEEDS.get(name, {}).items() if find_spec(module) is None]
    return f"{name}: pip install {' '.join(missing)}" if missing else None


def make(name: str, space: Space, seed: int, budget: int, mode: str = "min") -> Any:
    """The peer of a name: ask, tell, fail, report, recommend as `raytree.Optimizer` has them.

    Raises:
        PeerMissing: if it is unknown or not installed.
    """
    message = available(name)
    if message is not None:
        raise PeerMissing(message)
    return PEERS[name](space, seed, budget, mode)
