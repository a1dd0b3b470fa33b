"""Surrogates of real tuning problems (YAHPO Gym): normalised regret against evaluations.

    python benchmarks/surrogates.py --data DIR                         every method on every task, 100 evaluations
    python benchmarks/surrogates.py --data DIR --methods tree,random   some methods
    python benchmarks/surrogates.py --data DIR --running 8             eight trials at any time
    python benchmarks/surrogates.py --data DIR --methods tree --setting explore=False   a variant
    python benchmarks/surrogates.py --data DIR --asha                  learning curves under ASHA
    python benchmarks/surrogates.py --data DIR --best                  search for the best known values again

DIR has a folder for each problem: `rbv2_xgboost` (gradient boosting; the booster decides on eight of fourteen
parameters), `nb301` (34 categories of an architecture, 24 of them conditional) and `lcbench` (seven parameters of
a network, without conditions). Each holds a network that was trained on many real evaluations. It is deterministic
and takes a millisecond; fidelities are at their upper bound.

Regret is (loss - best known) / (median of random draws - best known): 0 is the best known, 1 a random draw. The best
known is in `results/surrogates-known.json`, lowered by anything better among the results.

Under ASHA four workers share the epochs of 20 complete trials of `lcbench`. A complete trial has 52 epochs; the rungs
are at 2, 6 and 18 epochs, and a trial goes on if it is among the best third there so far.
"""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, read, run, settings_of
from peers import PEERS, available
from peers import make as make_peer
from scipy.stats import rankdata

from raytree import CondKernelOptimizer, HTBOOptimizer, TreeOptimizer
from raytree.space import Categorical, Float, Integer, Point, Space, when

CONDITIONAL = ["rbv2_xgboost 16", "rbv2_xgboost 12", "rbv2_xgboost 40923", "rbv2_xgboost 1040", "nb301"]
FLAT = ["lcbench 167168", "lcbench 189873", "lcbench 189906", "lcbench 126026"]
CURVES = [*FLAT, "lcbench 168331", "lcbench 167190"]
"""The tasks under ASHA."""
GROUPS = {"conditional": CONDITIONAL, "flat": FLAT}
OWN: dict[str, Callable[..., Any]] = {"tree": TreeOptimizer, "cond": CondKernelOptimizer, "htbo": HTBOOptimizer}
METHODS = [*OWN, *PEERS]
ASHA_METHODS = ["tree", "random", "tpe-group"]

LOOKED_AT = (25, 50, 100)
"""Evaluations at which regret is shown, and the recommendation is looked at."""
DRAWS = 20_000
"""Random configurations behind the median and the best known."""
STARTS = 16
"""Local searches for the best known, if there are more paths than that."""
NEIGHBOURS = 400
"""Configurations that a step of a local search looks at."""
PATIENCE = 20
"""Steps without success after which a local search ends."""
MAX_T, RUNGS, FACTOR = 52, (2, 6, 18), 3
"""Epochs of a complete trial of lcbench, where ASHA looks at trials, and one in how many goes on."""
WORKERS, COMPLETE = 4, 20
"""Under ASHA: trials at a time, and the complete trials' worth of epochs that they share."""
QUARTERS = {f"{100 * k // COMPLETE}%": k for k in range(COMPLETE // 4, COMPLETE + 1, COMPLETE // 4)}
"""The columns of the table under ASHA: parts of those epochs."""
ASHA_TRIALS = 150
"""Trials that the epochs last for, roughly: the budget that methods are told."""
KNOWN = Path(__file__).parent / "results" / "surrogates-known.json"


class Task:
    """One problem on one data set: its search space, and the loss of configurations.

    Args:
        folder: where the problem's files are.
        instance: the data set, or None if the problem has one only.
    """

    def __init__(self, folder: Path, instance: str | None) -> None:
        import onnxruntime

        described = json.loads((folder / "config_space.json").read_text())
        inputs = json.loads((folder / "inputs.json").read_text())
        self._encoding: dict[str, dict[str, int]] = json.loads((folder / "encoding.json").read_text())
        self._categories: list[str] = inputs["cat"]
        self._numbers: list[str] = inputs["cont"]
        self._output: int = inputs["outputs"].index(inputs["metric"])
        bounds = {entry["name"]: entry for entry in described["hyperparameters"]}
        self._fixed: dict[str, Any] = {name: bounds[name]["upper"] for name in inputs["fidelity"]}
        if inputs["instance"] is not None:
            if instance not in self._encoding[inputs["instance"]]:
                raise SystemExit(f"{folder.name} has no instance {instance!r}; see encoding.json.")
            self._fixed[inputs["instance"]] = instance
        self._top = 100.0 if folder.name == "lcbench" else 1.0  # the metric is a percentage there, a share elsewhere
        self.space = space_of(described, leave_out=set(self._fixed))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])

    def losses(self, configs: Sequence[dict[str, Any]], epoch: int | None = None) -> np.ndarray:
        """(n,) losses of configurations: the best possible metric less the metric, after `epoch` epochs or at the end."""
        fixed = self._fixed if epoch is None else {**self._fixed, "epoch": epoch}
        full = [{**config, **fixed} for config in configs]
        encoding = [self._encoding[name] for name in self._categories]
        categories = [
            [index[config.get(name, "#na#")] for name, index in zip(self._categories, encoding, strict=True)] for config in full
        ]
        numbers = [[config.get(name, 0.0) for name in self._numbers] for config in full]
        fed = {"x_cat": np.array(categories, dtype=np.int32), "x_cont": np.array(numbers, dtype=np.float32)}
        output = self._session.run(None, fed)[0]
        return self._top - output[:, self._output].astype(np.float64)

    def loss(self, config: dict[str, Any], epoch: int | None = None) -> float:
        """The loss of one configuration."""
        return float(self.losses([config], epoch)[0])


def space_of(described: dict[str, Any], leave_out: set[str]) -> Space:
    """The `Space` of a ConfigSpace file, without the parameters that are held fixed."""
    conditions: dict[str, Any] = {}
    for condition in described["conditions"]:
        if condition["child"] in conditions or condition["type"] not in ("EQ", "IN"):
            raise ValueError(f"cannot read the condition {condition}")
        conditions[condition["child"]] = condition
    structure: dict[str, Any] = {}
    for entry in described["hyperparameters"]:
        name = entry["name"]
        if name in leave_out:
            continue
        structure[name] = domain_of(entry)
        if name in conditions:
            condition = conditions[name]
            values = [condition["value"]] if condition["type"] == "EQ" else condition["values"]
            structure[name] = when(condition["parent"], isin=values, then=structure[name])
    return Space(structure)


def domain_of(entry: dict[str, Any]) -> Any:
    """The domain that an entry of a ConfigSpace file describes."""
    if entry["type"] == "uniform_float":
        return Float(entry["lower"], entry["upper"], entry["log"])
    if entry["type"] == "uniform_int":
        return Integer(entry["lower"], entry["upper"], entry["log"])
    if entry["type"] == "categorical":
        return Categorical(entry["choices"])
    raise ValueError(f"cannot read the parameter {entry}")


@cache
def task(data: Path, name: str) -> Task:
    """The task of a name such as "lcbench 167168"; made once a process."""
    problem, _, instance = name.partition(" ")
    return Task(data / problem, instance or None)


# Runs


@dataclass(frozen=True)
class Plan:
    """What the runs of one command have in common."""

    data: Path
    evaluations: int
    running: int

    def named(self, method: str, settings: Sequence[str]) -> str:
        """The name of a method in the results: its settings and the number of running trials are part of it."""
        return " ".join([method, *settings, *([f"x{self.running}"] if self.running > 1 else [])])

    def make(self, method: str, space: Space, seed: int, budget: int, **more: Any) -> Any:
        """The optimizer that a name in the results stands for; `more` are settings of raytree's own methods."""
        name, settings = settings_of(method.removesuffix(f" x{self.running}"))
        if name in OWN:
            return OWN[name](space, seed=seed, budget=budget, **more, **settings)
        return make_peer(name, space, seed, budget)


def search(job: Job, plan: Plan) -> list[Step]:
    """One run: value is the loss, best the lowest so far, extra the loss of what is recommended where that is looked at.

    All trials take equally long: the one that was asked for first is told first, and its place is filled at once.
    """
    made = task(plan.data, job.task)
    optimizer = plan.make(job.method, made.space, job.seed, plan.evaluations)
    steps: list[Step] = []
    running: deque[tuple[Any, float]] = deque()
    asked, best = 0, np.inf
    while len(steps) < plan.evaluations:
        while len(running) < plan.running and asked < plan.evaluations:
            began = process_time()
            suggestion = optimizer.ask()
            if suggestion is None:
                break
            running.append((suggestion, process_time() - began))
            asked += 1
        if not running:
            break
        suggestion, seconds = running.popleft()
        value = made.loss(suggestion.config)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
        recommended = optimizer.recommend() if len(steps) + 1 in LOOKED_AT else None
        extra = np.nan if recommended is None else made.loss(recommended.config)
        steps.append(Step(value, best, extra, seconds))
    return steps


class Asha:
    """The rule of Tune's AsyncHyperBandScheduler with one bracket."""

    def __init__(self) -> None:
        self._recorded: dict[int, list[float]] = {rung: [] for rung in RUNGS}

    def stops(self, t: int, loss: float) -> bool:
        """Whether a trial ends at t; its loss is remembered at a rung."""
        recorded = self._recorded.get(t)
        if recorded is None:
            return False
        cutoff = np.nanpercentile(recorded, 100 / FACTOR) if recorded else np.inf
        recorded.append(loss)
        return loss > cutoff


class Running(NamedTuple):
    """A trial under ASHA: its suggestion, and its losses after each epoch."""

    suggestion: Any
    curve: list[float]


def search_asha(job: Job, plan: Plan) -> list[Step]:
    """One run at twentieths of the budget: best is the lowest loss of a complete trial (NaN without one), extra the trials.

    An epoch takes every worker equally long, so that they report in turn.
    """
    made = task(plan.data, job.task)
    optimizer = plan.make(job.method, made.space, job.seed, ASHA_TRIALS, max_t=MAX_T)
    scheduler = Asha()
    places: list[tuple[Running, int] | None] = [None] * WORKERS
    trials = spent = 0
    seconds, best = 0.0, np.nan
    steps: list[Step] = []
    while len(steps) < COMPLETE:
        for place in range(WORKERS):
            held = places[place]
            if held is None:
                began = process_time()
                suggestion = optimizer.ask()
                seconds += process_time() - began
                trials += 1
                held = Running(suggestion, [made.loss(suggestion.config, epoch) for epoch in range(1, MAX_T + 1)]), 0
            trial, t = held[0], held[1] + 1
            loss = trial.curve[t - 1]
            spent += 1
            if t == MAX_T:
                best = float(np.fmin(best, loss))
            if t == MAX_T or scheduler.stops(t, loss):
                optimizer.tell(trial.suggestion.id, loss, t)
                places[place] = None
            else:
                optimizer.report(trial.suggestion.id, loss, t)
                places[place] = trial, t
        if spent >= MAX_T * (len(steps) + 1):
            steps.append(Step(loss, best, trials, seconds / trials))
    return steps


# The best known


def best_known(data: Path, name: str) -> dict[str, float]:
    """The lowest loss found by random draws and local searches, and the median of the draws."""
    made, rng = task(data, name), np.random.default_rng(20_000)
    space = made.space
    rows = space.sample(rng, DRAWS)
    losses = _losses(made, rows)
    order = np.argsort(losses)
    if space.n_paths <= STARTS:  # the best of every branch
        path_of = [space.path(space.decode(row)) for row in rows]
        starts = list({path_of[k]: int(k) for k in order[::-1]}.values())
    else:
        starts = order[:STARTS].tolist()
    found = min(_climb(made, rows[k], losses[k], rng) for k in starts)
    return {"best": float(f"{min(found, losses.min()):.10g}"), "median": float(f"{np.median(losses):.10g}")}


def _losses(made: Task, rows: np.ndarray) -> np.ndarray:
    points: Iterable[Point] = map(made.space.decode, rows)
    return made.losses([made.space.config(point) for point in points])


def _climb(made: Task, row: np.ndarray, loss: float, rng: np.random.Generator) -> float:
    """The loss where a local search from a row ends: it moves a few parameters at a time, by less and less."""
    anywhere = [isinstance(parameter.domain, Categorical) for parameter in made.space.parameters]
    width, failures = 0.3, 0
    while failures < PATIENCE:
        units = np.where(np.isnan(row), rng.random((NEIGHBOURS, len(row))), row)
        moves = rng.random(units.shape) < rng.choice([1, 2, 4], (NEIGHBOURS, 1)) / len(row)
        near = np.clip(units + width * rng.standard_normal(units.shape), 0, 1)
        rows = made.space.mask(np.where(moves, np.where(anywhere, rng.random(units.shape), near), units))
        losses = _losses(made, rows)
        k = int(np.argmin(losses))
        if losses[k] < loss:
            row, loss, failures = rows[k], float(losses[k]), 0
        else:
            width, failures = max(0.7 * width, 1e-4), failures + 1
    return loss


def known() -> dict[str, dict[str, float]]:
    """The best known and the median of every task; none before `--best` was run."""
    return json.loads(KNOWN.read_text()) if KNOWN.exists() else {}


def remember(values: dict[str, dict[str, float]]) -> None:
    """Writes the best known."""
    KNOWN.parent.mkdir(parents=True, exist_ok=True)
    KNOWN.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")


def lowered(rows: Iterable[dict[str, str]]) -> dict[str, dict[str, float]]:
    """The best known, after anything better among results was written to it."""
    values, better = known(), set()
    for row in rows:
        name, loss = row["task"], float(row["best"])
        if name not in values:
            raise SystemExit(f"nothing is known about {name}: run with --best first.")
        if loss < values[name]["best"]:
            values[name]["best"] = loss
            better.add(name)
    for name in sorted(better):
        print(f"the best known of {name} is now {values[name]['best']:.10g}")
    if better:
        remember(values)
    return values


def find_best(data: Path, tasks: Sequence[str]) -> None:
    """Searches for the best known of each task, and writes it unless a better one is there."""
    values = known()
    for name in tasks:
        found = best_known(data, name)
        found["best"] = min(found["best"], values.get(name, found)["best"])
        values[name] = found
        remember(values)
        print(f"{name}: best {found['best']:.6g}, median of random draws {found['median']:.6g}", flush=True)


# Tables


def regrets(rows: list[dict[str, str]], values: dict[str, dict[str, float]]) -> dict[tuple[str, str], dict[int, np.ndarray]]:
    """(evaluations,) normalised regrets by (task, method) and seed; 1 while a run has nothing to show."""
    runs: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows:
        runs.setdefault((row["task"], row["method"]), {}).setdefault(int(row["seed"]), []).append(float(row["best"]))

    def regret(name: str, losses: list[float]) -> np.ndarray:
        best, median = values[name]["best"], values[name]["median"]
        return np.nan_to_num((np.array(losses) - best) / (median - best), nan=1.0)

    return {(name, method): {seed: regret(name, run) for seed, run in found.items()} for (name, method), found in runs.items()}


def tables(
    rows: list[dict[str, str]], values: dict[str, dict[str, float]], groups: dict[str, list[str]], points: dict[str, int]
) -> str:
    """For each group of tasks: regret and average rank of every method; then regret task by task.

    Args:
        rows: the results to show.
        values: the best known and the median of each task.
        groups: tasks by title.
        points: where to look at the runs: the heading of a column, and the step.
    """
    found, seconds = regrets(rows, values), curves(rows, "seconds")
    parts = []
    for running in sorted({_running(method) for _, method in found}):
        methods = list(dict.fromkeys(method for _, method in found if _running(method) == running))
        for title, tasks in groups.items():
            present = [name for name in tasks if any((name, method) in found for method in methods)]
            if present:
                heading = f"### {title}: {len(present)} tasks" + (f", {running} running" if running > 1 else "")
                parts += [heading, _group(found, seconds, present, methods, points)]
        lines = []
        for name in dict.fromkeys(name for tasks in groups.values() for name in tasks):
            for method in methods:
                if (name, method) in found:
                    runs = found[name, method]
                    lines.append([name, method, len(runs), *(_show(*_mean(_at(runs, k))) for k in points.values())])
        parts.append(markdown(["task", "method", "seeds", *points], lines))
    return "\n\n".join(parts)


def _running(method: str) -> int:
    last = method.split()[-1]
    return int(last[1:]) if last[0] == "x" and last[1:].isdigit() else 1


def _at(runs: dict[int, np.ndarray], k: int) -> np.ndarray:
    """(seeds,) regrets after k evaluations; of the last if a run is shorter because its space was used up."""
    return np.array([run[min(k, len(run)) - 1] for _, run in sorted(runs.items())])


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean and its standard error; NaN for the error of a single run."""
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _show(mean: float, error: float) -> str:
    return f"{mean:.3f}" if np.isnan(error) else f"{mean:.3f} ± {error:.3f}"


def _group(
    found: dict[tuple[str, str], dict[int, np.ndarray]],
    seconds: dict[tuple[str, str], np.ndarray],
    tasks: list[str],
    methods: list[str],
    points: dict[str, int],
) -> str:
    """Mean regret over tasks with its standard error, and rank over the runs that every method has."""
    everywhere = [method for method in methods if all((name, method) in found for name in tasks)]
    cells = []
    for name in tasks if everywhere else []:
        common = set.intersection(*(set(found[name, method]) for method in everywhere))
        cells += [(name, seed) for seed in sorted(common)]

    def ranks(k: int) -> np.ndarray:
        """(methods,) average ranks after k steps; ties share a rank."""
        regret = [[float(_at({seed: found[name, m][seed]}, k)[0]) for m in everywhere] for name, seed in cells]
        return rankdata(regret, axis=1).mean(axis=0)

    ranked = [dict(zip(everywhere, ranks(k), strict=True)) if cells else {} for k in points.values()]
    lines = []
    for method in methods:
        present = [name for name in tasks if (name, method) in found]
        if not present:
            continue
        shown = []
        for k in points.values():
            means, errors = zip(*(_mean(_at(found[name, method], k)) for name in present), strict=True)
            shown.append(_show(float(np.mean(means)), float(np.linalg.norm(errors)) / len(present)))
        label = method if len(present) == len(tasks) else f"{method} ({len(present)} tasks only)"
        runs = sum(len(found[name, method]) for name in present)
        cost = 1e3 * np.mean(np.concatenate([seconds[name, method].ravel() for name in present]))
        lines.append([label, runs, *shown, *(f"{rank[method]:.2f}" if method in rank else "" for rank in ranked), f"{cost:.0f}"])
    header = ["method", "runs", *points, *(f"rank {title}" for title in points), "ms"]
    return markdown(header, lines) + f"\n\nRanks of {len(everywhere)} methods over the {len(cells)} runs that all of them have."


# The command


def setting(text: str) -> str:
    """`text` if it has the form key=value without spaces, since settings are words of a method's name."""
    key, separator, value = text.partition("=")
    if not (key and separator and value) or any(map(str.isspace, text)):
        raise argparse.ArgumentTypeError(f"expected key=value without spaces, got {text!r}")
    return text


def wanted_methods(default: Sequence[str], wanted: str, own_only: bool) -> list[str]:
    """The methods to run; those that are not installed are left out with a message.

    Args:
        default: the methods if nothing is wanted.
        wanted: comma-separated, each a name, for raytree's own followed by settings if you like: "tree,tree leaf=own".
        own_only: whether settings are to be added, which peers do not take.
    """
    installed = []
    for method in [part.strip() for part in wanted.split(",") if part.strip()] or list(default):
        name, settings = settings_of(method)
        if name not in METHODS:
            raise SystemExit(f"there is no method {name!r}; known: {', '.join(METHODS)}.")
        if name in OWN:
            installed.append(method)
            continue
        message = f"{name}: takes no settings" if settings or own_only else available(name)
        if message is None:
            installed.append(method)
        else:
            print(f"skipped {message}", flush=True)
    return installed


def main() -> None:
    made = parser(__doc__.splitlines()[0], "surrogates.csv.gz")
    made.add_argument("--data", type=Path, help="folder with rbv2_xgboost, nb301 and lcbench")
    made.add_argument("--evaluations", type=int, default=100, help="trials of a run")
    made.add_argument("--running", type=int, default=1, help="trials at any time")
    made.add_argument("--setting", type=setting, action="append", default=[], help="key=value for raytree's methods; repeatable")
    made.add_argument("--best", action="store_true", help="search for the best known values")
    made.add_argument("--asha", action="store_true", help="learning curves of lcbench under ASHA")
    arguments = made.parse_args()
    if arguments.data is None and (arguments.best or not arguments.table):
        made.error("--data is needed to run anything")
    if arguments.asha and arguments.out == made.get_default("out"):
        arguments.out = arguments.out.with_name("surrogates-asha.csv.gz")
    groups = {"learning curves under ASHA": CURVES} if arguments.asha else GROUPS
    tasks = chosen([name for group in groups.values() for name in group], arguments.tasks, exact=False)
    if arguments.best:
        find_best(arguments.data, chosen(dict.fromkeys([*CONDITIONAL, *CURVES]), arguments.tasks, exact=False))
        return
    if not arguments.table:
        methods = wanted_methods(ASHA_METHODS if arguments.asha else METHODS, arguments.methods, bool(arguments.setting))
        plan = Plan(arguments.data.resolve(), arguments.evaluations, 1 if arguments.asha else arguments.running)
        seeds = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or 5))
        jobs = [Job(name, plan.named(method, arguments.setting), seed) for seed in seeds for name in tasks for method in methods]
        run(jobs, partial(search_asha if arguments.asha else search, plan=plan), arguments.out, arguments.workers)
    every = [row for row in read(arguments.out) if row["task"] in tasks]
    shown = [part.strip() for part in arguments.methods.split(",") if part.strip()]
    rows = [row for row in every if not shown or row["method"] in shown or row["method"].split()[0] in shown]
    if not rows:
        raise SystemExit(f"there are no results of these methods and tasks in {arguments.out}.")
    last = max(int(row["evaluation"]) for row in rows)
    points = {f"{k}": k for k in LOOKED_AT if k <= last} or {f"{last}": last}
    if arguments.asha:
        points = QUARTERS
    print(tables(rows, lowered(every), groups, points))


if __name__ == "__main__":
    main()
