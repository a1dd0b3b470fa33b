"""How well models predict networks that were never trained: what a search would know after n random configurations.

    python benchmarks/prediction.py --data DIR          a minute or two on two cores
    python benchmarks/prediction.py                     on the sets that scikit-learn ships

For each data set 200 random networks of examples/asha.py are trained for 27 epochs. A model is fitted to n of them and predicts
the error of the others: "value" is the rank correlation with the truth, "best" the same among the better half, "extra" which
share of the others is better than the five that it takes for the best. No search, hence little noise.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, read, run
from scipy.stats import spearmanr

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from example_data import listed
from fidelity import task

from raytree import CondKernelOptimizer, TreeOptimizer
from raytree.optimizers.conditional import FLAT
from raytree.optimizers.tree import INDEPENDENT, PAPER
from raytree.space import Point

NETWORKS, SIZES, TOP = 200, (20, 40, 80), 5
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "tree": (TreeOptimizer, {}),
    "paper-tree": (TreeOptimizer, PAPER),
    "independent": (TreeOptimizer, INDEPENDENT),
    "cond": (CondKernelOptimizer, {}),
    "matern": (CondKernelOptimizer, {"kernel": "matern"}),
    "flat": (CondKernelOptimizer, FLAT),
}


@cache
def networks(name: str) -> tuple[list[Point], np.ndarray]:
    """Random configurations and their errors after the last epoch."""
    made = task(name)
    points = [made.space.decode(row) for row in made.space.sample(np.random.default_rng(5), NETWORKS)]
    return points, np.array([made.complete(made.space.config(point)) for point in points])


def work(job: Job) -> list[Step]:
    """One fit and its predictions for each number of known networks."""
    points, errors = networks(job.task)
    space = task(job.task).space
    make, settings = METHODS[job.method]
    steps = []
    for n in SIZES:
        order = np.random.default_rng([job.seed, n]).permutation(len(points))
        optimizer = make(space, seed=0, **settings)
        for k in range(0, n, 4):  # a few at a time, as in a search: hyperparameters go on from where they were
            for i in order[k : min(k + 4, n)]:
                optimizer.give(space.config(points[i]), float(errors[i]))
            fitted = optimizer.strategy.fit()
        rest = order[n:]
        rows = [space.encode(points[i])[None] for i in rest]
        mean = np.array([fitted.posterior.predict(space.path(points[i]), row).mean[0] for i, row in zip(rest, rows, strict=True)])
        truth = errors[rest]
        good = truth <= np.median(truth)
        better = np.searchsorted(np.sort(truth), truth[np.argsort(mean, kind="stable")[:TOP]]) / len(truth)
        found = [spearmanr(mean, truth)[0], spearmanr(mean[good], truth[good])[0], float(better.mean())]
        steps.append(Step(*(float(np.nan_to_num(number)) for number in found), 0.0))
    return steps


def table(rows: list[dict[str, str]]) -> str:
    """Means over sets and repetitions."""
    found = [curves(rows, column) for column in ("value", "best", "extra")]
    lines = []
    for method in METHODS:
        keys = [key for key in found[0] if key[1] == method]
        if keys:
            means = [np.mean([kind[key].mean(axis=0) for key in keys], axis=0) for kind in found]
            lines.append([method, len(keys), *(" / ".join(f"{mean[k]:.2f}" for mean in means) for k in range(len(SIZES)))])
    return markdown(["model", "sets", *(f"after {n}" for n in SIZES)], lines)


def main() -> None:
    made = parser(__doc__.splitlines()[0], "prediction.csv")
    made.add_argument("--data", type=Path, help="folder of gzipped data sets with an INDEX.csv")
    arguments = made.parse_args()
    if not arguments.table:
        sets = listed(arguments.data, classes=2) if arguments.data else ["breast_cancer", "odd_digits"]
        seeds = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or 3))
        names = chosen([f"mlp {name}" for name in sets], arguments.tasks, exact=False)
        methods = chosen(METHODS, arguments.methods, exact=True)
        run(
            [Job(name, method, seed) for name in names for method in methods for seed in seeds],
            work,
            arguments.out,
            arguments.workers,
        )
    print(table(read(arguments.out)))


if __name__ == "__main__":
    main()
