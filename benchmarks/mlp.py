"""MLP tuning on binary data sets: average rank of every method (Jenatton et al. 2017, section 4.2, Figures 4 and S5).

    python benchmarks/mlp.py --data DIR              85 evaluations, about an hour on two cores
    python benchmarks/mlp.py                         the two binary sets that scikit-learn ships

DIR holds the gzipped sets with an INDEX.csv (name, file, rows, features, classes); the last column is the label. Both
topologies of Figure 3; all methods start from the same random configuration for every number of layers; test error, at
most 1,000 rows to train.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run
from scipy.stats import rankdata

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from example_data import listed, load
from mlp import error, independent_topology, shared_topology, split

from raytree import CondKernelOptimizer, RandomOptimizer, Space, TreeOptimizer
from raytree.optimizers.arc import ArcOptimizer
from raytree.optimizers.conditional import FLAT
from raytree.optimizers.tree import INDEPENDENT, PAPER, PAPER_NONLINEAR
from raytree.searchers.tune_space import to_space

METHODS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "tree": ("shared", TreeOptimizer, {}),
    "paper-tree": ("shared", TreeOptimizer, PAPER),
    "paper-nonlinear": ("shared", TreeOptimizer, PAPER_NONLINEAR),
    "independent": ("shared", TreeOptimizer, INDEPENDENT),
    "arc": ("shared", ArcOptimizer, {}),
    "flat": ("shared", CondKernelOptimizer, FLAT),
    "random": ("shared", RandomOptimizer, {}),
    "tree (independent topology)": ("independent", TreeOptimizer, {}),
    "paper-tree (independent topology)": ("independent", TreeOptimizer, PAPER),
    "independent (independent topology)": ("independent", TreeOptimizer, INDEPENDENT),
}
EVALUATIONS = 85


@cache
def space_of(topology: str) -> Space:
    return to_space(shared_topology() if topology == "shared" else independent_topology())


def initial(space: Space, seed: int) -> list[Any]:
    rng = np.random.default_rng([seed, 2017])
    return [space.config(space.decode(space.on_path(path, rng.random((1, space.d)))[0])) for path in space.paths()]


def work(job: Job) -> list[Step]:
    topology, make, settings = METHODS[job.method]
    space = space_of(topology)
    data = split(*load(job.task))
    points = initial(space, job.seed)
    optimizer = make(space, seed=job.seed, num_initial=len(points), **settings)
    for point in points:
        optimizer.request(point)
    steps: list[Step] = []
    best = np.inf
    for _ in range(EVALUATIONS):
        began = time.process_time()
        suggestion = optimizer.ask()
        seconds = time.process_time() - began
        value = error(suggestion.config, data)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
        steps.append(Step(value, best, 0.0, seconds))
    return steps


def ranks(data: dict[tuple[str, str], np.ndarray]) -> dict[tuple[str, str], np.ndarray]:
    """(tasks x seeds, evaluations) average ranks by topology and method, over the tasks that every method has finished."""
    out: dict[tuple[str, str], np.ndarray] = {}
    for topology in ("shared", "independent"):
        methods = [m for m, (t, _, _) in METHODS.items() if t == topology and any(m == key[1] for key in data)]
        tasks = [t for t in dict.fromkeys(key[0] for key in data) if all((t, m) in data for m in methods)]
        seeds = min((len(data[t, m]) for t in tasks for m in methods), default=0)
        rows: dict[str, list[np.ndarray]] = {m: [] for m in methods}
        for task in tasks:
            for seed in range(seeds):
                ranked = rankdata(np.array([data[task, m][seed] for m in methods]), axis=0)
                for m, line in zip(methods, ranked, strict=True):
                    rows[m].append(line)
        for m in methods:
            if rows[m]:
                out[f"{topology} topology, {len(tasks)} sets", m] = np.array(rows[m])
    return out


def table(rows: list[dict[str, str]]) -> str:
    seconds = curves(rows, "seconds")
    lines = []
    for (title, method), rank in ranks(curves(rows)).items():
        at = [f"{rank[:, min(k, rank.shape[1]) - 1].mean():.2f}" for k in (15, 30, 60, EVALUATIONS)]
        time_of = np.median([np.median(v) for (_, m), v in seconds.items() if m == method])
        lines.append([title, method, *at, f"{2 * rank[:, -1].std() / np.sqrt(len(rank)):.2f}", f"{1e3 * time_of:.0f}"])
    return markdown(["topology", "method", "@15", "@30", "@60", f"@{EVALUATIONS}", "± at the end", "ms"], lines)


def main() -> None:
    made = parser(__doc__.splitlines()[0], "mlp.csv")
    made.add_argument("--data", type=Path, help="folder of gzipped data sets with an INDEX.csv")
    arguments = made.parse_args()
    tasks = listed(arguments.data, classes=2) if arguments.data else ["breast_cancer", "odd_digits"]
    if not arguments.table:
        seeds = arguments.seeds or (3 if arguments.full else 1)
        methods = chosen(METHODS, arguments.methods, exact=True)
        numbers = range(arguments.first_seed, arguments.first_seed + seeds)
        jobs = [Job(t, m, s) for t in chosen(tasks, arguments.tasks, exact=False) for m in methods for s in numbers]
        run(jobs, work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(table(rows))
    plot(ranks(curves(rows)), arguments.out, "MLP tuning", "average rank")


if __name__ == "__main__":
    main()
