"""What a searcher costs a run: time in `suggest`, busy workers, and wall-clock to a target, on a real local Ray.

    python benchmarks/throughput.py [--trials 200] [--concurrent 1,2,4,8] [--methods tree,random,optuna]

Trials sleep for a second and report a value of a synthetic tree (large, unbalanced, linear), so that many fit on few cores. All
methods are measured in the same run of this program; the first trials, which start actors, are not counted in busy shares.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from typing import Any

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

import numpy as np
from harness import markdown
from ray import tune

from raytree.objectives import tree_function
from raytree.searchers import RandomSearcher, TreeSearcher
from raytree.space import Categorical, Float

OBJECTIVE = tree_function("large", "unbalanced", "linear")
SECONDS, TARGET = 1.0, 1e-2


def tune_space(structure: Any) -> Any:
    """The objective's space in Tune's words."""
    if isinstance(structure, dict):
        return {key: tune_space(value) for key, value in structure.items()}
    if isinstance(structure, Categorical):
        return tune.choice([tune_space(choice) for choice in structure.choices])
    return tune.uniform(structure.lower, structure.upper) if isinstance(structure, Float) else structure


def trainable(config: dict[str, Any]) -> None:
    time.sleep(SECONDS)
    tune.report({"loss": OBJECTIVE(config) - OBJECTIVE.minimum})


def define(trial: Any) -> dict[str, Any]:
    """The objective's space in Optuna's words: a configuration drawn as it goes."""

    def draw(structure: Any, name: str) -> Any:
        if isinstance(structure, dict):
            return {key: draw(value, f"{name}/{key}") for key, value in structure.items()}
        if isinstance(structure, Categorical):
            k = trial.suggest_categorical(name, list(range(len(structure.choices))))
            return draw(structure.choices[k], f"{name}[{k}]")
        return trial.suggest_float(name, structure.lower, structure.upper) if isinstance(structure, Float) else structure

    return {"config": draw(OBJECTIVE.space.structure, "")}


def optuna_search() -> Any:
    from ray.tune.search.optuna import OptunaSearch

    return OptunaSearch(space=define, metric="loss", mode="min", seed=0)


def run(method: str, concurrent: int, trials: int) -> list[str]:
    """One experiment: a line of the table."""
    spent: list[float] = []
    searcher = {"tree": TreeSearcher, "random": RandomSearcher}[method](seed=0) if method != "optuna" else optuna_search()
    kind, suggest = type(searcher), type(searcher).suggest

    def timed(self: Any, trial_id: str) -> Any:
        began = time.perf_counter()
        config = suggest(self, trial_id)
        spent.append(time.perf_counter() - began)
        return config

    kind.suggest = timed  # of the class: Optuna's searcher pickles what an instance has
    config = tune.TuneConfig(
        metric=None if method == "optuna" else "loss", mode=None if method == "optuna" else "min", num_samples=trials,
        search_alg=searcher, max_concurrent_trials=concurrent, reuse_actors=True,
    )  # fmt: skip
    body = (lambda config: trainable(config["config"])) if method == "optuna" else trainable
    space = None if method == "optuna" else tune_space(OBJECTIVE.space.structure)
    with tempfile.TemporaryDirectory() as folder:
        settings = tune.RunConfig(verbose=0, storage_path=folder)
        began = time.time()
        results = tune.Tuner(body, param_space=space, tune_config=config, run_config=settings).fit()
        wall = time.time() - began
        kind.suggest = suggest
        ends = sorted((r.metrics["timestamp"], r.metrics["loss"]) for r in results if r.metrics)
    reached = next((end - began for end, loss in ends if loss <= TARGET), None)
    busy = (len(ends) - concurrent) * SECONDS / (concurrent * (ends[-1][0] - ends[concurrent - 1][0]))
    return [
        str(concurrent), method, f"{100 * sum(spent) / wall:.1f}%", f"{1e3 * np.median(spent):.0f}",
        f"{100 * min(1.0, busy):.0f}%", f"{wall:.0f}", "not reached" if reached is None else f"{reached:.0f}",
        f"{np.log10(max(min(loss for _, loss in ends), 1e-12)):.1f}",
    ]  # fmt: skip


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200, help="at 8 at a time; fewer in proportion below, at least 50")
    parser.add_argument("--concurrent", default="1,2,4,8")
    parser.add_argument("--methods", default="tree,random,optuna")
    arguments = parser.parse_args()
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    lines = []
    for concurrent in map(int, arguments.concurrent.split(",")):
        trials = min(arguments.trials, max(50, arguments.trials * concurrent // 8))
        for method in arguments.methods.split(","):
            print(f"{method}, {concurrent} at a time, {trials} trials ...", flush=True)
            lines.append(run(method, concurrent, trials))
            print("  " + " ".join(lines[-1]), flush=True)
    header = ["at a time", "method", "in suggest", "median ms", "workers busy", "seconds", f"seconds to {TARGET:g}", "log10 best"]
    print(markdown(header, lines))
    ray.shutdown()


if __name__ == "__main__":
    main()
