"""The tree-structured Gaussian process of Jenatton et al. 2017, section 2: a GP per leaf, weights c that join them.

    c ~ N(0, S),   g_p ~ GP(b_p, K_p),   y_i ~ N(g_{p_i}(x_i) + z_i' c, s2)                     (1)

Everything is computed leaf by leaf: M_p = K_p + s2 I is factorised alone, and the leaves meet only in the D x D matrix
Lambda = inv(S) + sum_p Z_p inv(M_p) Z_p', so that time is O(D^3 + sum_p (n_p^3 + n_p^2 D)) and no n x n matrix exists.

Hyperparameters theta (all logarithms, MAP): noise, leaf amplitude and length-scales, variances of the weights. Leaves share
them, but for a deviation per leaf amplitude and per length-scale that is shrunk towards 0 (ours: a leaf with two points
borrows from the others, one with fifty has its own). With `offsets=True` also b_p per leaf, as in the paper.

Rows may have a fidelity behind the columns of the space: leaf kernels are then multiplied by a context kernel (section 5 of the
paper, `gp.context`), and a curve of the fidelity is on every path.

Notation: n observations on P visited paths, n_p on path p, d_p its kernel's dimensions; columns of z as in `features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.context import CONTEXTS, HAZE, Context, hazy
from raytree.gp.inference import Found, Member, ensemble
from raytree.gp.inference import fit as map_fit
from raytree.gp.linalg import Array
from raytree.gp.priors import normal
from raytree.models.features import EDGE, ROOT, SHARED, TREND, Features, is_unordered
from raytree.models.leaves import Stack
from raytree.models.tree_posterior import TreePosterior
from raytree.space import Path, Space

NOISE_FLOOR = 1e-12  # variance, in standardised units
NOISY = 0.3
"""The variance of the noise that a second fit begins with."""
_LOG_2PI = np.log(2.0 * np.pi)
_SMALL = (2, 4, 8, 16, 32, 64)  # leaves up to these sizes are stacked; larger ones stand alone


class Prior(NamedTuple):
    """A normal prior on a log-parameter, and its bounds."""

    mean: float
    sd: float
    low: float
    high: float


# Variances are in units of the standardised losses; lengths in units of the cube.
PRIORS = {
    "noise": Prior(np.log(1e-9), 8.0, np.log(NOISE_FLOOR), 2.0),
    "amplitude": Prior(0.0, 1.5, -8.0, 10.0),
    "amplitude_p": Prior(0.0, 0.7, -4.0, 4.0),
    "length": Prior(0.0, 1.2, np.log(0.01), np.log(100.0)),
    "length_shared": Prior(np.log(4.0), 2.0, np.log(0.02), np.log(300.0)),
    "length_category": Prior(np.log(0.7), 0.5, np.log(0.02), np.log(300.0)),
    "length_i": Prior(0.0, 1.0, -4.0, 4.0),
    "edge": Prior(-2.0, 1.5, -10.0, 6.0),
    "shared": Prior(-1.0, 1.5, -12.0, 8.0),
    "decay": Prior(-1.5, 1.0, -6.0, 0.0),
    "offset": Prior(0.0, 1.0, -5.0, 5.0),
    "trend": Prior(0.0, 1.5, -10.0, 6.0),
    "haze": Prior(*HAZE),
}
ROOT_VARIANCE = 1.0
TIGHT = 0.05
"""The prior deviation of a leaf's log-amplitude from the common one while few rows speak of it: an estimate of two numbers
takes their noise at face value."""
HALF_LOOSE = 40.0
"""After so many rows a leaf's deviation has half of the deviation in `PRIORS`."""
UNTIED = 1.5
"""The prior deviation where leaves share nothing."""


def length_kind(space: Space, i: int) -> str:
    """Which length-scale a parameter has in common with others.

    Two categories are a whole unit apart, and nothing lies between them: what suits numbers, which may be long, would make them
    all alike, and one that was tried in a bad place would be given up.
    """
    if is_unordered(space.parameters[i].domain):
        return "length_category"
    return "length_shared" if i in space.shared else "length"


@dataclass(frozen=True)
class Settings:
    """What kind of tree model. The defaults are ours; `paper()` has the paper's.

    Args:
        leaf: dimensions of a leaf's kernel: "alive" (all that vary on the path) or "own" (those not shared; the paper).
        tied: whether leaves share hyperparameters; otherwise each has its own.
        offsets: whether each visited leaf has an offset b_p, estimated.
        context: of `gp.context`, for rows with a fidelity.
        improvement: "known" or "plain", see `acquisition.improvement`.
    """

    leaf: str = "alive"
    tied: bool = True
    offsets: bool = False
    context: str = "quadratic"
    improvement: str = "known"


class _Layout:
    """Where each hyperparameter is in theta, for the visited paths."""

    def __init__(self, space: Space, features: Features, counts: dict[Path, int], settings: Settings) -> None:
        paths = list(counts)
        names: list[tuple[str, object]] = [("noise", None), ("amplitude", None)]
        self.dims = {path: self.kernel_dims(space, path, settings) for path in paths}
        used = sorted({i for dims in self.dims.values() for i in dims})
        self.kind = {i: length_kind(space, i) for i in used}
        names += [(kind, None) for kind in sorted(set(self.kind.values()))]
        names += [("length_i", i) for i in used]
        if len(paths) > 1:
            names += [("amplitude_p", path) for path in paths]
        columns = np.unique(np.concatenate([features.on(path).columns for path in paths] or [np.empty(0, int)])).astype(int)
        self.columns = columns
        group = features.group[columns]
        if (group == EDGE).any():
            names.append(("edge", None))
        shared = sorted(set(features.parameter[columns][group == SHARED].tolist()))
        names += [("shared", i) for i in shared]
        if (features.order[columns] > 1).any():
            names.append(("decay", None))
        if settings.offsets:
            names += [("offset", path) for path in paths]
        context = CONTEXTS[settings.context].parameters if features.fidelity else ()
        if context:
            names += [("trend", None), ("haze", None)]
        priors = [PRIORS[kind] for kind, _ in names] + [Prior(*parameter) for parameter in context]
        names += [("context", k) for k in range(len(context))]
        self.names = names
        self.at = {name: k for k, name in enumerate(names)}
        self.mean = np.array([p.mean for p in priors])
        width = np.mean([len(dims) for dims in self.dims.values()]) if self.dims else 1.0
        for k, (kind, _) in enumerate(names):
            if kind == "length":  # distances grow with the root of the dimension (Hvarfner et al. 2024)
                self.mean[k] += 0.5 * np.log(max(1.0, float(width)))
        self.sd = np.array([p.sd for p in priors])
        for k, (kind, which) in enumerate(names):
            if kind in ("amplitude_p", "length_i") and not settings.tied:
                self.sd[k] = UNTIED
            elif kind == "amplitude_p":
                n = counts[which]  # type: ignore[index]
                self.sd[k] = max(TIGHT, self.sd[k] * n / (n + HALF_LOOSE))
        self.bounds = np.array([(p.low, p.high) for p in priors]).reshape(-1, 2)

    @staticmethod
    def kernel_dims(space: Space, path: Path, settings: Settings) -> tuple[int, ...]:
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
    haze: float

    def noise_at(self, fidelity: Array) -> Array:
        """The variance of evaluations around the function: of complete ones, the noise alone."""
        return self.noise + self.haze * hazy(fidelity)


class TreeModel:
    """The model on one data set.

    Args:
        space: the search space.
        features: the weights.
        rows: (n, d) rows, or (n, d + 1) with a fidelity if the features have one.
        y: (n,) standardised losses.
        paths: n paths.
        settings: which variant.
    """

    def __init__(
        self, space: Space, features: Features, rows: Array, y: Array, paths: Sequence[Path], settings: Settings | None = None
    ) -> None:
        settings = settings or Settings()
        self.space, self.features, self.settings = space, features, settings
        self.rows, self.y = rows, y
        self.context: Context | None = CONTEXTS[settings.context] if features.fidelity else None
        members: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            members.setdefault(path, []).append(k)
        self.members = {path: np.array(index) for path, index in members.items()}
        self.layout = _Layout(space, features, {path: len(index) for path, index in self.members.items()}, settings)
        self._dims: dict[Path, np.ndarray] = {}
        self.categorical = np.array([is_unordered(p.domain) for p in space.parameters], dtype=bool)

    def kernel_dims(self, path: Path) -> np.ndarray:
        """The dimensions of a leaf's kernel, of a path that was never visited too."""
        found = self._dims.get(path)
        if found is None:
            found = self._dims[path] = np.array(self.layout.kernel_dims(self.space, path, self.settings), dtype=int)
        return found

    # Hyperparameters

    def start(self, previous: dict | None = None) -> Array:
        """(k,) theta to begin from: the last fit where it knows a parameter, the prior's mean elsewhere."""
        theta = self.layout.mean.copy()
        for k, name in enumerate(self.layout.names):
            if previous and name in previous:
                theta[k] = previous[name]
        return np.clip(theta, self.layout.bounds[:, 0], self.layout.bounds[:, 1])

    def named(self, theta: Array) -> dict:
        """Theta by name, to start the next fit from."""
        return dict(zip(self.layout.names, theta.tolist(), strict=True))

    def unpack(self, theta: Array) -> Hyperparameters:
        """Theta on its natural scale."""
        at = self.layout.at

        def value(kind: str, which: object = None) -> float:
            k = at.get((kind, which))
            return float(theta[k]) if k is not None else PRIORS[kind].mean

        lengths = np.array([value(length_kind(self.space, i)) + value("length_i", i) for i in range(self.space.d)])
        common = value("amplitude")
        group, parameter, order = self.features.group, self.features.parameter, self.features.order
        log_variance = np.zeros(self.features.D)
        log_variance[group == ROOT] = np.log(ROOT_VARIANCE)
        log_variance[group == EDGE] = value("edge")
        shared = np.flatnonzero(group == SHARED)
        by_parameter = {i: value("shared", i) for i in set(parameter[shared].tolist())}
        log_variance[shared] = [by_parameter[i] for i in parameter[shared].tolist()]
        log_variance[group == TREND] = value("trend")
        log_variance += value("decay") * np.maximum(order - 1.0, 0.0)
        context = [float(theta[at["context", k]]) for k in range(len(self.context.parameters))] if self.context else []
        return Hyperparameters(
            float(np.exp(value("noise"))),
            {path: float(np.exp(common + value("amplitude_p", path))) for path in self.members},
            float(np.exp(common)),
            np.exp(-2.0 * lengths),
            np.exp(log_variance),
            {path: value("offset", path) for path in self.members},
            np.array(context),
            float(np.exp(value("haze"))) if self.context else 0.0,
        )

    # Marginal likelihood

    @cached_property
    def _stacks(self) -> list[Stack]:
        groups: dict[int, list[Path]] = {}
        for path, index in self.members.items():
            size = next((s for s in _SMALL if len(index) <= s), 0)
            groups.setdefault(size if size else -len(groups) - 1000, []).append(path)
        return [Stack(self, paths) for _, paths in sorted(groups.items())]

    def negative_log_posterior(self, theta: Array) -> tuple[float, Array]:
        """Minus log P(y | theta) P(theta), up to a constant, and its gradient (k,)."""
        value, gradient = self.negative_log_likelihood(theta)
        penalty, slope = normal(theta, self.layout.mean, self.layout.sd)
        return value + penalty, gradient + slope

    def negative_log_likelihood(self, theta: Array) -> tuple[float, Array]:
        """Minus log P(y | theta), eq. (3), and its gradient (k,)."""
        at = self.layout.at
        h = self.unpack(theta)
        columns = self.layout.columns
        inverse_prior = 1.0 / h.weight_variance[columns]
        parts = [stack.factor(h) for stack in self._stacks]
        A = np.concatenate([part.A for part in parts])  # (rows, D): inv(L_p) Z_p'
        v = np.concatenate([part.v for part in parts])
        precision = A.T @ A
        precision[np.diag_indices_from(precision)] += inverse_prior  # Lambda_c
        L = linalg.cholesky(precision)
        f = linalg.solve_lower(L, A.T @ v)
        m = linalg.solve_upper(L, f)  # posterior mean of c
        value = 0.5 * (
            v @ v - f @ f + sum(part.log_det for part in parts) + linalg.log_det(L)
            - np.sum(np.log(inverse_prior)) + len(self.y) * _LOG_2PI
        )  # fmt: skip
        gradient = np.zeros(len(theta))
        residual = v - A @ m
        C = linalg.solve_lower(L, A.T).T  # (rows, D)
        begin = 0
        for stack, part in zip(self._stacks, parts, strict=True):
            end = begin + len(part.v)
            stack.add_gradient(gradient, at, h, part, residual[begin:end], C[begin:end])
            begin = end
        # By the log-variance of a weight: 1/2 s_j ((Z inv(K) Z')_jj - (Z alpha)_j^2), with Z alpha = inv(S) m.
        spread = linalg.solve_lower(L, np.diag(inverse_prior))
        by_weight = 0.5 * (1.0 - np.sum(spread**2, axis=0) / inverse_prior - inverse_prior * m**2)
        group, parameter = self.features.group[columns], self.features.parameter[columns]
        if ("edge", None) in at:
            gradient[at["edge", None]] = by_weight[group == EDGE].sum()
        if ("trend", None) in at:
            gradient[at["trend", None]] = by_weight[group == TREND].sum()
        for i in set(parameter[group == SHARED].tolist()):
            gradient[at["shared", i]] = by_weight[(group == SHARED) & (parameter == i)].sum()
        if ("decay", None) in at:
            gradient[at["decay", None]] = by_weight @ np.maximum(self.features.order[columns] - 1.0, 0.0)
        return float(value), gradient

    def fit(self, previous: dict | None = None, max_evaluations: int = 60) -> Array:
        """(k,) the MAP theta."""
        return self.best(previous, max_evaluations).theta

    def best(self, previous: dict | None, max_evaluations: int) -> Found:
        """The MAP theta and minus its log-posterior: the better one of `explanations`."""
        return min(self.explanations(previous, max_evaluations), key=lambda found: found.value)

    def explanations(self, previous: dict | None = None, max_evaluations: int = 60) -> list[Found]:
        """Two local optima (k,) of theta, each with minus its log-posterior: from a warm start, and from much noise.

        Where there is next to no noise the likelihood is flat in it, and a fit that begins there explains noise by short
        length-scales for good.
        """
        noisy = self.start()
        noisy[self.layout.at["noise", None]] = np.log(NOISY)
        return [
            map_fit(self.negative_log_posterior, start, self.layout.bounds, max_evaluations)
            for start in (self.start(previous), noisy)
        ]

    def ensemble(self, theta: Array, rng: np.random.Generator) -> list[Member]:
        """Likely thetas around the MAP (k,), see `gp.inference`: with noise and without, which are equally likely beforehand."""
        k = self.layout.at["noise", None]

        def flat(theta: Array) -> tuple[float, Array]:
            value, gradient = self.negative_log_posterior(theta)
            z = (theta[k] - self.layout.mean[k]) / self.layout.sd[k]
            gradient[k] -= z / self.layout.sd[k]
            return value - 0.5 * float(z * z), gradient

        return ensemble(flat, theta, self.layout.bounds, k, rng)

    def posterior(self, theta: Array, target: float = 1.0) -> TreePosterior:
        """The posterior at theta, see there for `target`."""
        return TreePosterior(self, self.unpack(theta), target)
