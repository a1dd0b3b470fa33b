"""Spaces for tests: some by hand, and a seeded generator of random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from raytree.space import Categorical, Conditional, Float, Integer, Normal, Space, Test

MODELS = {
    "scaler": Categorical(["none", "standard"]),
    "model": Categorical(
        [
            {
                "kind": "svm",
                "C": Float(1e-3, 1e3, log=True),
                "kernel": Categorical([{"name": "rbf", "gamma": Float(1e-4, 1e1, log=True)}, {"name": "linear"}]),
            },
            {"kind": "knn", "n_neighbors": Integer(1, 30)},
            {"kind": "gnb"},
        ]
    ),
}

LAYERS = {
    "layers": Integer(0, 4),
    **{f"units_{k}": Conditional(((Test("layers", "ge", k),),), Integer(1, 30)) for k in range(1, 5)},
    "rate": Float(0.0, 1.0),
    "decay": Conditional(((Test("rate", "gt", 0.5), Test("layers", "eq", 2)), (Test("layers", "isin", [4]),)), Float(0, 1)),
}


def random_domain(rng: np.random.Generator) -> Any:
    """A domain without branches."""
    kind = rng.integers(8)
    low = float(np.round(rng.uniform(-10, 10), 2))
    if kind == 0:
        return Float(low, low + float(rng.uniform(0.1, 50)))
    if kind == 1:
        return Float(10.0 ** rng.integers(-6, 0), 10.0 ** rng.integers(1, 6), log=True)
    if kind == 2:
        return Float(0.0, 0.5 * int(rng.integers(1, 9)), step=0.5)
    if kind == 3:
        return Integer(int(low), int(low) + int(rng.integers(0, 40)))
    if kind == 4:
        return Integer(int(rng.integers(1, 5)), int(rng.integers(5, 500)), log=True)
    if kind == 5:
        return Integer(3, 3 * int(rng.integers(1, 12)), step=3)
    if kind == 6:
        return Normal(low, float(rng.uniform(0.1, 5)), None if rng.random() < 0.5 else 0.25)
    return Categorical(["a", None, (1, 2), {"x": [1, "ü"]}, 3.5, True][: int(rng.integers(1, 7))])


def random_structure(rng: np.random.Generator, depth: int = 3) -> Any:
    """A nested structure: dicts, lists, tuples, constants, domains, decisions; equal names in several branches."""
    kind = rng.random()
    if depth == 0 or kind < 0.45:
        return random_domain(rng) if rng.random() < 0.8 else [1, "constant", None][int(rng.integers(3))]
    if kind < 0.75:
        return Categorical([random_structure(rng, depth - 1) for _ in range(int(rng.integers(2, 4)))])
    if kind < 0.95:
        return {f"p{k}": random_structure(rng, depth - 1) for k in range(int(rng.integers(1, 4)))}
    items = [random_structure(rng, depth - 1) for _ in range(int(rng.integers(1, 3)))]
    return items if rng.random() < 0.5 else tuple(items)


def random_space(rng: np.random.Generator) -> Space:
    """A nested space, half of the time with flat conditions on top."""
    structure = {f"top{k}": random_structure(rng) for k in range(int(rng.integers(1, 4)))}
    if rng.random() < 0.5:
        structure["depth"] = Integer(0, 5)
        structure["width"] = Float(0.0, 1.0)
        parents = [(Test("depth", "ge", int(rng.integers(1, 5))),), (Test("width", "lt", float(rng.uniform(0.2, 0.8))),)]
        for k in range(int(rng.integers(1, 4))):
            clauses = tuple(parents if rng.random() < 0.3 else [parents[int(rng.integers(2))]])
            structure[f"extra{k}"] = Conditional(clauses, random_structure(rng, 1))
    return Space(structure)
