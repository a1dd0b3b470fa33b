"""Where to drill next: a finite pool of sites on terrain with faults (Assael et al. 2014, section 4), on a local Ray.

    python examples/mining.py [--samples 40] [--data brenda_mines_1800.csv]

Ore grades change gently inside a block of rock and abruptly across a fault: a treed Gaussian process gives every block a scale
of its own. Only the sites of the pool can be drilled, each once. `--data` is a CSV whose first three columns are coordinates
and whose fifth is the grade; without it, terrain is made up.
"""

from __future__ import annotations

import argparse
import csv
import logging
from typing import Any

import numpy as np
from ray import tune

from raytree.searchers import HTBOSearcher, ProgressCallback

Sites = tuple[np.ndarray, np.ndarray]


def terrain(sites: int = 600, seed: int = 0) -> Sites:
    """Coordinates (n, 3) in the unit cube and grades (n,): gentle trends, three faults that shift them, one narrow vein."""
    rng = np.random.default_rng(seed)
    places = rng.random((sites, 3))
    grades = 0.3 + 0.2 * np.sin(3 * places[:, 0]) * np.cos(2 * places[:, 1])
    for normal, at, shift in zip(rng.normal(size=(3, 3)), (0.3, -0.1, 0.5), (0.25, -0.2, 0.15), strict=True):
        grades = grades + shift * (places @ normal > at)
    vein = np.exp(-np.sum((places - [0.7, 0.2, 0.6]) ** 2, axis=1) / (2 * 0.08**2))
    return places, grades + 0.8 * vein + 0.02 * rng.normal(size=sites)


def load(path: str) -> Sites:
    """Scaled coordinates and grades of a file."""
    with open(path, newline="") as file:
        table = np.array([[float(cell) for cell in row[:5]] for row in list(csv.reader(file))[1:]])
    places = table[:, :3]
    return (places - places.min(axis=0)) / (places.max(axis=0) - places.min(axis=0)), table[:, 4]


def space() -> dict[str, Any]:
    return {axis: tune.uniform(0.0, 1.0) for axis in ("east", "north", "depth")}


def objective(config: dict[str, float], sites: Sites) -> None:
    """Drills: the grade of the site at these coordinates."""
    places, grades = sites
    spot = np.array([config["east"], config["north"], config["depth"]])
    tune.report({"grade": float(grades[int(np.argmin(np.sum((places - spot) ** 2, axis=1)))])})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--data", help="a CSV of drill holes")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 10
    sites = load(arguments.data) if arguments.data else terrain()
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = HTBOSearcher(seed=arguments.seed, candidates=sites[0])
    results = tune.Tuner(
        tune.with_parameters(objective, sites=sites),
        param_space=space(),
        tune_config=tune.TuneConfig(
            metric="grade", mode="max", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True,
            max_concurrent_trials=4,
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()  # fmt: skip
    best = results.get_best_result()
    rank = int(np.sum(sites[1] > best.metrics["grade"])) + 1
    print(f"\n{searcher.explain()}\n\nbest site: {best.config}, grade {best.metrics['grade']:.3f},", end=" ")
    print(f"number {rank} of the {len(sites[1])} in the pool after {len(results)} drillings")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
