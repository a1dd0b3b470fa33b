"""The linear part of the tree model: which weights c are on a path, and their features z (section 2 of Jenatton et al. 2017).

Weights come in blocks that share one prior variance:

- the root, on every path;
- one weight per (decision, cell) edge, the last edge included, so that sibling leaves can be told apart (ours); or, as in the
  paper, one per inner node (`weights="nodes"`);
- functions of the shared parameters (section 2.4): one-hot for categories, and for numbers either a linear function, random
  Fourier features (supplement, section 3), or Legendre polynomials (ours: smooth, deterministic, exact for low degrees).

Notation: D weights; z (m, D_p) the features of m rows on path p, for the D_p weights on that path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from raytree.errors import SettingError
from raytree.gp.linalg import Array
from raytree.space import Categorical, Path, Space

DEGREE = 8
"""Of the polynomials; halved where there are more than 16 shared parameters."""
GAMMAS = (0.1, 1.0, 10.0)
FOURIER = 25
"""Supplement, section 3: three squared length-scales, 25 features each."""

_DERIVATIVES = legendre.legder(np.eye(DEGREE + 1))
"""(k, l): the share of the k-th polynomial in the derivative of the l-th."""

ROOT, EDGE, SHARED = 0, 1, 2


class Basis(NamedTuple):
    """Functions of one shared parameter. `order` (k,) is the degree of each, for priors that decay with it."""

    parameter: int
    kind: str
    order: np.ndarray
    frequencies: np.ndarray
    phases: np.ndarray

    def values(self, u: Array) -> Array:
        """(m, k) features at units u (m,)."""
        if self.kind == "onehot":
            n = len(self.order)
            return (np.minimum((u * n).astype(int), n - 1)[:, None] == np.arange(n)).astype(float)
        if self.kind == "fourier":  # norm one in expectation: three blocks of R features are summed
            return np.sqrt(2.0 / len(self.order)) * np.cos(u[:, None] * self.frequencies + self.phases)
        return legendre.legvander(2.0 * u - 1.0, int(self.order[-1]))[:, 1:]

    def slopes(self, u: Array) -> Array:
        """(m, k) derivatives of the features."""
        if self.kind == "onehot":
            return np.zeros((len(u), len(self.order)))
        if self.kind == "fourier":
            scale = -np.sqrt(2.0 / len(self.order)) * self.frequencies
            return scale * np.sin(u[:, None] * self.frequencies + self.phases)
        degree = int(self.order[-1])
        return 2.0 * legendre.legvander(2.0 * u - 1.0, degree - 1) @ _DERIVATIVES[:degree, 1 : degree + 1]


@dataclass(frozen=True)
class PathFeatures:
    """The weights on one path: `columns` (D_p,) their positions among all, `bases` with where each begins in z."""

    columns: np.ndarray
    bases: tuple[tuple[int, Basis], ...]

    def values(self, rows: Array) -> Array:
        """(m, D_p) features of rows on the path."""
        z = np.ones((len(rows), len(self.columns)))
        for start, basis in self.bases:
            z[:, start : start + len(basis.order)] = basis.values(rows[:, basis.parameter])
        return z

    def slopes(self, row: Array) -> dict[int, tuple[slice, Array]]:
        """For each shared parameter: the slice of z that depends on it, and the derivative of that slice."""
        return {
            basis.parameter: (slice(start, start + len(basis.order)), basis.slopes(row[None, basis.parameter])[0])
            for start, basis in self.bases
            if basis.kind != "onehot"
        }


class Features:
    """All weights of a space.

    Args:
        space: the search space.
        shared: "smooth", "linear", "fourier", or "none".
        weights: "edges", "nodes" (the paper), or "none".
        seed: of the Fourier features.
    """

    def __init__(self, space: Space, shared: str = "smooth", weights: str = "edges", seed: int = 0) -> None:
        if shared not in ("smooth", "linear", "fourier", "none"):
            raise SettingError("shared", f"must be 'smooth', 'linear', 'fourier' or 'none', got {shared!r}.")
        if weights not in ("edges", "nodes", "none"):
            raise SettingError("weights", f"must be 'edges', 'nodes' or 'none', got {weights!r}.")
        self.space, self.shared, self.weights = space, shared, weights
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
        self.group = np.array(groups, dtype=int)
        self.parameter = np.array(parameters, dtype=int)
        self.order = np.array(orders, dtype=float)
        self._paths: dict[Path, PathFeatures] = {}

    @property
    def D(self) -> int:
        return len(self.group)

    def _basis(self, i: int, degree: int, seed: int) -> Basis:
        domain = self.space.parameters[i].domain
        none = np.empty(0)
        if isinstance(domain, Categorical):
            return Basis(i, "onehot", np.zeros(len(domain.choices)), none, none)
        if self.shared == "linear":
            return Basis(i, "legendre", np.array([1.0]), none, none)
        if self.shared == "smooth":
            return Basis(i, "legendre", np.arange(1.0, degree + 1), none, none)
        rng = np.random.default_rng([seed, 3, i])
        # Entries of variance 1 / gamma: gamma plays the role of the squared length-scale.
        frequencies = np.concatenate([rng.normal(0.0, 1.0 / np.sqrt(gamma), FOURIER) for gamma in GAMMAS])
        return Basis(i, "fourier", np.zeros(3 * FOURIER), frequencies, rng.uniform(0.0, 2 * np.pi, 3 * FOURIER))

    def label(self, column: int) -> str:
        """The name of an edge or node."""
        j, cell = next(edge for edge, at in self._edges.items() if at == column)
        name = self.space.parameters[j].name
        return f"{name}={self.space.cells[j].labels[cell]}" if self.weights == "edges" else name

    def on(self, path: Path) -> PathFeatures:
        """The weights of a path."""
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = self._build(path)
        return found

    def _build(self, path: Path) -> PathFeatures:
        columns = [0] if self.weights != "none" else []
        for j, cell in self.space.cell_of(path).items():
            if self.weights != "none":
                columns.append(self._edges[j, cell if self.weights == "edges" else 0])
        bases = []
        for i in self.space.free(path):
            if i in self._bases:
                start, basis = self._bases[i]
                bases.append((len(columns), basis))
                columns += range(start, start + len(basis.order))
        return PathFeatures(np.array(columns, dtype=int), tuple(bases))
