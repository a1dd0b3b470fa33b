"""The papers' synthetic trees: log10 distance to the optimum against evaluations (Jenatton et al. 2017, Figures 2, S3, S4).

    python benchmarks/synthetic.py                      about half an hour on two cores
    python benchmarks/synthetic.py --full               25 seeds of every method, 70 evaluations
    python benchmarks/synthetic.py --methods tree       one method

All methods start from the same random point on every path. Beside the twelve functions: minima away from the centre, a leaf that
is bad on average and best at a narrow optimum, leaves of 1 to 8 dimensions and of different scales, and a deep space with
conditions on ranges and on several parents (it starts from 16 random points).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run

from raytree import CondKernelOptimizer, Optimizer, RandomOptimizer, TreeOptimizer
from raytree.objectives import Objective, deep, mixed_leaves, narrow_leaf, tree_function, twelve
from raytree.optimizers.arc import ArcOptimizer
from raytree.optimizers.conditional import FLAT
from raytree.optimizers.tree import INDEPENDENT, MARGINAL, PAPER, PAPER_NONLINEAR

METHODS: dict[str, tuple[Callable[..., Optimizer], dict[str, Any]]] = {
    "tree": (TreeOptimizer, {}),
    "paper-tree": (TreeOptimizer, PAPER),
    "paper-nonlinear": (TreeOptimizer, PAPER_NONLINEAR),
    "independent": (TreeOptimizer, INDEPENDENT),
    "marginal": (TreeOptimizer, MARGINAL),
    "arc": (ArcOptimizer, {}),
    "flat": (CondKernelOptimizer, FLAT),
    "random": (RandomOptimizer, {}),
    "cond": (CondKernelOptimizer, {}),
}
TASKS: dict[str, Objective] = {
    **{objective.name: objective for objective in twelve()},
    "large unbalanced, quadratic, off centre": tree_function("large", "unbalanced", "quadratic", shift=0.63),
    "narrow best leaf": narrow_leaf(),
    "leaves of 1 to 8 dimensions": mixed_leaves(),
    "deep": deep(),
}


def initial(objective: Objective, seed: int) -> list[Any]:
    """One random configuration per path (16 if there are more than 32 paths), the same for every method."""
    rng = np.random.default_rng([seed, 2017])
    space = objective.space
    if space.n_paths > 32:
        rows = list(space.sample(rng, 16))
    else:
        rows = [space.on_path(path, rng.random((1, space.d)))[0] for path in space.paths()]
    return [space.config(space.decode(row)) for row in rows]


def search(job: Job, evaluations: int) -> list[Step]:
    """One run: value is the loss, best the log10 distance to the optimum, extra whether the best is in the best leaf."""
    objective = TASKS[job.task]
    make, settings = METHODS[job.method]
    points = initial(objective, job.seed)
    optimizer = make(objective.space, seed=job.seed, num_initial=len(points), **settings)
    for point in points:
        optimizer.request(point)
    steps: list[Step] = []
    best, inside = np.inf, 0.0
    for _ in range(evaluations):
        began = time.process_time()
        suggestion = optimizer.ask()
        assert suggestion is not None
        seconds = time.process_time() - began
        value = objective(suggestion.config)
        optimizer.tell(suggestion.id, value)
        if value < best:
            best, inside = value, float(objective.in_best_leaf(suggestion.config))
        steps.append(Step(value, float(np.log10(max(best - objective.minimum, 1e-12))), inside, seconds))
    return steps


def work(job: Job) -> list[Step]:
    return search(job, 50)


def full_work(job: Job) -> list[Step]:
    return search(job, 70)


def table(rows: list[dict[str, str]]) -> str:
    """Median (and mean with two standard errors at the end) of the log10 distance, runs in the best leaf, time per suggestion."""
    leaves, seconds = curves(rows, "extra"), curves(rows, "seconds")
    lines = []
    for (task, method), curve in curves(rows).items():
        at = [f"{np.median(curve[:, k - 1]):.1f}" if curve.shape[1] >= k else "" for k in (20, 30, 50)]
        last = curve[:, -1]
        lines.append(
            [
                task, method, len(curve), *at, f"{last.mean():.1f} ± {2 * last.std() / np.sqrt(len(last)):.1f}",
                f"{int(leaves[task, method][:, -1].sum())}/{len(curve)}", f"{1e3 * np.median(seconds[task, method]):.0f}",
            ]
        )  # fmt: skip
    order = {name: k for k, name in enumerate(TASKS)}
    lines.sort(key=lambda line: (order.get(line[0], 99), list(METHODS).index(line[1])))
    return markdown(["task", "method", "seeds", "@20", "@30", "@50", "mean at the end", "best leaf", "ms"], lines)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0], "synthetic.csv.gz").parse_args()
    if not arguments.table:
        jobs = []
        for task in chosen(TASKS, arguments.tasks, exact=False):
            for method in chosen(METHODS, arguments.methods, exact=True):
                seeds = arguments.seeds or (25 if arguments.full else 15 if method == "tree" else 5)
                jobs += [Job(task, method, seed) for seed in range(arguments.first_seed, arguments.first_seed + seeds)]
        run(jobs, full_work if arguments.full else work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(table(rows))
    plot(curves(rows), arguments.out, "Synthetic trees", "log10 distance to the optimum")


if __name__ == "__main__":
    main()
