"""The papers' test functions, with known optima.

The twelve of Jenatton et al. 2017 (section 4.1 and supplement 1.1): binary trees whose leaves hold a quadratic in one variable
of [-1, 1] plus a constant of their own; two variables of [0, 1] at the children of the root are shared by the leaves below
them and enter not at all, linearly, or quadratically. The minimum is 0.1, in the first leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from raytree.space import Categorical, Float, Integer, Space, when

SIZES = ("small", "large")
SHAPES = ("balanced", "unbalanced")
SHARED = ("none", "linear", "quadratic")


@dataclass(frozen=True)
class Objective:
    """A function to minimise: its space, its value, its minimum, and whether a configuration is in the best leaf."""

    name: str
    space: Space
    function: Callable[[Any], float]
    minimum: float
    in_best_leaf: Callable[[Any], bool]

    def __call__(self, config: Any) -> float:
        return self.function(config)


def _tree(size: str, shape: str) -> Any:
    """Nested pairs; a leaf is its number, counted from the left."""
    depth = 2 if size == "small" else 3
    counter = iter(range(100))

    def grow(level: int, first: bool) -> Any:
        if level == depth and not (shape == "unbalanced" and first and level == depth):
            return next(counter)
        if level > depth:
            return next(counter)
        return (grow(level + 1, first), grow(level + 1, False))

    return grow(0, True)


def tree_function(size: str, shape: str, shared: str, shift: float = 0.0) -> Objective:
    """One of the twelve.

    Args:
        size: "small" (4 or 5 leaves) or "large" (8 or 9).
        shape: "balanced", or "unbalanced" (the first leaf is split).
        shared: how the shared variables enter: "none", "linear" or "quadratic".
        shift: where the leaves' minima are, instead of the paper's 0; a leaf k has its minimum at shift (-1)^k.
    """

    def structure(node: Any, level: int) -> dict[str, Any]:
        if isinstance(node, int):
            return {f"x{node}": Float(-1.0, 1.0)}
        inside: dict[str, Any] = {"d": Categorical([structure(child, level + 1) for child in node])}
        if level == 1 and shared != "none":
            inside["r"] = Float(0.0, 1.0)
        return inside

    def leaf_of(config: dict[str, Any]) -> tuple[int, float, float]:
        node, extra = config, 0.0
        while "d" in node:
            extra += _shared_term(shared, node["r"]) if "r" in node else 0.0
            node = node["d"]
        ((key, x),) = node.items()
        return int(key[1:]), float(x), extra

    def value(config: dict[str, Any]) -> float:
        leaf, x, extra = leaf_of(config)
        return float((x - shift * (-1) ** leaf) ** 2 + 0.1 * (leaf + 1) + extra)

    name = f"{size} {shape}, {shared} shared"
    return Objective(name, Space(structure(_tree(size, shape), 0)), value, 0.1, lambda config: leaf_of(config)[0] == 0)


def _shared_term(shared: str, r: float) -> float:
    return r if shared == "linear" else (r - 0.5) ** 2


def twelve(shift: float = 0.0) -> list[Objective]:
    """All twelve."""
    return [tree_function(size, shape, shared, shift) for size in SIZES for shape in SHAPES for shared in SHARED]


def narrow_leaf() -> Objective:
    """A leaf that is bad on average and best at a narrow optimum, beside two that are good everywhere."""

    def value(config: dict[str, Any]) -> float:
        model = config["model"]
        if model["kind"] == "narrow":
            return 1.0 - math.exp(-(((model["a"] - 0.7) ** 2 + (model["b"] - 0.3) ** 2) / (2 * 0.12**2)))
        return float({"good": 0.3, "fair": 0.4}[model["kind"]] + 0.1 * (model["x"] - 0.4) ** 2)

    kinds = [
        {"kind": "narrow", "a": Float(0, 1), "b": Float(0, 1)},
        *({"kind": k, "x": Float(0, 1)} for k in ("good", "fair")),
    ]
    space = Space({"model": Categorical(kinds)})
    return Objective("narrow best leaf", space, value, 0.0, lambda config: config["model"]["kind"] == "narrow")


def mixed_leaves() -> Objective:
    """Leaves of 1, 2, 4 and 8 dimensions whose functions differ in scale by a factor of 100; the best has four."""
    sizes, scales, levels = (1, 2, 4, 8), (0.1, 10.0, 1.0, 1.0), (0.3, 0.25, 0.0, 0.2)

    def value(config: dict[str, Any]) -> float:
        model = config["model"]
        k = sizes.index(model["size"])
        xs = [model[f"x{i}"] for i in range(model["size"])]
        return float(levels[k] + scales[k] * sum((x - 0.2 - 0.07 * i) ** 2 for i, x in enumerate(xs)))

    space = Space({"model": Categorical([{"size": n, **{f"x{i}": Float(0, 1) for i in range(n)}} for n in sizes])})
    return Objective("leaves of 1 to 8 dimensions", space, value, 0.0, lambda config: config["model"]["size"] == 4)


def deep() -> Objective:
    """Three levels, range conditions, several parents: over thirty parameters of which few are alive at once.

    Every alive number costs a multiple of its squared distance from a target, every category its distance from the best one.
    """
    conv = {
        "type": "conv",
        "width": Integer(8, 256, log=True),
        "head": Categorical([{"h": "fc", "size": Integer(4, 63)}, {"h": "gap"}]),
    }
    mlp = {"type": "mlp", "width": Integer(8, 256, log=True), "act": Categorical(["relu", "tanh", "gelu"])}
    boost = {"kind": "boost", "rounds": Integer(10, 500, log=True), "shrinkage": Float(1e-3, 1, log=True)}
    space = Space(
        {
            "pipeline": Categorical([{"kind": "net", "body": Categorical([conv, mlp])}, boost]),
            "layers": Integer(0, 4),
            **{f"units_{k}": when("layers", ge=k, then=Integer(1, 30)) for k in range(1, 5)},
            **{
                f"dropout_{k}": when([("layers", {"ge": k}), (f"units_{k}", {"gt": 10})], then=Float(0, 0.5)) for k in range(1, 5)
            },
            "rate": Float(1e-5, 1e-1, log=True),
            "warmup": when("rate", gt=1e-3, then=Integer(1, 100)),
            "decay": when("rate", le=1e-2, then=Float(1e-6, 1e-2, log=True)),
            "optimizer": Categorical(["sgd", "adam", "lamb"]),
            "momentum": when("optimizer", eq="sgd", then=Float(0, 1)),
            "nesterov": when([("optimizer", {"eq": "sgd"}), ("momentum", {"gt": 0.5})], then=Categorical([True, False])),
            "beta": when("optimizer", isin=["adam", "lamb"], then=Float(0.8, 0.999)),
            "clip": [when("optimizer", eq="lamb", then=Float(0, 10)), when("rate", ge=5e-2, then=Float(0, 10))],
            "augment": Categorical([None, {"flip": Float(0, 1), "crop": Float(0, 1)}]),
            "batch": Integer(16, 512, log=True),
            "ema": when("batch", lt=64, then=Float(0.9, 0.9999)),
            "smoothing": Float(0, 0.2),
        }
    )
    rng = np.random.default_rng(2017)
    order = rng.permutation(space.d)
    weights = np.array([1.0, 0.3, 0.1])[order % 3]
    targets = np.array(
        [float(p.domain.snap(np.array([u]))[0]) for p, u in zip(space.parameters, rng.random(space.d), strict=True)]
    )
    categorical = np.array([isinstance(p.domain, Categorical) for p in space.parameters])

    def value(config: dict[str, Any]) -> float:
        distance = np.abs(space.encode(space.point(config)) - targets)
        return float(np.nansum(np.where(categorical, 0.3 * distance, weights * distance**2)))

    best = space.path_of(space.mask(targets[None])[0])
    return Objective("deep", space, value, 0.0, lambda config: space.path(space.point(config)) == best)


def rkhs() -> Objective:
    """The one-dimensional function of Assael et al. 2014: two length-scales, ten times apart; negated, to be minimised.

    A broad summit near 0.08 is the trap; the optimum at 0.892 is 0.01 wide.
    """
    wide = np.array([[0.10, 4], [0.15, -1], [0.08, 2], [0.30, -2], [0.40, 1]])
    narrow = np.array(
        [
            [0.80, 3], [0.85, 4], [0.90, 2], [0.95, 1], [0.92, -1], [0.74, 2], [0.91, 2],
            [0.89, 3], [0.79, 3], [0.88, 2], [0.86, -1], [0.96, -2], [0.99, 4], [0.82, -3],
        ]
    )  # fmt: skip

    def value(config: dict[str, Any]) -> float:
        parts = ((wide, 0.1), (narrow, 0.01))
        return -float(sum(np.sum(k[:, 1] * np.exp(-((config["x"] - k[:, 0]) ** 2) / (2 * width**2))) for k, width in parts))

    return Objective("rkhs", Space({"x": Float(0.0, 1.0)}), value, -5.738393747, lambda config: abs(config["x"] - 0.892) < 0.01)


def gramacy() -> Objective:
    """x exp(-x^2 - y^2) on [-2, 6]^2 (Gramacy 2005): a bump and a hole in one corner of a plain."""

    def value(config: dict[str, Any]) -> float:
        return float(config["x"] * math.exp(-(config["x"] ** 2) - config["y"] ** 2))

    space = Space({"x": Float(-2.0, 6.0), "y": Float(-2.0, 6.0)})
    return Objective("gramacy", space, value, -1.0 / math.sqrt(2.0 * math.e), lambda config: config["x"] < 0)


class HGPDraw:
    """A draw from a hierarchical Gaussian process on [0, 10] (Moss et al. 2020, section 4): to be maximised.

    The paper leaves the target's variance and the length-scales open; its figure suggests 0.25 and 1.

    Args:
        number: which draw.
        deviation: variance of a realization around the target (V).
        noise: variance of an evaluation's noise.
    """

    POINTS = 400

    def __init__(self, number: int, deviation: float, noise: float = 1e-4) -> None:
        self.number, self.deviation, self.noise = number, deviation, noise
        self.space = Space({"x": Float(0.0, 10.0)})
        self.grid = np.linspace(0.0, 10.0, self.POINTS)
        r = math.sqrt(5.0) * np.abs(self.grid[:, None] - self.grid[None, :])
        self._factor = np.linalg.cholesky((1.0 + r + r**2 / 3.0) * np.exp(-r) + 1e-10 * np.eye(self.POINTS))
        self.target = 0.5 * self._factor @ np.random.default_rng([number, 0]).normal(size=self.POINTS)
        self._realizations: dict[int, np.ndarray] = {}

    def __call__(self, config: dict[str, Any], seed: int) -> float:
        """The value on a realization, with noise that the realization and the place decide."""
        if seed not in self._realizations:
            drawn = np.random.default_rng([self.number, 1, seed]).normal(size=self.POINTS)
            self._realizations[seed] = self.target + math.sqrt(self.deviation) * self._factor @ drawn
        x = float(config["x"])
        noise = np.random.default_rng([self.number, 2, seed, int(x * 1e9)]).normal()
        return float(np.interp(x, self.grid, self._realizations[seed]) + math.sqrt(self.noise) * noise)

    def regret(self, config: dict[str, Any]) -> float:
        """How far the target is from its maximum at a configuration."""
        return float(self.target.max() - np.interp(float(config["x"]), self.grid, self.target))
