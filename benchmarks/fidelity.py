"""Trials that a scheduler stops early: quality against epochs, with and without learning from stopped trials.

    python benchmarks/fidelity.py                       learning curves over the synthetic trees; about half an hour on two cores
    python benchmarks/fidelity.py --data DIR            and real MLPs on binary data sets
    python benchmarks/fidelity.py --tasks mlp           real MLPs on the sets that scikit-learn ships

Four workers share a budget of epochs; a complete trial takes 27. ASHA with a reduction factor of 3 stops
trials at 1, 3 and 9 epochs, with a grace period of 3 at 3 and 9. Methods:

- tree: TreeOptimizer, no scheduler.
- tree + asha: with `max_t`, so that stopped trials count at the fidelity they got to.
- tree + asha (grace 3), optuna + asha (grace 3): no trial ends before its third epoch.
- tree + asha as finished: stopped trials are taken for finished ones.
- tree chosen: no scheduler; the search chooses how long a trial is (`fidelity_key`).
- cond + asha, random + asha, optuna + asha: others under the same scheduler; Optuna's TPE is told what OptunaSearch tells it.

A curve is f(x) + c(x) t^-a(x), f a synthetic tree; c grows with f, and both c and a vary smoothly with x for no reason, so that
good configurations are not always the fastest ones. Quality is looked at in two ways: what the recommended configuration is worth
when it is trained to the end (what a search has found; Optuna recommends its best trial), and the lowest value that any
trial has reported (what it has shown). For the MLPs (test error) there is the second only.
"""

from __future__ import annotations

import heapq
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from asha import space as mlp_space
from asha import training
from example_data import listed, load
from mlp import split, untrained

from raytree import CondKernelOptimizer, RandomOptimizer, Space, TreeOptimizer
from raytree.objectives import tree_function
from raytree.searchers.tune_space import to_space
from raytree.space import Categorical, Float, Integer

WORKERS, FACTOR, POINTS = 4, 3, 60
"""Quality is noted at so many points of the budget."""
TREES = {
    f"curves: {size} {shape}, {shared} shared": (size, shape, shared)
    for size, shape, shared in (
        ("small", "balanced", "quadratic"), ("small", "unbalanced", "linear"), ("large", "balanced", "linear"),
        ("large", "unbalanced", "quadratic"),
    )
}  # fmt: skip
SETTINGS: dict[str, tuple[Any, dict[str, Any], int]] = {
    "tree": (TreeOptimizer, {}, 0),
    "tree + asha": (TreeOptimizer, {"max_t": True}, 1),
    "tree + asha (grace 3)": (TreeOptimizer, {"max_t": True}, 3),
    "tree + asha as finished": (TreeOptimizer, {}, 1),
    "tree + asha (decay)": (TreeOptimizer, {"max_t": True, "context": "decay"}, 1),
    "tree + asha (matern)": (TreeOptimizer, {"max_t": True, "context": "matern"}, 1),
    "tree chosen": (TreeOptimizer, {"fidelity_key": "fraction"}, 0),
    "cond + asha": (CondKernelOptimizer, {"max_t": True}, 1),
    "random + asha": (RandomOptimizer, {}, 1),
    "optuna + asha": (None, {}, 1),
    "optuna + asha (grace 3)": (None, {}, 3),
}
"""What makes the optimizer, its settings, and the scheduler's grace period: 0 without one."""


class Task:
    """What is trained: a space, the epochs of a complete trial, a budget of epochs, and curves."""

    def __init__(
        self, space: Space, max_t: int, trials: int, train: Callable[[Any], Iterator[float]], regret: Callable[[float], float]
    ) -> None:
        self.space, self.max_t, self.budget, self.train, self.regret = space, max_t, max_t * trials, train, regret

    def complete(self, config: Any) -> float:
        """The value at the end of the curve."""
        *_, last = self.train(config)
        return last


@cache
def task(name: str) -> Task:
    if name.startswith("curves"):
        return _curves(*TREES[name])
    data = split(*load(name.removeprefix("mlp ")))

    def train(config: Any) -> Iterator[float]:
        return training(untrained(config), config, data, 27)

    return Task(to_space(mlp_space()), 27, 30, train, float)


def _curves(size: str, shape: str, shared: str) -> Task:
    objective = tree_function(size, shape, shared, shift=0.3)

    def train(config: Any) -> Iterator[float]:
        point = objective.space.point(config)
        row = objective.space.encode(point)
        mix = float(np.sin(3.0 * np.nansum(row)) ** 2)  # smooth, and no help: it has nothing to do with the end
        end = objective(config)
        speed, height = 0.5 + 0.5 * mix, 0.5 + 0.5 * end + 0.5 * mix
        return (end + height * (t**-speed - 27.0**-speed) for t in range(1, 28))

    return Task(objective.space, 27, 30, train, lambda value: float(np.log10(max(value - objective.minimum, 1e-9))))


class Asha:
    """The rule of Tune's AsyncHyperBandScheduler with one bracket; a grace period of 0 stops nothing."""

    def __init__(self, max_t: int, grace: int) -> None:
        self._rungs: dict[int, list[float]] = {}
        t = grace or max_t
        while t < max_t:
            self._rungs[t] = []
            t *= FACTOR

    def stops(self, t: int, value: float) -> bool:
        recorded = self._rungs.get(t)
        if recorded is None:
            return False
        cutoff = np.percentile(recorded, 100 / FACTOR) if recorded else np.inf
        recorded.append(value)
        return value > cutoff


class Optuna:
    """Optuna's TPE, told what Ray's OptunaSearch tells it: a stopped trial is a finished one with its last value."""

    def __init__(self, space: Space, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space, self._study = space, optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        self._trials: dict[str, Any] = {}
        self._configs: dict[str, Any] = {}

    def ask(self) -> Any:
        from raytree.optimizer import Suggestion

        trial = self._study.ask()
        units = np.full(self._space.d, np.nan)
        for i, (name, domain, _) in enumerate(self._space.parameters):
            guess = self._space.mask(np.where(np.isnan(units), 0.5, units)[None])[0]
            if np.isnan(guess[i]):
                continue  # a parameter that what was drawn so far has switched off
            if isinstance(domain, Categorical):
                units[i] = domain.unit(trial.suggest_categorical(name, list(range(len(domain.choices)))))
            elif isinstance(domain, Integer):
                units[i] = domain.unit(trial.suggest_int(name, domain.lower, domain.upper, log=domain.log))
            else:
                assert isinstance(domain, Float)
                units[i] = domain.unit(trial.suggest_float(name, domain.lower, domain.upper, log=domain.log))
        row = self._space.mask(np.where(np.isnan(units), 0.5, units)[None])[0]
        number = str(trial.number)
        self._trials[number], self._configs[number] = trial, self._space.config(self._space.decode(row))
        return Suggestion(number, self._configs[number])

    def report(self, trial_id: str, value: float, t: float) -> None:
        """Nothing: OptunaSearch's reports only matter to its own pruners."""

    def tell(self, trial_id: str, value: float, t: float, cost: float) -> None:
        self._study.tell(self._trials[trial_id], value)

    def recommend(self) -> Any:
        from raytree.optimizer import Recommendation

        if not any(trial.value is not None for trial in self._study.trials):
            return None
        best = str(self._study.best_trial.number)
        return Recommendation(self._configs[best], self._study.best_value, None, best)


def work(job: Job) -> list[Step]:
    """One run at equal steps of the budget: `value` is log10 of the regret (MLP: the error) of what is recommended, `best` of
    what was reported, extra the number of trials."""
    made = task(job.task)
    make, settings, grace = SETTINGS[job.method]
    settings = {**settings, **({"max_t": made.max_t} if "max_t" in settings else {})}
    optimizer = Optuna(made.space, job.seed) if make is None else make(made.space, seed=job.seed, budget=4 * POINTS, **settings)
    scheduler = Asha(made.max_t, grace)
    running: list[Any] = []
    trials = spent = 0
    seconds, best = 0.0, np.inf
    steps: list[Step] = []
    while len(steps) < POINTS:
        while len(running) < WORKERS:
            began = time.process_time()
            suggestion = optimizer.ask()
            seconds += time.process_time() - began
            config = dict(suggestion.config)
            length = max(1, round(made.max_t * config.pop("fraction", 1.0)))
            trials += 1
            heapq.heappush(running, (spent / WORKERS + 1.0, trials, 1, length, suggestion.id, made.train(config)))
        clock, number, t, length, trial_id, curve = heapq.heappop(running)
        value = next(curve)
        spent += 1
        best = min(best, value)
        if t == length or scheduler.stops(t, value):
            optimizer.tell(trial_id, value, None if length < made.max_t else t, float(t))
        else:
            optimizer.report(trial_id, value, t)
            heapq.heappush(running, (clock + 1.0, number, t + 1, length, trial_id, curve))
        if spent >= made.budget * (len(steps) + 1) / POINTS:
            steps.append(Step(_recommended(optimizer, made, best), made.regret(best), trials, seconds / trials))
    return steps


def _recommended(optimizer: Any, made: Task, best: float) -> float:
    """The regret of what is recommended now; of the best value before there is a recommendation, and for networks."""
    found = None if made.regret is float else optimizer.recommend()
    return made.regret(best if found is None else made.complete(found.config))


def table(rows: list[dict[str, str]]) -> str:
    """Quality at thirds of the budget, and the share of it after which others' ends were reached."""
    trials, seconds = curves(rows, "extra"), curves(rows, "seconds")
    lines = []
    for kind, column in (("recommended", "value"), ("reported", "best")):
        found = curves(rows, column)
        for (name, method), curve in found.items():
            if kind == "recommended" and name.startswith("mlp"):
                continue
            at = [f"{np.median(curve[:, k]):.4f}" for k in (POINTS // 3 - 1, 2 * POINTS // 3 - 1, POINTS - 1)]
            reached = [_share(curve, found.get((name, goal))) for goal in ("tree", "optuna + asha")]
            count, milliseconds = int(np.median(trials[name, method][:, -1])), 1e3 * np.median(seconds[name, method][:, -1])
            lines.append([Path(name).name, kind, method, len(curve), *at, *reached, count, f"{milliseconds:.0f}"])
    header = [
        "task",
        "value",
        "method",
        "seeds",
        "1/3",
        "2/3",
        "end",
        "epochs to the end of `tree`",
        "of optuna + asha",
        "trials",
        "ms",
    ]
    return markdown(header, lines)


def _share(curve: np.ndarray, goal: np.ndarray | None) -> str:
    """The share of the budget after which the median of runs is where the median of the others ends."""
    if goal is None:
        return ""
    reached = np.minimum.accumulate((np.median(curve, axis=0) <= np.median(goal[:, -1]))[::-1])[::-1]  # and stays there
    return f"{100 * (int(np.argmax(reached)) + 1) / POINTS:.0f}%" if reached.any() else "not reached"


def main() -> None:
    made = parser(__doc__.splitlines()[0], "fidelity.csv")
    made.add_argument("--data", type=Path, help="folder of gzipped data sets with an INDEX.csv")
    arguments = made.parse_args()
    sets = listed(arguments.data, classes=2) if arguments.data else ["breast_cancer", "odd_digits"]
    tasks = [*TREES, *(f"mlp {name}" for name in sets)]
    if not arguments.table:
        seeds = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or (15 if arguments.full else 5)))
        methods = chosen(SETTINGS, arguments.methods, exact=True)
        wanted = chosen(tasks, arguments.tasks or ("" if arguments.data else "curves"), exact=False)
        run([Job(t, m, s) for t in wanted for m in methods for s in seeds], work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(table(rows))
    plot(curves(rows), arguments.out, "Trials stopped early", "log10 regret, or error")


if __name__ == "__main__":
    main()
