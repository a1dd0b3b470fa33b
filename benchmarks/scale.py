"""One searcher with 1,000 concurrent trials and 10,000 observations, driven as Tune would drive it, without 1,000 actors.

    python benchmarks/scale.py [--searchers TreeSearcher,CondKernelSearcher] [--trials 10000] [--concurrent 1000]

Suggestions, results and ends come in the order of a run in which every trial takes a random time; values are those of a
synthetic tree. Per thousand observations: CPU milliseconds for one suggestion (median, 99%) and for everything else a trial costs
(results, its end), the size of the process and of a saved state. `--cap 0` lets the model see everything, to show what the cap on
observations of a leaf costs or saves; the last column is log10 of the distance to the optimum.
"""

from __future__ import annotations

import argparse
import heapq
import json
import resource
import time

import numpy as np
from harness import markdown

import raytree.searchers
import raytree.strategies.fitted
from raytree.objectives import tree_function


def drive(name: str, trials: int, concurrent: int, every: int, seed: int) -> list[list[str]]:
    """The lines of one searcher."""
    objective = tree_function("large", "balanced", "linear", shift=0.3)
    searcher = getattr(raytree.searchers, name)(objective.space, metric="loss", mode="min", seed=seed)
    rng = np.random.default_rng([seed, 9])
    clock, asked, best = 0.0, 0, np.inf
    running: list[tuple[float, str, float]] = []
    suggesting: list[float] = []
    other: list[float] = []
    lines = []
    for done in range(1, trials + 1):
        while len(running) < concurrent and asked < trials + concurrent:
            began = time.process_time()
            config = searcher.suggest(f"t{asked}")
            suggesting.append(time.process_time() - began)
            config = {key: value for key, value in config.items() if key != "seed"}
            heapq.heappush(running, (clock + rng.uniform(0.5, 1.5), f"t{asked}", objective(config)))
            asked += 1
        clock, trial_id, value = heapq.heappop(running)
        best = min(best, value)
        began = time.process_time()
        result = {"loss": value, "training_iteration": 1, "time_total_s": 1.0}
        searcher.on_trial_result(trial_id, result)
        searcher.on_trial_complete(trial_id=trial_id, result=result)
        other.append(time.process_time() - began)
        if done % every == 0:
            size = len(json.dumps(searcher._optimizer.state())) / 1e6
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            lines.append(
                [
                    name, str(concurrent), f"{done:,}", f"{1e3 * np.median(suggesting):.1f}",
                    f"{1e3 * np.quantile(suggesting, 0.99):.0f}", f"{1e3 * np.mean(suggesting):.1f}",
                    f"{1e6 * np.median(other):.0f}",
                    f"{memory:.0f}", f"{size:.1f}", f"{np.log10(max(best - objective.minimum, 1e-12)):.1f}",
                ]
            )  # fmt: skip
            print("  " + " | ".join(lines[-1]), flush=True)
            suggesting, other = [], []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searchers", default="TreeSearcher,CondKernelSearcher")
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--concurrent", type=int, default=1000)
    parser.add_argument("--every", type=int, default=1000, help="observations a line")
    parser.add_argument("--cap", type=int, default=None, help="observations of a leaf that the model sees; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.cap is not None:
        raytree.strategies.fitted.MOST_KNOWN = arguments.cap or 10**9
    lines = []
    for name in arguments.searchers.split(","):
        lines += drive(name, arguments.trials, arguments.concurrent, arguments.every, arguments.seed)
    header = [
        "searcher",
        "at once",
        "observations",
        "median ms",
        "99% ms",
        "mean ms",
        "µs for the rest",
        "MB",
        "state MB",
        "log10",
    ]
    print(markdown(header, lines))


if __name__ == "__main__":
    main()
