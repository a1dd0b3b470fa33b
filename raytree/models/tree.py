"""The tree-structured Gaussian process of Jenatton et al. 2017, section 2: a GP per leaf, weights c that join them.

    c ~ N(0, S),   g_p ~ GP(b_p, K_p),   y_i ~ N(g_{p_i}(x_i) + z_i' c, s2)                     (1)

Everything is computed leaf by leaf (`gp.likelihood`, `gp.posterior`): time is O(D^3 + sum_p (n_p^3 + n_p^2 D)), and no n x n
matrix exists.

Hyperparameters theta (all logarithms, MAP): noise, leaf amplitude and length-scales, variances of the weights. Leaves share
them, but for a deviation per leaf amplitude and per length-scale that is shrunk towards 0 (ours: a leaf with two points
borrows from the others, one with fifty has its own). With `offsets=True` also b_p per leaf, as in the paper.

Rows may have a fidelity behind the columns of the space: leaf kernels are then multiplied by a context kernel (section 5 of the
paper, `gp.context`), and a curve of the fidelity is on every path.

Notation: n observations on P visited paths, n_p on path p, d_p its kernel's dimensions; columns of z as in `features`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from raytree.gp.context import CONTEXTS, EARLY_NOISE, Context, early
from raytree.gp.inference import Found, Member, ensemble, fit
from raytree.gp.kernels import matern52, squared_differences
from raytree.gp.likelihood import Blocks, Slopes, Stack, negative_log_likelihood, stacked
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian, posterior
from raytree.gp.priors import normal
from raytree.gp.process import Process
from raytree.models.features import EDGE, ROOT, SHARED, TREND, Features, is_unordered
from raytree.models.leaf import Hyperparameters, LeafKernel, Settings, kernel_dims
from raytree.space import Path, Space

NOISE_FLOOR = 1e-12  # variance, in standardised units
NOISY = 0.3
"""The variance of the noise that a second fit begins with."""


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
    "early_noise": Prior(*EARLY_NOISE),
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


Named = dict[tuple[str, object], float]
"""Hyperparameters by kind and what they are of: a path, a parameter, or None."""


class _Layout:
    """Where each hyperparameter is in theta, for the visited paths."""

    def __init__(self, space: Space, features: Features, counts: dict[Path, int], settings: Settings) -> None:
        paths = list(counts)
        names: list[tuple[str, object]] = [("noise", None), ("amplitude", None)]
        self.dims = {path: kernel_dims(space, path, settings) for path in paths}
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
            names += [("trend", None), ("early_noise", None)]
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


class Leaves(NamedTuple):
    """Some leaves of about one size, with what does not depend on hyperparameters."""

    paths: list[Path]
    stack: Stack
    dims: np.ndarray  # (P, w) the dimensions of each leaf's kernel, -1 for padding
    squared: Array  # (P, w, m, m) squared differences in each
    y: Array  # (P, m)
    Z: Array  # (P, m, D)
    fidelity: Array  # (P, m)


class LeafCovariance(NamedTuple):
    """The kernel of some leaves (P, m, m), its slope by squared distance, and its derivatives (c, P, m, m) by the context."""

    kernel: Array
    slope: Array
    by_context: Array


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
        self.rows, self.y, self.paths = rows, y, list(paths)
        self.context: Context | None = CONTEXTS[settings.context] if features.fidelity else None
        members: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            members.setdefault(path, []).append(k)
        self.members = {path: np.array(index) for path, index in members.items()}
        self.categorical = np.array([is_unordered(p.domain) for p in space.parameters], dtype=bool)

    # Hyperparameters

    @cached_property
    def layout(self) -> _Layout:
        """Where hyperparameters are in theta."""
        return _Layout(self.space, self.features, {path: len(index) for path, index in self.members.items()}, self.settings)

    def start(self, previous: Named | None = None) -> Array:
        """(k,) theta to begin from: the last fit where it knows a parameter, the prior's mean elsewhere."""
        theta = self.layout.mean.copy()
        for k, name in enumerate(self.layout.names):
            if previous and name in previous:
                theta[k] = previous[name]
        found: Array = np.clip(theta, self.layout.bounds[:, 0], self.layout.bounds[:, 1])
        return found

    def named(self, theta: Array) -> Named:
        """Theta by name, to start the next fit from."""
        return dict(zip(self.layout.names, theta.tolist(), strict=True))

    def unpack(self, theta: Array) -> Hyperparameters:
        """Theta on its natural scale."""
        return self.hyperparameters(self.named(theta))

    def hyperparameters(self, named: Named) -> Hyperparameters:
        """Logarithms by name on their natural scale; the middle of the prior for those that have no name yet."""

        def value(kind: str, which: object = None) -> float:
            found = named.get((kind, which))
            return PRIORS[kind].mean if found is None else found

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
        priors = self.context.parameters if self.context else ()
        context = [named.get(("context", k), prior.mean) for k, prior in enumerate(priors)]
        return Hyperparameters(
            float(np.exp(value("noise"))),
            {path: float(np.exp(common + value("amplitude_p", path))) for path in self.members},
            float(np.exp(common)),
            np.exp(-2.0 * lengths),
            np.exp(log_variance),
            {path: value("offset", path) for path in self.members},
            np.array(context),
            float(np.exp(value("early_noise"))) if self.context else 0.0,
        )

    # Marginal likelihood

    @cached_property
    def _leaves(self) -> list[Leaves]:
        paths = list(self.members)
        return [self._some([paths[k] for k in chosen], stack) for chosen, stack in stacked(list(self.members.values()))]

    def _some(self, paths: list[Path], stack: Stack) -> Leaves:
        dims = [np.array(self.layout.dims[path], dtype=int) for path in paths]
        P, m = stack.rows.shape
        width = max([len(d) for d in dims] + [1])
        position = {int(column): k for k, column in enumerate(self.layout.columns)}
        squared, columns = np.zeros((P, width, m, m)), np.full((P, width), -1)
        Z, fidelity = np.zeros((P, m, len(position))), np.ones((P, m))
        for p, (path, used) in enumerate(zip(paths, dims, strict=True)):
            rows = self.rows[self.members[path]]
            n, on = len(rows), self.features.on(path)
            columns[p, : len(used)] = used
            squared[p, : len(used), :n, :n] = squared_differences(rows[:, used], rows[:, used], self.categorical[used])
            Z[p, :n, [position[int(c)] for c in on.columns]] = on.values(rows).T
            if self.context is not None:
                fidelity[p, :n] = rows[:, -1]
        return Leaves(paths, stack, columns, squared, self.y[stack.rows] * stack.real, Z, fidelity)

    def _covariance(self, h: Hyperparameters, leaves: Leaves) -> LeafCovariance:
        inverse = np.append(h.inverse_squared_length, 0.0)[leaves.dims]  # 0 for padding: index -1
        k, slope = matern52(np.einsum("pkij,pk->pij", leaves.squared, inverse))
        amplitude = np.array([h.amplitude[path] for path in leaves.paths])[:, None, None]
        kernel, slope = amplitude * k, amplitude * slope
        if self.context is None:
            return LeafCovariance(kernel, slope, np.empty((0, *kernel.shape)))
        between, by_context = self.context.slopes(h.context, leaves.fidelity, leaves.fidelity)
        return LeafCovariance(kernel * between, slope * between, by_context * kernel)

    def negative_log_posterior(self, theta: Array) -> tuple[float, Array]:
        """Minus log P(y | theta) P(theta), up to a constant, and its gradient (k,)."""
        value, gradient = self.negative_log_likelihood(theta)
        penalty, slope = normal(theta, self.layout.mean, self.layout.sd)
        return value + penalty, gradient + slope

    def negative_log_likelihood(self, theta: Array) -> tuple[float, Array]:
        """Minus log P(y | theta), eq. (3), and its gradient (k,)."""
        h, columns = self.unpack(theta), self.layout.columns
        covariances = [self._covariance(h, leaves) for leaves in self._leaves]
        blocks = []
        for leaves, made in zip(self._leaves, covariances, strict=True):
            offset = np.array([h.offset[path] for path in leaves.paths])[:, None]
            blocks.append(Blocks(leaves.stack, made.kernel, h.noise_at(leaves.fidelity), leaves.y - offset, leaves.Z))
        value, slopes, by_weight = negative_log_likelihood(blocks, h.weight_variance[columns])
        gradient = np.zeros(len(theta))
        for leaves, made, slope in zip(self._leaves, covariances, slopes, strict=True):
            self._add_leaves(gradient, h, leaves, made, slope)
        self._add_weights(gradient, by_weight)
        return value, gradient

    def _add_leaves(self, gradient: Array, h: Hyperparameters, leaves: Leaves, made: LeafCovariance, slopes: Slopes) -> None:
        """Adds the derivatives by the hyperparameters of some leaves' kernels."""
        at, W = self.layout.at, slopes.by_covariance
        by_noise = np.diagonal(W, axis1=1, axis2=2)
        gradient[at["noise", None]] += h.noise * by_noise.sum()
        if self.context is not None:
            gradient[at["early_noise", None]] += h.early_noise * np.sum(by_noise * early(leaves.fidelity))
        by_amplitude = np.sum(W * made.kernel, axis=(1, 2))
        gradient[at["amplitude", None]] += by_amplitude.sum()
        for c, by_parameter in enumerate(made.by_context):
            gradient[at["context", c]] += np.sum(W * by_parameter)
        by_length = np.einsum("pij,pkij->pk", W * made.slope, leaves.squared)
        for p, path in enumerate(leaves.paths):
            if ("amplitude_p", path) in at:
                gradient[at["amplitude_p", path]] += by_amplitude[p]
            if ("offset", path) in at:
                gradient[at["offset", path]] += slopes.by_mean[p].sum()
            for k, i in enumerate(leaves.dims[p].tolist()):
                if i >= 0:
                    step = by_length[p, k] * h.inverse_squared_length[i]
                    gradient[at["length_i", i]] += step
                    gradient[at[self.layout.kind[i], None]] += step

    def _add_weights(self, gradient: Array, by_weight: Array) -> None:
        """Adds the derivatives by the variances of the weights."""
        at, columns = self.layout.at, self.layout.columns
        group, parameter = self.features.group[columns], self.features.parameter[columns]
        for kind, which in (("edge", EDGE), ("trend", TREND)):
            if (kind, None) in at:
                gradient[at[kind, None]] += by_weight[group == which].sum()
        for i in set(parameter[group == SHARED].tolist()):
            gradient[at["shared", i]] += by_weight[(group == SHARED) & (parameter == i)].sum()
        if ("decay", None) in at:
            gradient[at["decay", None]] += by_weight @ np.maximum(self.features.order[columns] - 1.0, 0.0)

    # Inference

    def fit(self, previous: Named | None = None, max_evaluations: int = 60) -> Found:
        """The MAP theta and minus its log-posterior: the better one of two local optima, from a warm start and from much noise.

        Where there is next to no noise the likelihood is flat in it, and a fit that begins there explains noise by short
        length-scales for good.
        """
        noisy = self.start()
        noisy[self.layout.at["noise", None]] = np.log(NOISY)
        found = [
            fit(self.negative_log_posterior, start, self.layout.bounds, max_evaluations)
            for start in (self.start(previous), noisy)
        ]
        return min(found, key=lambda optimum: optimum.value)

    def ensemble(self, theta: Array, rng: np.random.Generator) -> list[Member]:
        """Likely thetas around the MAP (k,), see `gp.inference`: with noise and without, which are equally likely beforehand."""
        k = self.layout.at["noise", None]

        def flat(theta: Array) -> tuple[float, Array]:
            value, gradient = self.negative_log_posterior(theta)
            z = (theta[k] - self.layout.mean[k]) / self.layout.sd[k]
            gradient[k] -= z / self.layout.sd[k]
            return value - 0.5 * float(z * z), gradient

        return ensemble(flat, theta, self.layout.bounds, k, rng)

    def process(self, h: Hyperparameters) -> Process:
        """The Gaussian process at some hyperparameters."""
        kernel = LeafKernel(self.space, self.settings, h, self.categorical, self.context, {})
        return Process(
            kernel, self.space.d, self.context is not None, features=self.features, variance=h.weight_variance,
            means=h.offset,
        )  # fmt: skip

    def posterior(self, theta: Array, target: float = 1.0, previous: Gaussian | None = None) -> Gaussian:
        """The posterior at theta; rows without a fidelity are meant at `target`. See `gp.posterior` for a previous one."""
        return self.posterior_at(self.unpack(theta), target, previous)

    def posterior_at(self, h: Hyperparameters, target: float = 1.0, previous: Gaussian | None = None) -> Gaussian:
        """`posterior` at some hyperparameters."""
        return posterior(self.process(h), self.rows, self.y, self.paths, target, previous)
