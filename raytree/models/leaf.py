"""The kernel of a leaf of the tree model, at its hyperparameters: Matern-5/2, times a context kernel where rows have a fidelity.

Leaves share length-scales and noise; each has an amplitude (see `models.tree`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from raytree.gp.context import Context, early
from raytree.gp.kernels import distances, matern52, matern52_alone
from raytree.gp.linalg import Array
from raytree.space import Path, Space


@dataclass(frozen=True)
class Settings:
    """What kind of tree model. The defaults are ours; `paper()` has the paper's.

    Args:
        leaf: dimensions of a leaf's kernel: "alive" (all that vary on the path) or "own" (those not shared; the paper).
        tied: whether leaves share hyperparameters; otherwise each has its own.
        offsets: whether each visited leaf has an offset b_p, estimated.
        context: of `gp.context`, for rows with a fidelity.
    """

    leaf: str = "alive"
    tied: bool = True
    offsets: bool = False
    context: str = "quadratic"


def kernel_dims(space: Space, path: Path, settings: Settings) -> tuple[int, ...]:
    """The dimensions of a leaf's kernel."""
    return tuple(i for i in space.free(path) if settings.leaf == "alive" or i not in space.shared)


class Hyperparameters(NamedTuple):
    """Theta unpacked: natural scale, by parameter and path; priors' means where nothing was learnt."""

    noise: float
    amplitude: dict[Path, float]
    common_amplitude: float
    inverse_squared_length: Array  # (d,)
    weight_variance: Array  # (D,)
    offset: dict[Path, float]
    context: Array  # parameters of the context kernel
    early_noise: float

    def noise_at(self, fidelity: Array) -> Array:
        """The variance of evaluations around the function: of complete ones, the noise alone."""
        return self.noise + self.early_noise * early(fidelity)


@dataclass(frozen=True)
class LeafKernel:
    """The kernel of every leaf, of paths that were never visited too: Matern-5/2 on the leaf's dimensions, times the context.

    Inputs are the columns of the leaf's dimensions, and the fidelity if there is one.

    Args:
        space: the search space.
        settings: which variant.
        h: hyperparameters.
        categorical: (d,) which coordinates have no order.
        context: between fidelities, if rows have them.
        dims: by path, its dimensions as far as they are known.
    """

    space: Space
    settings: Settings
    h: Hyperparameters
    categorical: np.ndarray
    context: Context | None
    dims: dict[Path, np.ndarray]

    def coordinates(self, block: Path) -> np.ndarray:
        found = self.dims.get(block)
        if found is None:
            found = self.dims[block] = np.array(kernel_dims(self.space, block, self.settings), dtype=int)
        return found

    def amplitude(self, block: Path) -> float:
        """The prior variance of a leaf's function."""
        return self.h.amplitude.get(block, self.h.common_amplitude)

    @cached_property
    def _common(self) -> bytes:
        """The hyperparameters that all leaves have in common."""
        h = self.h
        return np.concatenate([[h.noise, h.early_noise], h.context, h.inverse_squared_length]).tobytes()

    def signature(self, block: Path) -> bytes:
        return self._common + struct.pack("d", self.amplitude(block))

    def inputs(self, block: Path, rows: Array) -> Array:
        dims = self.coordinates(block)
        return rows[:, dims] if self.context is None else rows[:, np.append(dims, self.space.d)]

    def matrix(self, block: Path, a: Array, b: Array) -> Array:
        dims = self.coordinates(block)
        inverse, unordered = self.h.inverse_squared_length[dims], self.categorical[dims]
        k = matern52_alone(distances(a[:, : len(dims)], b[:, : len(dims)], inverse, unordered))
        factor: float | Array = self.amplitude(block)
        if self.context is not None:
            factor = factor * self.context(self.h.context, a[:, -1], b[:, -1])
        return factor * k

    def diagonal(self, block: Path, X: Array) -> Array:
        variance = np.full(len(X), self.amplitude(block))
        return variance if self.context is None else variance * self.context.diagonal(self.h.context, X[:, -1])

    def noise(self, block: Path, X: Array) -> Array:
        return np.full(len(X), self.h.noise) if self.context is None else self.h.noise_at(X[:, -1])

    def gradient(self, block: Path, X: Array, x: Array) -> tuple[Array, Array]:
        dims = self.coordinates(block)
        factor: float | Array = self.amplitude(block)
        if self.context is not None:
            factor = factor * self.context(self.h.context, X[:, -1], x[-1:])[:, 0]
        difference, categorical = X[:, : len(dims)] - x[: len(dims)], self.categorical[dims]
        if categorical.any():
            difference[:, categorical] = np.abs(difference[:, categorical]) > 1e-9
        scaled = difference * self.h.inverse_squared_length[dims]
        k, slope = matern52(np.sum(difference * scaled, axis=1))
        scaled[:, categorical] = 0.0
        return factor * k, (factor * slope)[:, None] * scaled
