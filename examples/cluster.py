"""The CASH job of examples/cash.py on whatever cluster RAY_ADDRESS names, or on this machine; prints which node ran what.

    python examples/cluster.py                                   a Ray of its own on this machine
    RAY_ADDRESS=192.0.2.10:6379 python examples/cluster.py       on a machine of that cluster
    ray submit cluster.yaml examples/cluster.py -- --address auto      from anywhere, see docs/how-to/cluster.md

A trial that its node takes down with it runs again on another one (`max_failures`), and is one observation. `--storage` must be a
place that every node can write to (a network file system, or s3://...) as soon as there are several.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(
    0, str(next(p for p in (Path(__file__).parent, Path.home() / "raytree" / "examples") if (p / "cash.py").exists()))
)

import cash
import example_data
from ray import tune

from raytree.searchers import ProgressCallback, TreeSearcher


def objective(config: dict[str, Any], data: cash.Data) -> None:
    import ray

    node = ray.get_runtime_context().get_node_id()[:8]
    error = cash.errors(config, data)
    tune.report(
        {"error": error, "test_error": cash.test_error(config, data), "node": f"{ray.util.get_node_ip_address()} ({node})"}
    )


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default=os.environ.get("RAY_ADDRESS", "local"), help="of a cluster; auto for the one here")
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--concurrent", type=int, default=0, help="trials at a time; as many as fit if 0")
    parser.add_argument("--data", default="digits", help="a set that scikit-learn ships, or a CSV file (default digits)")
    parser.add_argument("--storage", default=str(Path.home() / "ray_results"), help="where results go; seen by every node")
    parser.add_argument("--name", default="raytree-cluster", help="of the experiment, to find it again")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples, arguments.data = 4, "wine"
    address = arguments.address
    print(f"joining the cluster at {address} ..." if address != "local" else "starting a local Ray ...", flush=True)
    for module in (cash, example_data):  # nodes need raytree, not this folder
        ray.cloudpickle.register_pickle_by_value(module)
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    alive = [node for node in ray.nodes() if node["Alive"]]
    print(f"{len(alive)} nodes, {ray.cluster_resources().get('CPU', 0):.0f} CPUs", flush=True)
    searcher = TreeSearcher(seed=arguments.seed)
    results = tune.Tuner(
        tune.with_parameters(objective, data=cash.split(*example_data.load(arguments.data))),
        param_space=cash.space(),
        tune_config=tune.TuneConfig(
            metric="error", mode="min", num_samples=arguments.samples, search_alg=searcher,
            max_concurrent_trials=arguments.concurrent or None, reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name=arguments.name,
            storage_path=arguments.storage,
            verbose=0,
            callbacks=[ProgressCallback(searcher)],
            failure_config=tune.FailureConfig(max_failures=3),
        ),
    ).fit()  # fmt: skip
    counts = Counter(result.metrics["node"] for result in results if result.metrics and "node" in result.metrics)
    print(f"\n{searcher.explain()}\n\nrecommended: {searcher.recommend()}\n\ntrials by node:")
    for node, count in counts.most_common():
        print(f"  {node}: {count}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
