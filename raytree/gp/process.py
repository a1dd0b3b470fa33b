"""A Gaussian process before it has seen any data: a kernel, weights on features, means.

    f(x) = m_p + g(x) + z(x)' c,    g ~ GP(0, K),    c ~ N(0, S)

Rows belong to paths, paths to blocks; the kernel K is 0 between blocks. What data make of it is in `gp.posterior`. A model is a
kernel, and whatever of the other parts it needs.

Notation: n and m rows, d coordinates, D weights, D_p of them on path p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from raytree.gp.linalg import Array

Key = tuple[int, ...]
"""A path or a block."""


class Kernel(Protocol):
    """A covariance function with its hyperparameters. X are the inputs (n, c) that a block sees of rows."""

    def inputs(self, block: Key, rows: Array) -> Array:
        """(n, c) what the kernel sees of rows (n, d) of a block."""
        ...

    def matrix(self, block: Key, a: Array, b: Array) -> Array:
        """(n, m) covariances of inputs a (n, c) and b (m, c)."""
        ...

    def diagonal(self, block: Key, X: Array) -> Array:
        """(n,) the variance of each."""
        ...

    def noise(self, block: Key, X: Array) -> Array:
        """(n,) the variance of evaluations around the function."""
        ...

    def gradient(self, block: Key, X: Array, x: Array) -> tuple[Array, Array]:
        """Covariances (n,) of inputs X (n, c) with one x (c,), and their derivatives (n, k) by the `coordinates` of its row."""
        ...

    def coordinates(self, block: Key) -> np.ndarray:
        """(k,) the coordinates of a row that a block's kernel can be differentiated by."""
        ...

    def signature(self, block: Key) -> bytes:
        """All hyperparameters that a block's covariances depend on: equal ones make equal matrices."""
        ...


class PathFeatures(Protocol):
    """The features z of the weights that are on one path."""

    @property
    def columns(self) -> np.ndarray:
        """(D_p,) which weights."""
        ...

    def values(self, rows: Array) -> Array:
        """(m, D_p) features of rows."""
        ...

    def with_slopes(self, row: Array) -> tuple[Array, list[Array]]:
        """(D_p,) features of one row, and what `pull_back` needs of their derivatives."""
        ...

    def pull_back(self, slopes: list[Array], by_feature: Array, out: Array) -> None:
        """Adds to `out` (d,) the derivatives by coordinates that derivatives (D_p,) by features imply."""
        ...


class FeatureMap(Protocol):
    """The features of every path."""

    def on(self, path: Key) -> PathFeatures: ...

    def matrix(self, paths: Sequence[Key], rows: Array) -> Array:
        """(p, m, D) features of rows (p, m, d) on several paths."""
        ...


class NoFeatures:
    """A model without weights."""

    columns = np.empty(0, dtype=int)

    def on(self, path: Key) -> PathFeatures:
        return self

    def matrix(self, paths: Sequence[Key], rows: Array) -> Array:
        return np.empty((*rows.shape[:2], 0))

    def values(self, rows: Array) -> Array:
        return np.empty((len(rows), 0))

    def with_slopes(self, row: Array) -> tuple[Array, list[Array]]:
        return np.empty(0), []

    def pull_back(self, slopes: list[Array], by_feature: Array, out: Array) -> None:
        pass


@dataclass(frozen=True)
class Process:
    """A Gaussian process before it has seen any data.

    Args:
        kernel: of the function g.
        d: coordinates of a row; one more behind them is its fidelity, if `fidelities`.
        fidelities: whether rows have a fidelity; those without are meant at the posterior's target.
        whole: whether all paths are one block.
        features: of the weights.
        variance: (D,) of the weights.
        means: m_p by path, 0 elsewhere.
        level: added to every mean.
    """

    kernel: Kernel
    d: int
    fidelities: bool = False
    whole: bool = False
    features: FeatureMap = field(default_factory=NoFeatures)
    variance: Array = field(default_factory=lambda: np.empty(0))
    means: dict[Key, float] = field(default_factory=dict)
    level: float = 0.0

    def block_of(self, path: Key) -> Key:
        return () if self.whole else path

    def mean(self, path: Key) -> float:
        return self.level + self.means.get(path, 0.0)
