"""Where to put two warehouses: simulation optimization, seed by seed (Moss et al. 2020, section 4), on a local Ray.

    python examples/warehouses.py [--samples 60]

One day of the facility-location problem of simopt.org: orders arrive at a constant rate from 8:00 to 17:00, denser around one
corner of a square of 30 km; the closest warehouse with a free truck serves, else the order waits for the next truck that returns;
an order counts if it is delivered within the hour. A seed is a day; the truth is the mean over 100 other days.
"""

from __future__ import annotations

import argparse
import heapq
import logging
from typing import Any

import numpy as np
from ray import tune

from raytree.searchers import BOSHSearcher, ProgressCallback

TRUCKS, MINUTES, RATE, LIMIT = 10, 540.0, 1.0 / 3.0, 60.0
HELD_OUT = range(1_000_000, 1_000_100)


def space() -> dict[str, Any]:
    return {name: tune.uniform(0.0, 1.0) for name in ("x1", "y1", "x2", "y2")}


def day(config: dict[str, float], seed: int) -> float:
    """The share of one day's orders that are delivered in time; arrivals, places and times each have a stream of their own."""
    arrivals, places, pickups, deliveries = (np.random.default_rng([int(seed), k]) for k in range(4))
    homes = np.array([[config["x1"], config["y1"]], [config["x2"], config["y2"]]])
    free = [TRUCKS, TRUCKS]
    returns: list[tuple[float, int]] = []  # (time, warehouse) of trucks on the road
    clock, total, on_time = 0.0, 0, 0
    while (clock := clock + arrivals.exponential(1.0 / RATE)) <= MINUTES:
        total += 1
        spot = _place(places)
        pickup, delivery = pickups.exponential(5.0), deliveries.exponential(10.0)
        start = clock
        while returns and returns[0][0] <= clock:
            free[heapq.heappop(returns)[1]] += 1
        ways = 60.0 * np.abs(homes - spot).sum(axis=1)  # minutes at 30 km/h, along streets
        near = int(np.argmin(ways)) if free[int(np.argmin(ways))] else int(np.argmax(ways))
        if not free[near]:  # both empty: the next truck back takes it
            start, near = heapq.heappop(returns)
            free[near] += 1
        free[near] -= 1
        done = start + pickup + ways[near] + delivery
        on_time += done - clock < LIMIT
        heapq.heappush(returns, (done + ways[near], near))
    return on_time / max(1, total)


def _place(rng: np.random.Generator) -> np.ndarray:
    """A point of the unit square with density proportional to 1.6 - |x - 0.8| - |y - 0.8|."""
    while True:
        x, y, u = rng.random(3)
        if 1.6 * u <= 1.6 - abs(x - 0.8) - abs(y - 0.8):
            return np.array([x, y])


def average(config: dict[str, float], days: Any = HELD_OUT) -> float:
    """The mean share over days."""
    return float(np.mean([day(config, seed) for seed in days]))


def objective(config: dict[str, Any]) -> None:
    tune.report({"on_time": day(config, config["seed"])})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60, help="trials to run (default 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 8
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = BOSHSearcher(seed=arguments.seed)
    results = tune.Tuner(
        objective,
        param_space=space(),
        tune_config=tune.TuneConfig(
            metric="on_time", mode="max", num_samples=arguments.samples, search_alg=searcher, reuse_actors=True,
            max_concurrent_trials=4,
        ),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()  # fmt: skip
    held_out = HELD_OUT[:5] if arguments.short else HELD_OUT
    recommended = searcher.recommend()
    lucky = results.get_best_result()
    print(f"\n{searcher.explain()}\n\nsimulating {len(held_out)} other days ...", flush=True)
    print(f"recommended: {average(recommended.config, held_out):.4f}")
    print(f"best single trial: {average(lucky.config, held_out):.4f}, where its own day had said {lucky.metrics['on_time']:.4f}")
    print(f"best configuration: {recommended.config}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
