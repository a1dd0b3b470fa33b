"""Finished and running searches for tests of what people look at: small, quick, without Ray."""

from __future__ import annotations

from typing import Any

import numpy as np

from raytree import BOSHOptimizer, Categorical, Float, HTBOOptimizer, Integer, Optimizer, TreeOptimizer

SPACE: dict[str, Any] = {
    "scaler": Categorical(["none", "standard", "minmax"]),
    "model": Categorical(
        [
            {
                "kind": "svm",
                "C": Float(1e-3, 1e4, log=True),
                "kernel": Categorical([{"name": "rbf", "gamma": Float(1e-5, 1e2, log=True)}, {"name": "linear"}]),
            },
            {"kind": "knn", "n_neighbors": Integer(1, 30), "weights": Categorical(["uniform", "distance"])},
            {"kind": "logistic", "C": Float(1e-4, 1e4, log=True)},
            {"kind": "bayes"},
        ]
    ),
}


def error(config: dict[str, Any]) -> float:
    """A classification error that one could believe in."""
    model, scaler = config["model"], {"none": 0.02, "standard": 0.0, "minmax": 0.005}[config["scaler"]]
    if model["kind"] == "svm":
        kernel = model["kernel"]
        value = 0.02 + 0.004 * (np.log10(model["C"]) - 1.5) ** 2
        value += 0.012 if kernel["name"] == "linear" else 0.006 * (np.log10(kernel["gamma"]) + 2) ** 2
    elif model["kind"] == "knn":
        value = 0.03 + 0.0008 * abs(model["n_neighbors"] - 7)
    elif model["kind"] == "logistic":
        value = 0.045 + 0.003 * (np.log10(model["C"]) - 0.5) ** 2
    else:
        value = 0.06
    return float(value + scaler)


def searched(n: int = 40, mode: str = "min", kind: type[Optimizer] = TreeOptimizer, **settings: Any) -> Optimizer:
    """A search with n trials that ended, some of them in error, and two that run."""
    optimizer = kind(SPACE, seed=0, mode=mode, **settings)
    sign = 1.0 if mode == "min" else -1.0
    for k in range(n):
        suggestion = optimizer.ask(f"trial_{k:05d}")
        assert suggestion is not None
        if suggestion.config["model"].get("C", 0.0) > 3e3:
            optimizer.fail(suggestion.id)
        else:
            optimizer.tell(suggestion.id, sign * error(suggestion.config), cost=1.0 + k % 5)
    for k in range(2):
        optimizer.ask(f"running_{k}")
    return optimizer


def many(n: int) -> TreeOptimizer:
    """A search with very many trials, which were not chosen by the model."""
    optimizer = TreeOptimizer(SPACE, seed=0)
    rng = np.random.default_rng(0)
    for k, row in enumerate(optimizer.space.sample(rng, n)):
        config = optimizer.space.config(optimizer.space.decode(row))
        optimizer.give(config, error(config) + 0.002 * rng.normal(), trial_id=f"{k:08x}")
    return optimizer


def stopped(n: int = 24) -> TreeOptimizer:
    """A search whose trials report on their way, most of them stopped at 3 or 9 of 27."""
    optimizer = TreeOptimizer({"lr": Float(1e-4, 1.0, log=True), "width": Integer(8, 256, log=True)}, seed=0, max_t=27)
    for k in range(n):
        suggestion = optimizer.ask(f"curve_{k}")
        assert suggestion is not None
        end = (3, 9, 27)[k % 3]
        for t in range(1, end + 1):
            loss = (np.log10(suggestion.config["lr"]) + 2) ** 2 / 10 + 1.0 / t
            if t < end:
                optimizer.report(suggestion.id, loss, t)
            else:
                optimizer.tell(suggestion.id, loss, t)
    return optimizer


def seeded(n: int = 24) -> BOSHOptimizer:
    """A search over configurations and seeds."""
    optimizer = BOSHOptimizer({"x": Float(0.0, 1.0)}, seed=0)
    for _ in range(n):
        suggestion = optimizer.ask()
        assert suggestion is not None
        luck = np.random.default_rng(suggestion.config["seed"]).normal()
        optimizer.tell(suggestion.id, (suggestion.config["x"] - 0.4) ** 2 + 0.1 * luck)
    return optimizer


def pooled() -> HTBOOptimizer:
    """A search in a pool of 40 candidates, 20 of them tried."""
    rng = np.random.default_rng(0)
    pool = [{"x": float(a), "y": float(b)} for a, b in rng.random((40, 2))]
    optimizer = HTBOOptimizer({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}, candidates=pool, seed=0)
    for _ in range(20):
        suggestion = optimizer.ask()
        assert suggestion is not None
        optimizer.tell(suggestion.id, float(suggestion.config["x"] > 0.5) + 0.1 * suggestion.config["y"])
    return optimizer
