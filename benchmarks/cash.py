"""Which classifier, with which hyperparameters: average ranks over data sets (Levesque et al. 2017, section V, Figures 5 to 7).

    python benchmarks/cash.py --data DIR             12 sets, 60 evaluations: a reduction, about two hours on two cores
    python benchmarks/cash.py --data DIR --full      every set, the paper's 200 evaluations and 10 repetitions
    python benchmarks/cash.py                        the sets that scikit-learn ships

DIR holds the gzipped sets with an INDEX.csv (name, file, rows, features, classes); the last column is the label. At most 1,000
rows to train, 5-fold error, 20% held out; the same splits and the same random start for all methods of a repetition. The paper's
Gaussian-process methods have its inference (slice sampling), its priors and its integer for the classifier; "-ls" is local
search. `cond` and `tree` are raytree's defaults. Every evaluation is kept in a cache beside the output.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run
from stats import critical_difference, difference_plot, finals, friedman, rank_table, wilcoxon_table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from cash import Data, errors, space, split, test_error
from example_data import listed, load

from raytree import CondKernelOptimizer, RandomOptimizer, Space, TreeOptimizer
from raytree.optimizers.conditional import PAPER
from raytree.searchers.tune_space import to_space

INITIAL, EVALUATIONS, FULL = 9, 60, 200
SETS = (
    "australian", "breast_w", "car", "german_credit", "magic", "page_blocks",
    "pima", "spambase", "statlog_image", "steel_plates", "titanic", "wine_quality_red",
)  # fmt: skip
"""Of the default run."""


class CMA:
    """CMA-ES on the unit cube, blind to structure (the `cma` package)."""

    def __init__(self, space: Space, seed: int) -> None:
        import cma

        settings = {"bounds": [0, 1], "seed": seed + 1, "verbose": -9, "popsize": 4 + int(3 * np.log(space.d))}
        self.space, self._strategy = space, cma.CMAEvolutionStrategy([0.5] * space.d, 0.3, settings)
        self._asked: list[np.ndarray] = []
        self._told: list[float] = []

    def ask(self) -> Any:
        if len(self._told) == len(self._asked):
            if self._asked:
                self._strategy.tell(self._asked, self._told)
            self._asked, self._told = self._strategy.ask(), []
        row = self.space.mask(np.clip(self._asked[len(self._told)], 0.0, 1.0)[None])[0]
        return self.space.config(self.space.decode(row))

    def tell(self, value: float) -> None:
        self._told.append(value)


class Raytree:
    """One of raytree's optimizers; the same random start for all."""

    def __init__(self, space: Space, seed: int, make: Any, settings: dict[str, Any]) -> None:
        self._optimizer = make(space, seed=seed, num_initial=INITIAL, **settings)
        for row in space.sample(np.random.default_rng([seed, 2017]), INITIAL):
            self._optimizer.request(space.config(space.decode(row)))

    def ask(self) -> Any:
        suggestion = self._optimizer.ask()
        self._id = suggestion.id
        return suggestion.config

    def tell(self, value: float) -> None:
        self._optimizer.tell(self._id, value)


def _paper(search: str, kernel: str, **settings: Any) -> tuple[Any, dict[str, Any]]:
    return CondKernelOptimizer, {**PAPER, "search": search, "kernel": kernel, **settings}


METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "random": (RandomOptimizer, {}),
    "cma": (None, {}),
    "GP-matern-noimpute": _paper("random", "matern", impute=False),
    "GP-matern-noimpute-ls": _paper("local", "matern", impute=False),
    "GP-matern": _paper("random", "matern"),
    "GP-matern-ls": _paper("local", "matern"),
    "GP-laplace": _paper("random", "laplace"),
    "GP-laplace-ls": _paper("local", "laplace"),
    "GP-cond": _paper("random", "conditional"),
    "GP-cond-ls": _paper("local", "conditional"),
    "cond": (CondKernelOptimizer, {}),
    "tree": (TreeOptimizer, {}),
}


class Cache:
    """Errors by configuration, of one set and repetition, in a file."""

    def __init__(self, path: Path, data: Data, seed: int) -> None:
        self._path, self._data, self._seed = path, data, seed
        self._known: dict[str, list[float]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                key, *values = json.loads(line)
                self._known[key] = values

    def __call__(self, config: Any) -> tuple[float, float]:
        """5-fold error and held-out error."""
        key = json.dumps(config, sort_keys=True)
        if key not in self._known:
            found = errors(config, self._data, seed=self._seed)
            self._known[key] = [found, test_error(config, self._data) if found < 1.0 else 1.0]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps([key, *self._known[key]]) + "\n")
        cross_validated, held_out = self._known[key]
        return cross_validated, held_out


def search(job: Job, evaluations: int) -> list[Step]:
    """One run: value the 5-fold error, extra the held-out error of the best so far, note its classifier."""
    made = to_space(space())
    make, settings = METHODS[job.method]
    method = CMA(made, job.seed) if make is None else Raytree(made, job.seed, make, settings)
    folder = Path(__file__).parent / "results" / "cash_cache"
    cache = Cache(folder / f"{Path(job.task).name}.{job.seed}.jsonl", split(*load(job.task), seed=job.seed), job.seed)
    steps: list[Step] = []
    best, held_out, kind = np.inf, 1.0, ""
    for _ in range(evaluations):
        began = time.process_time()
        config = method.ask()
        seconds = time.process_time() - began
        value, test = cache(config)
        method.tell(value)
        if value < best:
            best, held_out, kind = value, test, config["classifier"]["kind"]
        steps.append(Step(value, best, held_out, seconds, kind))
    return steps


def work(job: Job) -> list[Step]:
    return search(job, EVALUATIONS)


def full_work(job: Job) -> list[Step]:
    return search(job, FULL)


ERRORS = {"best": "5-fold error", "extra": "held-out error"}


def report(rows: list[dict[str, str]], out: Path) -> str:
    """The tables, tests and plots of what is there."""
    parts = [rank_table(rows, ERRORS)]
    if not parts[0]:
        return "not enough finished runs for a table"
    for column, title in ERRORS.items():
        sets, methods, found = finals(rows, column)
        chi2, p = friedman(found)
        apart = critical_difference(len(methods), len(sets))
        parts.append(f"By {title}: Friedman chi2 {chi2:.1f}, p {p:.2g}; Nemenyi critical difference {apart:.2f}.")
        difference_plot(methods, found, out.with_name(f"{out.stem}_{column}.html"), title)
        if column == "best":
            parts.append("Wilcoxon signed-rank p-values:\n\n" + wilcoxon_table(methods, found))
    parts.append(choices(rows, "GP-cond-ls", out.with_name(f"{out.stem}_choices.html")))
    return "\n\n".join(parts)


def choices(rows: list[dict[str, str]], method: str, target: Path) -> str:
    """The classifiers a method ended with, per set (Figures 6 and 7): a table and, with plotly, a plot."""
    last = {(row["task"], row["seed"]): row["note"] for row in rows if row["method"] == method}
    tasks = list(dict.fromkeys(task for task, _ in last))
    names = [Path(task).name.split(".")[0] for task in tasks]
    kinds = sorted(set(last.values()))
    counts = {(t, k): sum(v == k for (task, _), v in last.items() if task == t) for t in tasks for k in kinds}
    lines = [[name, *(counts[t, k] or "" for k in kinds)] for t, name in zip(tasks, names, strict=True)]
    total = ["all", *(sum(counts[t, k] for t in tasks) for k in kinds)]
    try:
        import plotly.graph_objects as go

        bars = [go.Bar(name=k, x=names, y=[counts[t, k] for t in tasks]) for k in kinds]
        figure = go.Figure(bars).update_layout(barmode="stack", title=f"Final choices of {method}", template="plotly_white")
        figure.write_html(target)
        print(f"plot: {target}")
    except ImportError:
        print("no plot: pip install raytree[bench]", file=sys.stderr)
    return f"Final choices of {method}:\n\n" + markdown(["set", *kinds], [*lines, total])


def main() -> None:
    made = parser(__doc__.splitlines()[0], "cash.csv")
    made.add_argument("--data", type=Path, help="folder of gzipped data sets with an INDEX.csv")
    arguments = made.parse_args()
    tasks = listed(arguments.data) if arguments.data else ["breast_cancer", "digits", "wine"]
    if arguments.data and not arguments.full:
        tasks = [task for task in tasks if Path(task).name.split(".")[0] in SETS]
    if not arguments.table:
        seeds = arguments.seeds or (10 if arguments.full else 2)
        numbers = range(arguments.first_seed, arguments.first_seed + seeds)
        methods = chosen(METHODS, arguments.methods, exact=True)
        jobs = [Job(t, m, s) for s in numbers for t in chosen(tasks, arguments.tasks, exact=False) for m in methods]
        run(jobs, full_work if arguments.full else work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(report(rows, arguments.out))
    plot(curves(rows), arguments.out, "CASH", "5-fold error")


if __name__ == "__main__":
    main()
