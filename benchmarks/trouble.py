"""Ordinary trouble: noise, crashes, divergence, tails, ties, dimensions that do not matter, corners, many summits.

    python benchmarks/trouble.py                                  raytree and random search, about an hour on two cores
    python benchmarks/trouble.py --methods tree,tpe,gpsampler     others by name, see peers.py
    python benchmarks/trouble.py --table

No data is needed. Every task comes twice: flat, and as one branch of a conditional space whose other branches are about
as good as the task's median. 60 evaluations. What counts is the true regret (without noise) of what `recommend()` gives
after 20, 40 and 60; how many trials fail after the first ten; and how often the truth lies within one and two standard
deviations of the recommended value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import peers
from harness import Job, Step, chosen, markdown, parser, read, run, settings_of

from raytree import CondKernelOptimizer, HTBOOptimizer, TreeOptimizer
from raytree.space import Categorical, Float, Integer, Space

EVALUATIONS = 60
THIRDS = (20, 40, 60)
DESIGN = 10
"""Failures are counted after so many trials: no method has a longer start."""
TINY = 1e-6
"""Regrets below count as this: nobody needs more digits."""
OURS = {"tree": TreeOptimizer, "cond": CondKernelOptimizer, "htbo": HTBOOptimizer}


class Crash(Exception):
    """The trial fails."""


@dataclass(frozen=True)
class Task:
    """A function of a configuration to minimise, what goes wrong with it, and its lowest true value.

    Args:
        name: of the task.
        structure: the space.
        true: the loss without noise; infinite where nothing may be recommended.
        minimum: of `true`.
        noise: standard deviation of an evaluation.
        accidents: the share of evaluations that fail wherever they are.
        seen: what an evaluation shows instead, given the loss; may raise `Crash`.
        same_as: the task without the trouble, to compare with.
    """

    name: str
    structure: Any
    true: Callable[[Any], float]
    minimum: float
    noise: float = 0.0
    accidents: float = 0.0
    seen: Callable[[Any, float], float] = lambda config, loss: loss
    same_as: str = ""

    def evaluate(self, config: Any, rng: np.random.Generator) -> float:
        """One evaluation, as a search sees it."""
        if self.accidents and rng.random() < self.accidents:
            raise Crash
        return self.seen(config, self.true(config)) + self.noise * float(rng.normal())


def _unit(d: int) -> dict[str, Any]:
    return {f"x{i}": Float(0.0, 1.0) for i in range(d)}


def _vector(config: Any) -> np.ndarray:
    return np.array([config[f"x{i}"] for i in range(sum(key.startswith("x") for key in config))])


CENTRE = np.array([0.3, 0.6, 0.45, 0.7])


def quadratic(config: Any) -> float:
    return float(np.sum((_vector(config) - CENTRE) ** 2))


def branin(x: float, y: float) -> float:
    u, v = 15.0 * x - 5.0, 15.0 * y
    a = v - 5.1 / (4.0 * math.pi**2) * u**2 + 5.0 / math.pi * u - 6.0
    return a**2 + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * math.cos(u) + 10.0


_A3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_P3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)  # fmt: skip
_P6 = 1e-4 * np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
])  # fmt: skip
_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])


def hartmann(x: np.ndarray) -> float:
    A, P = (_A3, _P3) if len(x) == 3 else (_A6, _P6)
    return -float(_ALPHA @ np.exp(-np.sum(A * (x - P) ** 2, axis=1)))


HARTMANN3, HARTMANN6, BRANIN = -3.862779787, -3.322368011, 0.397887358


def ackley(x: np.ndarray) -> float:
    z = 40.0 * (x - 0.6)
    return float(-20.0 * np.exp(-0.2 * np.sqrt(np.mean(z**2))) - np.exp(np.mean(np.cos(2.0 * np.pi * z))) + 20.0 + np.e)


def levy(x: np.ndarray) -> float:
    w = 1.0 + (20.0 * x - 11.0) / 4.0
    inner = np.sum((w[:-1] - 1.0) ** 2 * (1.0 + 10.0 * np.sin(np.pi * w[:-1] + 1.0) ** 2))
    return float(np.sin(np.pi * w[0]) ** 2 + inner + (w[-1] - 1.0) ** 2 * (1.0 + np.sin(2.0 * np.pi * w[-1]) ** 2))


def rosenbrock(x: np.ndarray) -> float:
    z = 15.0 * x - 5.0
    return float(np.sum(100.0 * (z[1:] - z[:-1] ** 2) ** 2 + (1.0 - z[:-1]) ** 2)) / 1e3


ORDERED = ["tiny", "small", "medium", "large", "huge"]


def _mixed(config: Any) -> float:
    rate = (math.log10(config["rate"]) + 2.5) ** 2 / 4.0
    layers = 0.05 * (config["layers"] - 4) ** 2
    kind = {"relu": 0.0, "tanh": 0.15, "logistic": 0.4, "none": 0.6}[config["kind"]]
    return rate + layers + kind + (config["drop"] - 0.25 - 0.1 * (config["kind"] == "tanh")) ** 2


def _ordered(config: Any) -> float:
    size, depth = ORDERED.index(config["size"]), config["depth"]
    return 0.3 * (size - 2.6) ** 2 + 0.2 * (depth - 2.0 - 0.5 * size) ** 2 + 2.0 * (config["x0"] - 0.4) ** 2


def _diverged(loss: float, where: Callable[[Any], bool]) -> Callable[[Any, float], float]:
    return lambda config, value: loss if where(config) else value


def _crashes(where: Callable[[Any], bool]) -> Callable[[Any, float], float]:
    def seen(config: Any, loss: float) -> float:
        if where(config):
            raise Crash
        return loss

    return seen


def _nan_and_inf(config: Any, loss: float) -> float:
    return math.nan if config["x0"] > 0.75 else math.inf if config["x1"] < 0.25 else loss


def _not_allowed(task: Task, where: Callable[[Any], bool]) -> Task:
    """A task whose trials crash somewhere: nothing there can be recommended."""
    return replace(task, true=lambda config: math.inf if where(config) else task.true(config), seen=_crashes(where))


def _flat_tasks() -> list[Task]:
    plain = Task("quadratic", _unit(4), quadratic, 0.0)
    six = Task("hartmann 6", _unit(6), lambda c: hartmann(_vector(c)), HARTMANN6)
    tasks = [plain, six]
    tasks += [replace(plain, name=f"quadratic, noise {sd}", noise=sd) for sd in (0.02, 0.1, 0.3)]
    tasks += [replace(six, name=f"hartmann 6, noise {sd}", noise=sd) for sd in (0.05, 0.2, 0.5)]
    towards = Task("", _unit(4), lambda c: quadratic(c) - 0.0225, 0.0)
    ball = Task("", _unit(3), lambda c: float(np.sum((_vector(c) - CENTRE[:3]) ** 2)), 0.0)
    tasks += [
        replace(_not_allowed(plain, lambda c: c["x0"] < CENTRE[0] - 0.08), name="crashes beside the optimum"),
        replace(_not_allowed(towards, lambda c: c["x0"] < CENTRE[0] + 0.15), name="crashes where the loss falls to"),
        replace(_not_allowed(ball, lambda c: ball.true(c) > 0.35**2), name="crashes around the optimum"),
    ]
    crash = {"kind": Categorical(["good", "fair", "broken"]), **_unit(4)}
    extra = {"good": 0.0, "fair": 0.1, "broken": -0.5}
    broken = Task("", crash, lambda c: quadratic(c) + extra[c["kind"]], 0.0)
    tasks.append(replace(_not_allowed(broken, lambda c: c["kind"] == "broken"), name="a category always crashes"))
    for share, words in ((0.1, "one of ten"), (0.4, "four of ten")):
        tasks.append(replace(plain, name=f"{words} lost by accident", accidents=share, same_as="quadratic"))
    for loss in (1e6, 1e14, 1e20):
        seen = _diverged(loss, lambda c: c["x0"] > 2.0 / 3.0)
        tasks.append(replace(plain, name=f"{loss:g} in a third", seen=seen, same_as="quadratic"))
    tasks.append(replace(plain, name="nan and inf in regions", seen=_nan_and_inf, same_as="quadratic"))
    tasks += [
        Task("exponential tail", _unit(4), lambda c: math.expm1(12.0 * quadratic(c)), 0.0),
        Task("ties", _unit(4), lambda c: math.floor(40.0 * quadratic(c)) / 40.0, 0.0),
        Task("floor", _unit(4), lambda c: max(quadratic(c), 0.05) - 0.05, 0.0),
        Task("branin in 2 of 8", _unit(8), lambda c: branin(c["x2"], c["x5"]), BRANIN),
        Task("hartmann 3 in 3 of 20", _unit(20), lambda c: hartmann(_vector(c)[[3, 11, 17]]), HARTMANN3),
        Task("corner of 10", _unit(10), lambda c: float(np.mean(_vector(c))), 0.0),
        Task("on a face", _unit(4), lambda c: quadratic(c) - 2 * (c["x0"] + c["x2"]) + 3.2075, 0.0),
        Task("middle of 6", _unit(6), lambda c: float(np.sum((_vector(c) - 0.5) ** 2)), 0.0),
        Task("branin", _unit(2), lambda c: branin(c["x0"], c["x1"]), BRANIN),
        Task("hartmann 3", _unit(3), lambda c: hartmann(_vector(c)), HARTMANN3),
        Task("ackley 5", _unit(5), lambda c: ackley(_vector(c)), 0.0),
        Task("levy 4", _unit(4), lambda c: levy(_vector(c)), 0.0),
        Task("rosenbrock 4", _unit(4), lambda c: rosenbrock(_vector(c)), 0.0),
        Task(
            "mixed",
            {
                "rate": Float(1e-5, 1.0, log=True), "layers": Integer(1, 8), "drop": Float(0.0, 0.9),
                "kind": Categorical(["relu", "tanh", "logistic", "none"]),
            },
            _mixed,
            _mixed({"rate": 10**-2.5, "layers": 4, "drop": 0.25, "kind": "relu"}),
        ),
        Task(
            "ordered categories",
            {"size": Categorical(ORDERED, ordered=True), "depth": Integer(1, 8), "x0": Float(0.0, 1.0)},
            _ordered,
            min(_ordered({"size": s, "depth": k, "x0": 0.4}) for s in ORDERED for k in range(1, 9)),
        ),
    ]  # fmt: skip
    return tasks


def _typical(task: Task) -> tuple[float, float]:
    """Median and quartile of the loss over random configurations that do not fail."""
    space = Space(task.structure)
    rows = space.sample(np.random.default_rng(0), 512)
    values = [task.true(space.config(space.decode(row))) for row in rows]
    finite = np.array([value for value in values if math.isfinite(value)])
    return float(np.median(finite)), float(np.quantile(finite, 0.25))


def _as_branch(task: Task) -> Task:
    """The task as one branch of three: the others are simple, and as good as its median down to its quartile."""
    middle, good = _typical(task)
    others = [
        {"kind": "flat", "a": Float(0.0, 1.0), "b": Float(0.0, 1.0)},
        {"kind": "line", "a": Integer(1, 20)},
    ]
    if task.name == "a category always crashes":
        task = replace(task, structure=_unit(4), true=quadratic, name="a path always crashes", seen=lambda config, loss: loss)
        others[1]["kind"] = "broken"
    structure = {"branch": Categorical([{"kind": "task", **{f"t_{k}": v for k, v in task.structure.items()}}, *others])}
    span = middle - good if middle > good else 1.0

    def inner(config: Any) -> Any | None:
        branch = config["branch"]
        return {k[2:]: v for k, v in branch.items() if k != "kind"} if branch["kind"] == "task" else None

    def true(config: Any) -> float:
        inside, branch = inner(config), config["branch"]
        if inside is not None:
            return task.true(inside)
        if branch["kind"] == "broken":
            return math.inf
        return middle - span * (branch["a"] if branch["kind"] == "flat" else branch["a"] / 20.0) ** 2

    def seen(config: Any, loss: float) -> float:
        inside = inner(config)
        if inside is None and math.isinf(loss):
            raise Crash
        return loss if inside is None else task.seen(inside, loss)

    same_as = f"{task.same_as}, branch" if task.same_as else ""
    return replace(task, name=f"{task.name}, branch", structure=structure, true=true, seen=seen, same_as=same_as)


@cache
def tasks() -> dict[str, Task]:
    """All tasks by name."""
    flat = _flat_tasks()
    return {task.name: task for task in [*flat, *map(_as_branch, flat)]}


def work(job: Job) -> list[Step]:
    """One run: value is what was seen; best the true regret of the recommendation, extra its z-score, both at the thirds."""
    task = tasks()[job.task]
    space = Space(task.structure)
    name, settings = settings_of(job.method)
    if name in OURS:
        optimizer: Any = OURS[name](space, seed=job.seed, budget=EVALUATIONS, **settings)
    else:
        optimizer = peers.make(name, space, job.seed, EVALUATIONS)
    rng = np.random.default_rng([job.seed, 60])
    steps: list[Step] = []
    for k in range(1, EVALUATIONS + 1):
        began = time.process_time()
        suggestion = optimizer.ask()
        seconds = time.process_time() - began
        note, value = "", math.nan
        try:
            value = task.evaluate(suggestion.config, rng)
        except Crash:
            optimizer.fail(suggestion.id)
            note = "failed"
        else:
            optimizer.tell(suggestion.id, value)
            note = "" if math.isfinite(value) else "failed"
        regret = z = math.nan
        if k in THIRDS:
            answer = optimizer.recommend()
            if answer is not None:
                truth = task.true(answer.config)
                regret = truth - task.minimum
                z = (truth - answer.value) / answer.sd if answer.sd else math.nan
        steps.append(Step(value, regret, z, seconds, note))
    return steps


def table(rows: list[dict[str, str]]) -> str:
    """Per task and method: median true regret at the thirds, failures, coverage, time."""
    lines = []
    for (task, method), runs in _runs(rows).items():
        at = [f"{np.median(runs['regret'][:, k]):.2g}" for k in range(3)]
        failed = runs["failed"].mean()
        z = np.abs(runs["z"][np.isfinite(runs["z"])])
        inside = f"{np.mean(z < 1):.0%} / {np.mean(z < 2):.0%}" if len(z) and tasks()[task].noise else ""
        lines.append([task, method, len(runs["failed"]), *at, f"{failed:.1f}" if failed else "", inside, f"{runs['ms']:.0f}"])
    order = {name: k for k, name in enumerate(tasks())}
    lines.sort(key=lambda line: (order.get(line[0], 999), line[1]))
    return markdown(["task", "method", "runs", "@20", "@40", "@60", "failed of 50", "within 1 / 2 sd", "ms"], lines)


def _runs(rows: list[dict[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """By task and method: true regrets (runs, 3), z-scores (runs, 3), failures (runs,), median time."""
    found: dict[tuple[str, str], dict[int, list[dict[str, str]]]] = {}
    for row in rows:
        if row["task"] in tasks():
            found.setdefault((row["task"], row["method"]), {}).setdefault(int(row["seed"]), []).append(row)
    out = {}
    for key, by_seed in found.items():
        runs = [steps for _, steps in sorted(by_seed.items()) if len(steps) == EVALUATIONS]
        regret = np.array([[float(steps[k - 1]["best"]) for k in THIRDS] for steps in runs])
        out[key] = {
            "seeds": sorted(by_seed),
            "regret": np.maximum(np.where(np.isfinite(regret), regret, 1e3), TINY),
            "z": np.array([[float(steps[k - 1]["extra"]) for k in THIRDS] for steps in runs]),
            "failed": np.array([sum(step["note"] == "failed" for step in steps[DESIGN:]) for steps in runs]),
            "ms": 1e3 * float(np.median([float(step["seconds"]) for steps in runs for step in steps[DESIGN:]])),
        }
    return out


def summary(rows: list[dict[str, str]]) -> str:
    """Per method: mean log10 regret over all tasks at the thirds; against every other, tasks ahead and behind beyond noise."""
    runs = _runs(rows)
    methods = list(dict.fromkeys(method for _, method in runs))
    out = []
    for method in methods:
        mine = {task: found for (task, m), found in runs.items() if m == method}
        logs = np.array([np.log10(found["regret"]).mean(axis=0) for found in mine.values()])
        noisy = [f["z"] for task, f in mine.items() if tasks()[task].noise and np.isfinite(f["z"]).any()]
        z = np.abs(np.concatenate(noisy)) if noisy else np.empty((0, 3))
        failed = [f["failed"].mean() for task, f in mine.items() if "crash" in task]
        cells = [method, len(mine), *(f"{value:.2f}" for value in logs.mean(axis=0))]
        cells += [f"{np.mean(failed):.1f} / {np.max(failed):.1f}" if failed else ""]
        cells += [
            " / ".join(f"{share:.0%}" for share in np.mean(z < 2, axis=0)) if len(z) else "",
            f"{np.median([f['ms'] for f in mine.values()]):.0f}",
        ]
        out.append(cells)
    header = ["method", "tasks", "@20", "@40", "@60", "failed of 50, mean / most", "noisy: within 2 sd @20 / @40 / @60", "ms"]
    text = "Mean log10 of the true regret over tasks:\n\n" + markdown(header, out)
    lines = []
    for method in methods:
        for other in methods:
            if method == other:
                continue
            ahead, behind, worst = np.zeros(3, int), np.zeros(3, int), []
            common = [task for task, m in runs if m == method and (task, other) in runs]
            wins = 0
            for task in common:
                a, b = np.log10(runs[task, method]["regret"]), np.log10(runs[task, other]["regret"])
                gap = b.mean(axis=0) - a.mean(axis=0)
                noise = 2.0 * np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
                ahead, behind = ahead + (gap > noise), behind + (gap < -noise)
                wins += int(gap[2] > 0) + 0.5 * (gap[2] == 0)
                worst += [f"{task} @{k}" for k, bad in zip(THIRDS, gap < -noise, strict=True) if bad]
            beyond = ", ".join(f"{x}/{y}" for x, y in zip(ahead, behind, strict=True))
            lines.append([method, other, len(common), f"{wins / max(1, len(common)):.0%}", beyond, "; ".join(worst[:6])])
    header = ["method", "against", "tasks", "ahead at 60", "beyond noise ahead/behind @20, @40, @60", "where behind"]
    return text + "\n\n" + markdown(header, lines)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0], "trouble.csv.gz")
    arguments.add_argument("--summary", action="store_true", help="only the summary")
    given = arguments.parse_args()
    if not given.table:
        methods = [name.strip() for name in (given.methods or "tree,cond,random").split(",")]
        for name in methods:
            message = None if settings_of(name)[0] in OURS else peers.available(name)
            if message:
                print(f"skipped: {message}")
        methods = [name for name in methods if settings_of(name)[0] in OURS or not peers.available(name)]
        seeds = range(given.first_seed, given.first_seed + (given.seeds or 10))
        jobs = [Job(t, m, s) for s in seeds for m in methods for t in chosen(tasks(), given.tasks, exact=False)]
        run(jobs, work, given.out, given.workers)
    rows = read(given.out)
    if not given.summary:
        print(table(rows))
    print(summary(rows))


if __name__ == "__main__":
    main()
