"""The MLP of examples/mlp.py trained epoch by epoch, with a scheduler that stops bad ones: TreeSearcher and ASHA together.

    python examples/asha.py [--samples 60] [--epochs 27]

`max_t` tells the searcher what a complete trial is, so that a trial that ASHA has stopped counts for what it was, a short one.
A checkpoint is written at every rung, from which a trial goes on if its worker is lost.
"""

from __future__ import annotations

import argparse
import logging
import pickle
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mlp import normalise, shared_topology, split, untrained
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from raytree.searchers import ProgressCallback, TreeSearcher

RUNGS = (1, 3, 9, 27, 81)


def space() -> dict[str, Any]:
    """The shared topology, without the tolerance: how long a network is trained is up to the scheduler."""
    return {name: domain for name, domain in shared_topology().items() if name != "tolerance"}


def training(network: Any, config: dict[str, Any], data: tuple[np.ndarray, ...], epochs: int) -> Iterator[float]:
    """The test error after each of some epochs; 1.0 from where training breaks down."""
    train, labels, test, truth = data
    train, test = normalise(config["normalisation"], train, test)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(epochs):
            network.partial_fit(train, labels, classes=np.unique(labels))
            yield float(np.mean(network.predict(test) != truth)) if np.isfinite(network.loss_) else 1.0


def objective(config: dict[str, Any], epochs: int = 27) -> None:
    from sklearn.datasets import load_digits

    features, digits = load_digits(return_X_y=True)
    data = split(features, digits)
    network, done = untrained(config), 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            network, done = pickle.loads((Path(folder) / "network.pkl").read_bytes())
    for epoch, error in enumerate(training(network, config, data, epochs - done), start=done + 1):
        if epoch not in RUNGS:
            tune.report({"error": error})
            continue
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "network.pkl").write_bytes(pickle.dumps((network, epoch)))
            tune.report({"error": error}, checkpoint=tune.Checkpoint.from_directory(folder))


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=60, help="trials to run (default 60)")
    parser.add_argument("--epochs", type=int, default=27, help="of a complete trial (default 27)")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples, arguments.epochs = 6, 3
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    searcher = TreeSearcher(space=space(), metric="error", mode="min", max_t=arguments.epochs, seed=arguments.seed)
    results = tune.Tuner(
        tune.with_parameters(objective, epochs=arguments.epochs),
        tune_config=tune.TuneConfig(
            num_samples=arguments.samples,
            search_alg=searcher,
            scheduler=ASHAScheduler(metric="error", mode="min", max_t=arguments.epochs, grace_period=1, reduction_factor=3),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            verbose=0, callbacks=[ProgressCallback(searcher)], checkpoint_config=tune.CheckpointConfig(num_to_keep=1)
        ),
    ).fit()
    spent = sum(result.metrics.get("training_iteration", 0) for result in results if result.metrics)
    print(f"\n{searcher.explain()}\n\nbest configuration: {searcher.recommend()}")
    print(f"{len(results)} trials took {spent} epochs; complete ones would have taken {len(results) * arguments.epochs}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
