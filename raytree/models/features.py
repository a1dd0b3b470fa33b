"""The linear part of the tree model: which weights c are on a path, and their features z (section 2 of Jenatton et al. 2017).

Weights come in blocks that share one prior variance:

- the root, on every path;
- one weight per (decision, cell) edge, the last edge included, so that sibling leaves can be told apart (ours); or, as in the
  paper, one per inner node (`weights="nodes"`);
- functions of the shared parameters (section 2.4): one-hot for categories, and for numbers either a linear function, random
  Fourier features (supplement, section 3), or Legendre polynomials (ours: smooth, deterministic, exact for low degrees);
- a curve of the fidelity (section 5), if rows have one: their last column, behind those of the space.

Notation: D weights; z (m, D_p) the features of m rows on path p, for the D_p weights on that path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.polynomial import legendre

from raytree.errors import SettingError
from raytree.gp.context import TRENDS, trend
from raytree.gp.linalg import Array
from raytree.space import Categorical, Path, Space
from raytree.space.parameters import Domain
from raytree.space.tree import MOST_REMEMBERED

DEGREE = 8
"""Of the polynomials; halved where there are more than 16 shared parameters."""
GAMMAS = (0.1, 1.0, 10.0)
FOURIER = 25
"""Supplement, section 3: three squared length-scales, 25 features each."""

_COEFFICIENTS = np.array([[*legendre.leg2poly(row[: k + 1]), *row[k + 1 :]] for k, row in enumerate(np.eye(DEGREE + 1))]).T
"""(k, l): the coefficient of the k-th power in the l-th polynomial."""
_DERIVATIVES = 2.0 * legendre.legder(np.eye(DEGREE + 1))
"""(k, l): the share of the k-th polynomial in the derivative of the l-th by a unit, which is half of its argument."""

ROOT, EDGE, SHARED, TREND = 0, 1, 2, 3


def is_unordered(domain: Domain) -> TypeGuard[Categorical]:
    """Whether a domain has categories between which there is nothing: ordered ones are numbers."""
    return isinstance(domain, Categorical) and not domain.ordered


class Basis(NamedTuple):
    """Functions of one shared parameter: k one-hot, Fourier or polynomial ones; `order` (k,) for priors that decay with it."""

    parameter: int
    order: np.ndarray
    onehot: bool
    frequencies: np.ndarray | None
    phases: np.ndarray | None


@dataclass(frozen=True)
class Group:
    """The bases of one kind on a path, which stand side by side in z from `start` on, k features each."""

    start: int
    bases: tuple[Basis, ...]

    @cached_property
    def parameters(self) -> np.ndarray:
        return np.array([basis.parameter for basis in self.bases])

    @property
    def k(self) -> int:
        return len(self.bases[0].order)

    @property
    def stop(self) -> int:
        return self.start + self.k * len(self.bases)

    @cached_property
    def _waves(self) -> tuple[Array, Array]:
        return np.array([basis.frequencies for basis in self.bases]), np.array([basis.phases for basis in self.bases])

    def values(self, u: Array) -> Array:
        """(m, g, k) features of g parameters at units u (m, g)."""
        if self.bases[0].onehot:
            found: Array = (np.minimum((u * self.k).astype(int), self.k - 1)[..., None] == np.arange(self.k)).astype(float)
        elif self.bases[0].frequencies is not None:  # norm one in expectation: three blocks of R features are summed
            frequencies, phases = self._waves
            found = np.sqrt(2.0 / self.k) * np.cos(u[..., None] * frequencies + phases)
        else:
            found = _legendre(2.0 * u - 1.0, self.k)[..., 1:]
        return found

    def with_slopes(self, u: Array) -> tuple[Array, Array]:
        """(g, k) features and their derivatives at u (g,)."""
        if self.bases[0].onehot:
            return self.values(u), np.zeros((len(u), self.k))
        if self.bases[0].frequencies is not None:
            frequencies, phases = self._waves
            return self.values(u), -np.sqrt(2.0 / self.k) * frequencies * np.sin(u[:, None] * frequencies + phases)
        polynomials = _legendre(2.0 * u - 1.0, self.k)
        return polynomials[:, 1:], polynomials[:, : self.k] @ _DERIVATIVES[: self.k, 1 : self.k + 1]


def _legendre(x: Array, degree: int) -> Array:
    """(..., degree + 1) Legendre polynomials; of so low a degree their coefficients lose nothing."""
    powers = np.ones((*x.shape, degree + 1))
    powers[..., 1:] = x[..., None]
    return np.asarray(np.multiply.accumulate(powers, axis=-1) @ _COEFFICIENTS[: degree + 1, : degree + 1])


@dataclass(frozen=True)
class PathFeatures:
    """The weights on one path: `columns` (D_p,) their positions among all, `groups` the functions of shared parameters.

    With `fidelity` rows have it as their last column, and the last features are its curve's.
    """

    columns: np.ndarray
    groups: tuple[Group, ...]
    fidelity: bool = False

    def values(self, rows: Array) -> Array:
        """(m, D_p) features of rows on the path."""
        z = np.ones((len(rows), len(self.columns)))
        for group in self.groups:
            z[:, group.start : group.stop] = group.values(rows[:, group.parameters]).reshape(len(rows), -1)
        if self.fidelity:
            z[:, -TRENDS:] = trend(rows[:, -1])
        return z

    def with_slopes(self, row: Array) -> tuple[Array, list[Array]]:
        """(D_p,) features of one row, and for each group the derivatives (g, k) of its features."""
        z, slopes = np.ones(len(self.columns)), []
        for group in self.groups:
            values, slope = group.with_slopes(row[group.parameters])
            z[group.start : group.stop] = values.ravel()
            slopes.append(slope)
        if self.fidelity:
            z[-TRENDS:] = trend(row[-1])
        return z, slopes

    def pull_back(self, slopes: list[Array], by_feature: Array, out: Array) -> None:
        """Adds to `out` (d,) the derivatives by coordinates that derivatives (D_p,) by features imply."""
        for group, slope in zip(self.groups, slopes, strict=True):
            out[group.parameters] += np.sum(by_feature[group.start : group.stop].reshape(slope.shape) * slope, axis=1)


class Features:
    """All weights of a space.

    Args:
        space: the search space.
        shared: "smooth", "linear", "fourier", or "none".
        weights: "edges", "nodes" (the paper), or "none".
        seed: of the Fourier features.
        fidelity: whether rows have a fidelity.
    """

    def __init__(
        self, space: Space, shared: str = "smooth", weights: str = "edges", seed: int = 0, fidelity: bool = False
    ) -> None:
        if shared not in ("smooth", "linear", "fourier", "none"):
            raise SettingError("shared", f"must be 'smooth', 'linear', 'fourier' or 'none', got {shared!r}.")
        if weights not in ("edges", "nodes", "none"):
            raise SettingError("weights", f"must be 'edges', 'nodes' or 'none', got {weights!r}.")
        self.space, self.shared, self.weights, self.fidelity = space, shared, weights, fidelity
        self._bases: dict[int, tuple[int, Basis]] = {}
        self._edges: dict[tuple[int, int], int] = {}
        groups = [ROOT] if weights != "none" else []
        parameters = [-1] if weights != "none" else []
        orders = [0] if weights != "none" else []
        for j in space.decisions if weights != "none" else ():
            for cell in range(len(space.cells[j]) if weights == "edges" else 1):
                self._edges[j, cell] = len(groups)
                groups.append(EDGE)
                parameters.append(j)
                orders.append(0)
        chosen = sorted(space.shared) if shared != "none" else []
        degree = DEGREE if len(chosen) <= 16 else DEGREE // 2
        for i in chosen:
            basis = self._basis(i, degree, seed)
            self._bases[i] = (len(groups), basis)
            groups += [SHARED] * len(basis.order)
            parameters += [i] * len(basis.order)
            orders += basis.order.tolist()
        if fidelity:
            groups += [TREND] * TRENDS
            parameters += [-1] * TRENDS
            orders += [0] * TRENDS
        self.group = np.array(groups, dtype=int)
        self.parameter = np.array(parameters, dtype=int)
        self.order = np.array(orders, dtype=float)
        self._paths: dict[Path, PathFeatures] = {}

    @property
    def D(self) -> int:
        return len(self.group)

    def _basis(self, i: int, degree: int, seed: int) -> Basis:
        domain = self.space.parameters[i].domain
        if is_unordered(domain):
            return Basis(i, np.zeros(len(domain.choices)), True, None, None)
        if self.shared in ("linear", "smooth"):
            return Basis(i, np.arange(1.0, 2.0 if self.shared == "linear" else degree + 1), False, None, None)
        rng = np.random.default_rng([seed, 3, i])
        # Entries of variance 1 / gamma: gamma plays the role of the squared length-scale.
        frequencies = np.concatenate([rng.normal(0.0, 1.0 / np.sqrt(gamma), FOURIER) for gamma in GAMMAS])
        return Basis(i, np.zeros(3 * FOURIER), False, frequencies, rng.uniform(0.0, 2 * np.pi, 3 * FOURIER))

    def label(self, column: int) -> str:
        """The name of an edge or node."""
        j, cell = next(edge for edge, at in self._edges.items() if at == column)
        name = self.space.parameters[j].name
        return f"{name}={self.space.cells[j].labels[cell]}" if self.weights == "edges" else name

    def on(self, path: Path) -> PathFeatures:
        """The weights of a path."""
        found = self._paths.get(path)
        if found is None:
            if len(self._paths) >= MOST_REMEMBERED:
                self._paths.clear()
            found = self._paths[path] = self._build(path)
        return found

    def matrix(self, paths: Sequence[Path], rows: Array) -> Array:
        """(p, m, D) features of rows (p, m, d) on several paths, 0 for the weights that a path does not have."""
        present = np.zeros((len(paths), self.D), dtype=bool)
        for k, path in enumerate(paths):
            present[k, self.on(path).columns] = True
        z = np.repeat(present[:, None, :], rows.shape[1], axis=1).astype(float)
        for i, (start, basis) in self._bases.items():
            on = present[:, start]
            z[on, :, start : start + len(basis.order)] = Group(0, (basis,)).values(rows[on, :, i, None])[..., 0, :]
        if self.fidelity:
            z[..., -TRENDS:] = trend(rows[..., -1].ravel()).reshape(*rows.shape[:2], TRENDS)
        return z

    def _build(self, path: Path) -> PathFeatures:
        columns = [0] if self.weights != "none" else []
        for j, cell in self.space.cell_of(path).items():
            if self.weights != "none":
                columns.append(self._edges[j, cell if self.weights == "edges" else 0])
        alike: dict[tuple[bool, int], list[int]] = {}
        for i in self.space.free(path):
            if i in self._bases:
                basis = self._bases[i][1]
                alike.setdefault((basis.onehot, len(basis.order)), []).append(i)
        groups = []
        for members in alike.values():
            groups.append(Group(len(columns), tuple(self._bases[i][1] for i in members)))
            for i in members:
                start, basis = self._bases[i]
                columns += range(start, start + len(basis.order))
        if self.fidelity:
            columns += range(self.D - TRENDS, self.D)
        return PathFeatures(np.array(columns, dtype=int), tuple(groups), self.fidelity)
