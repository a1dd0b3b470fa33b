"""Time of one suggestion against observations and paths, as ratios measured in the same run.

    python benchmarks/latency.py        a few minutes on one core

Three yardsticks, each timed here and now: the LAPACK Cholesky of the largest leaf, one likelihood-and-gradient of a dense GP
on all observations (what a method without block structure pays per step of a fit), and the machine's clock. A suggestion is `ask`
with all results told, the refit included when the schedule has one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import harness  # sets one BLAS thread  # noqa: F401
import numpy as np
from harness import markdown

from raytree import TreeOptimizer
from raytree.gp import linalg
from raytree.models.conditional import ConditionalModel
from raytree.models.inputs import Inputs
from raytree.space import Categorical, Float, Space


def space_of(paths: int) -> Space:
    """A decision with that many leaves of two parameters each, and one shared parameter."""
    leaves = [{"k": k, "x": Float(0, 1), "y": Float(0, 1)} for k in range(paths)]
    return Space({"m": Categorical(leaves), "s": Float(0, 1)})


def value(config: dict, rng: np.random.Generator) -> float:
    m = config["m"]
    return 0.1 * m["k"] + np.sin(6 * m["x"]) + (m["y"] - 0.3) ** 2 + 0.5 * config["s"] ** 2 + 0.01 * rng.normal()


def seconds(action: Callable[[], object], repeats: int) -> float:
    """The median CPU time of an action."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return statistics.median(times)


def measure(n: int, paths: int, asks: int) -> list[str]:
    """One line of the table: n observations over some paths."""
    rng = np.random.default_rng(0)
    space = space_of(paths)
    optimizer = TreeOptimizer(space, seed=0, num_initial=1)
    per_path = n // paths
    for path in space.paths():
        for row in space.on_path(path, rng.random((per_path, space.d))):
            config = space.config(space.decode(row))
            optimizer.give(config, value(config, rng))
    suggestion = optimizer.ask()  # the first fit has no warm start
    optimizer.tell(suggestion.id, value(suggestion.config, rng))
    times = []
    for _ in range(asks):
        began = time.process_time()
        suggestion = optimizer.ask()
        times.append(time.process_time() - began)
        optimizer.tell(suggestion.id, value(suggestion.config, rng))
    rows = np.array([trial.row for trial in optimizer.observations])
    largest = max(per_path, 2)
    A = rng.random((largest, largest))
    K = A @ A.T + largest * np.eye(largest)
    with linalg.one_thread():
        cholesky = seconds(lambda: linalg.cholesky(K), 20)
        inputs = Inputs(optimizer.space, "integer", True, 2, 0)
        gp = ConditionalModel(optimizer.space, inputs, "matern", rows, rng.normal(size=len(rows)), optimizer.space.paths_of(rows))
        dense = seconds(lambda: gp.negative_log_posterior(gp.start()), 1 if n > 500 else 3)
    median, slow = statistics.median(times), float(np.quantile(times, 0.99))
    return [
        str(n), str(paths), f"{1e3 * median:.1f}", f"{1e3 * slow:.1f}", f"{median / cholesky:.0f}", f"{median / dense:.3f}",
    ]  # fmt: skip


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--asks", type=int, default=25, help="suggestions per line")
    arguments = made.parse_args()
    lines = []
    for n, paths in [(50, 8), (200, 8), (500, 8), (1000, 8), (500, 2), (500, 32), (250, 4), (1000, 16), (2000, 32)]:
        lines.append(measure(n, paths, arguments.asks))
        print("  ".join(lines[-1]), flush=True)
    header = ["observations", "paths", "median ms", "99% ms", "x Cholesky of a leaf", "x dense likelihood step"]
    print(markdown(header, lines))


if __name__ == "__main__":
    main()
