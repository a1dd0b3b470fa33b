"""Time of one suggestion, beside yardsticks timed in the same run: the arithmetic that cannot be avoided, and a peer.

    python benchmarks/latency.py                 about five minutes on one core
    python benchmarks/latency.py --table

A suggestion is `ask` with all results told, in CPU time on one core, with the refit when the schedule has one. It is asked again
and again while the data grow. The yardsticks are LAPACK's Cholesky factor of a matrix of all observations, which a dense Gaussian
process needs at least once a suggestion, and Optuna's GPSampler where it can model the space (no conditions).
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import harness  # sets one BLAS thread  # noqa: F401
import numpy as np
import peers
from harness import markdown

from raytree import BOSHOptimizer, CondKernelOptimizer, HTBOOptimizer, TreeOptimizer
from raytree.gp import linalg
from raytree.objectives import deep
from raytree.space import Categorical, Float, Space

RESULTS = Path(__file__).parent / "results" / "latency.csv"
FIELDS = ["space", "observations", "method", "median_ms", "slow_ms", "cholesky_ms"]


class Case(NamedTuple):
    """A space, an objective on it, and how many observations there are."""

    name: str
    space: Space
    value: Callable[[dict[str, Any]], float]
    observations: int
    methods: tuple[str, ...]


def leaves(paths: int, dimensions: int) -> Space:
    """A decision with that many leaves of as many parameters, one of them shared."""
    own = [f"x{i}" for i in range(dimensions - 1)]
    choices = [{"k": k, **{name: Float(0, 1) for name in own}} for k in range(paths)]
    return Space({"m": Categorical(choices), "s": Float(0, 1)})


def _on_leaves(config: dict[str, Any]) -> float:
    m = config["m"]
    xs = [m[name] for name in m if name != "k"]
    return float(0.1 * m["k"] + np.sin(6 * xs[0]) + sum((x - 0.3) ** 2 for x in xs[1:]) + 0.5 * config["s"] ** 2)


def _flat(config: dict[str, Any]) -> float:
    return float(np.sin(6 * config["x0"]) + sum((config[f"x{i}"] - 0.3) ** 2 for i in range(1, 5)))


def cases() -> list[Case]:
    """What is timed."""
    flat = Space({f"x{i}": Float(0, 1) for i in range(5)})
    found = deep()
    return [
        Case("8 paths of 3 parameters", leaves(8, 3), _on_leaves, 100, ("tree", "conditional")),
        Case("8 paths of 3 parameters", leaves(8, 3), _on_leaves, 500, ("tree", "conditional")),
        Case("10 paths of 5 parameters", leaves(10, 5), _on_leaves, 1000, ("tree", "conditional")),
        Case("5 parameters", flat, _flat, 500, ("tree", "gpsampler")),
        Case("deep, 7,936 paths", found.space, found, 1000, ("tree",)),
        Case("5 parameters", flat, _flat, 200, ("htbo",)),
        Case("5 parameters", flat, _flat, 150, ("bosh",)),
        Case("5 parameters", flat, _flat, 1000, ("bosh",)),
    ]


METHODS: dict[str, Callable[[Space], Any]] = {
    "tree": lambda space: TreeOptimizer(space, seed=0, num_initial=1),
    "conditional": lambda space: CondKernelOptimizer(space, seed=0, num_initial=1),
    "htbo": lambda space: HTBOOptimizer(space, seed=0, num_initial=1),
    "bosh": lambda space: BOSHOptimizer(space, seed=0, num_initial=1),
    "gpsampler": lambda space: peers.make("gpsampler", space, 0, 1000),
}


def cholesky(n: int) -> float:
    """Milliseconds of a factor of n x n: the median of several."""
    A = np.random.default_rng(0).random((n, n))
    K, times = A @ A.T + n * np.eye(n), []
    with linalg.one_thread():
        for _ in range(11):
            began = time.process_time()
            linalg.cholesky(K)
            times.append(1e3 * (time.process_time() - began))
    return statistics.median(times)


def known(case: Case, optimizer: Any) -> None:
    """Gives the optimizer as many observations as the case has, spread over the space; the noise of a seed is small."""
    rng = np.random.default_rng(1)
    if hasattr(optimizer, "give"):
        paths = case.space.paths() if case.space.n_paths <= 100 else None
        for k in range(case.observations):
            units = rng.random((1, case.space.d))
            row = case.space.mask(units)[0] if paths is None else case.space.on_path(paths[k % len(paths)], units)[0]
            config = case.space.config(case.space.decode(row))
            seed = {"seed": k % 5} if isinstance(optimizer, BOSHOptimizer) else {}
            optimizer.give({**config, **seed}, case.value(config) + 0.01 * rng.normal())
    else:  # Optuna: random trials
        import optuna

        study = optimizer._study
        sampler, study.sampler = study.sampler, optuna.samplers.RandomSampler(seed=1)
        for _ in range(case.observations):
            suggestion = optimizer.ask()
            optimizer.tell(suggestion.id, case.value(suggestion.config) + 0.01 * rng.normal())
        study.sampler = sampler


def measure(case: Case, method: str, asks: int) -> dict[str, Any]:
    """One row."""
    optimizer, rng = METHODS[method](case.space), np.random.default_rng(2)
    known(case, optimizer)
    times = []
    for k in range(asks + 1):
        began = time.process_time()
        suggestion = optimizer.ask()
        times.append(1e3 * (time.process_time() - began))
        config = {key: value for key, value in suggestion.config.items() if key != "seed"}
        optimizer.tell(suggestion.id, case.value(config) + 0.01 * rng.normal())
        if k == 0:
            times = []  # the first fit has no warm start
    found = [statistics.median(times), float(np.quantile(times, 0.99)), cholesky(case.observations)]
    return dict(zip(FIELDS, [case.name, case.observations, method, *(f"{ms:.2f}" for ms in found)], strict=True))


def table(rows: list[dict[str, str]]) -> str:
    """As the page has it."""
    lines = []
    for row in rows:
        peer = [
            r
            for r in rows
            if r["method"] == "gpsampler" and (r["space"], r["observations"]) == (row["space"], row["observations"])
        ]
        median, factor = float(row["median_ms"]), float(row["cholesky_ms"])
        beside = f"{median / float(peer[0]['median_ms']):.2f}" if peer and peer[0] is not row else ""
        lines.append(
            [row["space"], row["observations"], row["method"], f"{median:.1f}", f"{float(row['slow_ms']):.0f}", f"{factor:.2f}",
             f"{median / factor:.1f}", beside]
        )  # fmt: skip
    return markdown(["space", "observations", "method", "median ms", "99% ms", "Cholesky ms", "x Cholesky", "x GPSampler"], lines)


def read() -> list[dict[str, str]]:
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--asks", type=int, default=60, help="suggestions a line; a peer is asked ten times")
    made.add_argument("--methods", default="", help="only these, comma-separated; nothing is written then")
    made.add_argument("--table", action="store_true", help="only print the table of what is there")
    given = made.parse_args()
    if not given.table:
        wanted, rows = [name for name in given.methods.split(",") if name], []
        for case in cases():
            for method in case.methods:
                if (wanted and method not in wanted) or (method == "gpsampler" and peers.available("gpsampler")):
                    continue
                rows.append(measure(case, method, 10 if method == "gpsampler" else given.asks))
                print("  ".join(str(value) for value in rows[-1].values()), flush=True)
        if wanted:
            return
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    print(table(read()))


if __name__ == "__main__":
    main()
