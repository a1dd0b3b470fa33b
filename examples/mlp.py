"""How many layers, how many units each, which activation? The MLP of Jenatton et al. 2017, section 4.2, on a local Ray.

    python examples/mlp.py [--samples 40] [--topology shared]

Two ways to write the space (Figure 3): everything duplicated under the number of layers (nested), or shared where it means the
same (with `when`). One regularisation parameter for each number of layers in both.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from typing import Any

import numpy as np
from ray import tune

from raytree import when
from raytree.searchers import ProgressCallback, TreeSearcher

ACTIVATIONS = ["identity", "logistic", "tanh", "relu"]
NORMALISATIONS = ["l2 rows", "max columns", "whitened", "none"]


def shared_topology() -> dict[str, Any]:
    """Figure 3, bottom: learning rate, tolerance, normalisation, activation and units are shared."""
    space: dict[str, Any] = {
        "layers": tune.randint(0, 5),
        "learning_rate": tune.loguniform(1e-5, 1e-1),
        "tolerance": tune.loguniform(1e-5, 1e-2),
        "normalisation": tune.choice(NORMALISATIONS),
        "activation": when("layers", ge=1, then=tune.choice(ACTIVATIONS)),
    }
    for k in range(1, 5):
        space[f"units_{k}"] = when("layers", ge=k, then=tune.randint(1, 31))
    for k in range(5):
        space[f"l2_{k}"] = when("layers", eq=k, then=tune.loguniform(1e-6, 1e-1))
    return space


def independent_topology() -> dict[str, Any]:
    """Figure 3, top: every number of layers has parameters of its own."""
    branches = []
    for layers in range(5):
        branch: dict[str, Any] = {
            "layers": layers,
            "learning_rate": tune.loguniform(1e-5, 1e-1),
            "tolerance": tune.loguniform(1e-5, 1e-2),
            "normalisation": tune.choice(NORMALISATIONS),
            f"l2_{layers}": tune.loguniform(1e-6, 1e-1),
        }
        if layers:
            branch["activation"] = tune.choice(ACTIVATIONS)
            branch |= {f"units_{k}": tune.randint(1, 31) for k in range(1, layers + 1)}
        branches.append(branch)
    return {"net": tune.choice(branches)}


def split(features: np.ndarray, labels: np.ndarray, seed: int = 0) -> tuple[np.ndarray, ...]:
    """80% to train, at most 1,000 rows; 20% to test, at most 10,000."""
    order = np.random.default_rng(seed).permutation(len(labels))
    cut = int(0.8 * len(labels))
    train, test = order[:cut][:1000], order[cut:][:10_000]
    return features[train], labels[train], features[test], labels[test]


def normalise(kind: str, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if kind == "l2 rows":
        return tuple(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in (train, test))
    if kind == "max columns":
        scale = np.maximum(np.abs(train).max(axis=0), 1e-12)
        return train / scale, test / scale
    if kind == "whitened":
        mean, sd = train.mean(axis=0), np.maximum(train.std(axis=0), 1e-12)
        return (train - mean) / sd, (test - mean) / sd
    return train, test


def untrained(config: dict[str, Any]) -> Any:
    """The configured network."""
    from sklearn.neural_network import MLPClassifier

    layers = config["layers"]
    return MLPClassifier(
        hidden_layer_sizes=tuple(config[f"units_{k}"] for k in range(1, layers + 1)),
        activation=config.get("activation", "identity"),
        alpha=config[f"l2_{layers}"],
        learning_rate_init=config["learning_rate"],
        random_state=0,
    )


def error(config: dict[str, Any], data: tuple[np.ndarray, ...], limit: float = 20.0, epochs: int = 200) -> float:
    """Test error of the configured network; 1.0 if training takes more than `limit` seconds of CPU or breaks down."""
    config = config.get("net", config)
    train, labels, test, truth = data
    train, test = normalise(config["normalisation"], train, test)
    network = untrained(config)
    began, best, waited = time.process_time(), np.inf, 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(epochs):
            network.partial_fit(train, labels, classes=np.unique(labels))
            waited = waited + 1 if network.loss_ > best - config["tolerance"] else 0
            best = min(best, network.loss_)
            if waited >= 10 or not np.isfinite(network.loss_):
                break
            if time.process_time() - began > limit:
                return 1.0
        return float(np.mean(network.predict(test) != truth)) if np.isfinite(network.loss_) else 1.0


def objective(config: dict[str, Any]) -> None:
    from sklearn.datasets import load_breast_cancer

    tune.report({"error": error(config, split(*load_breast_cancer(return_X_y=True)))})


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="trials to run (default 40)")
    parser.add_argument("--topology", choices=["shared", "independent"], default="shared", help="how the space is written")
    parser.add_argument("--seed", type=int, default=0, help="of the search (default 0)")
    parser.add_argument("--report", default="report.html", help="where the page goes (default report.html)")
    parser.add_argument("--short", action="store_true", help="a few trials only, to see that it runs")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.samples = 4
    print("starting a local Ray ...", flush=True)
    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    space = shared_topology() if arguments.topology == "shared" else independent_topology()
    searcher = TreeSearcher(space=space, metric="error", mode="min", seed=arguments.seed)
    results = tune.Tuner(
        objective,
        tune_config=tune.TuneConfig(num_samples=arguments.samples, search_alg=searcher, reuse_actors=True),
        run_config=tune.RunConfig(verbose=0, callbacks=[ProgressCallback(searcher)]),
    ).fit()
    recommended = searcher.recommend()
    print(f"\n{searcher.explain()}\n\nbest configuration: {recommended.config}\nits test error: {recommended.value:.4f}")
    print(f"everything to look at: {searcher.report(arguments.report, experiment=results.experiment_path)}")
    ray.shutdown()


if __name__ == "__main__":
    main()
