"""The leaves' part of the tree model's likelihood, many leaves at a time.

Leaves of about one size are padded to a rectangle, so that numpy factorises and differentiates all of them in one call; a
padded row has a kernel of 0 and a diagonal of 1 and takes no part in anything.

Notation: P leaves here, m rows each after padding, D weights; arrays (P, m, m).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from raytree.gp import linalg
from raytree.gp.context import hazy
from raytree.gp.kernels import matern52, squared_differences
from raytree.gp.linalg import Array
from raytree.space import Path

if TYPE_CHECKING:
    from raytree.models.tree import Hyperparameters, TreeModel


class Factored(NamedTuple):
    kernel: Array  # (P, m, m) without noise
    slope: Array
    by_context: Array  # (c, P, m, m) derivatives of the kernel by the context kernel's parameters
    inverse: Array  # (P, m, m) inv(L)
    A: Array  # (P m, D)
    v: Array  # (P m,)
    log_det: float


class Stack:
    """Some leaves of about one size, padded to a rectangle so that numpy works on all of them at once."""

    def __init__(self, model: TreeModel, paths: list[Path]) -> None:
        self.paths, self.kind = paths, model.layout.kind
        self.m = max(len(model.members[path]) for path in paths)
        dims = [model.layout.dims[path] for path in paths]
        width = max([len(d) for d in dims] + [1])
        P, m = len(paths), self.m
        position = {int(column): k for k, column in enumerate(model.layout.columns)}
        self.real = np.zeros((P, m))
        self.squared = np.zeros((P, width, m, m))
        self.dims = np.full((P, width), -1)
        self.y = np.zeros((P, m))
        self.context, self.fidelity = model.context, np.ones((P, m))
        Z = np.zeros((P, m, len(model.layout.columns)))
        for p, path in enumerate(paths):
            index = model.members[path]
            rows = model.rows[index]
            count, used = len(index), np.array(dims[p], dtype=int)
            self.real[p, :count] = 1.0
            self.dims[p, : len(used)] = used
            self.squared[p, : len(used), :count, :count] = squared_differences(
                rows[:, used], rows[:, used], model.categorical[used]
            )
            self.y[p, :count] = model.y[index]
            if self.context is not None:
                self.fidelity[p, :count] = rows[:, -1]
            on = model.features.on(path)
            Z[p, :count, [position[int(c)] for c in on.columns]] = on.values(rows).T
        self.Z = Z
        self.both = self.real[:, :, None] * self.real[:, None, :]
        self.padding = (1.0 - self.real)[:, :, None] * np.eye(m)

    def factor(self, h: Hyperparameters) -> Factored:
        inverse_lengths = np.append(h.inverse_squared_length, 0.0)[self.dims]  # 0 for padding: index -1
        r2 = np.einsum("pkij,pk->pij", self.squared, inverse_lengths)
        k, slope = matern52(r2)
        amplitude = np.array([h.amplitude[path] for path in self.paths])[:, None, None]
        kernel, slope = amplitude * k * self.both, amplitude * slope * self.both
        by_context = np.empty((0, *kernel.shape))
        if self.context is not None:
            between, by_context = self.context.slopes(h.context, self.fidelity, self.fidelity)
            by_context = by_context * kernel
            kernel, slope = kernel * between, slope * between
        noise = (h.noise_at(self.fidelity) * self.real)[:, :, None] * np.eye(self.m)
        inverse, log_det = linalg.stacked_inverse_factors(kernel + noise + self.padding)
        offset = np.array([h.offset[path] for path in self.paths])[:, None] * self.real
        A = inverse @ self.Z
        v = (inverse @ (self.y - offset)[:, :, None])[:, :, 0]
        A = A.reshape(A.shape[0] * self.m, A.shape[-1])
        return Factored(kernel, slope, by_context, inverse, A, v.ravel(), float(log_det.sum()))

    def add_gradient(self, gradient: Array, at: dict, h: Hyperparameters, part: Factored, residual: Array, C: Array) -> None:
        """Adds 1/2 sum(W dK) for the parameters of these leaves, with W = inv(K)_pp - alpha alpha'."""
        P, m = len(self.paths), self.m
        transposed = np.swapaxes(part.inverse, 1, 2)
        alpha = (transposed @ residual.reshape(P, m, 1))[:, :, 0]
        B = transposed @ C.reshape(P, m, C.shape[-1])
        W = transposed @ part.inverse - B @ np.swapaxes(B, 1, 2) - alpha[:, :, None] * alpha[:, None, :]
        by_noise = 0.5 * np.diagonal(W, axis1=1, axis2=2) * self.real
        gradient[at["noise", None]] += h.noise * by_noise.sum()
        if self.context is not None:
            gradient[at["haze", None]] += h.haze * np.sum(by_noise * hazy(self.fidelity))
        by_amplitude = 0.5 * np.sum(W * part.kernel, axis=(1, 2))
        gradient[at["amplitude", None]] += by_amplitude.sum()
        for c, by_parameter in enumerate(part.by_context):
            gradient[at["context", c]] += 0.5 * np.sum(W * by_parameter)
        by_length = 0.5 * np.einsum("pij,pkij->pk", W * part.slope, self.squared)
        for p, path in enumerate(self.paths):
            if ("amplitude_p", path) in at:
                gradient[at["amplitude_p", path]] += by_amplitude[p]
            if ("offset", path) in at:
                gradient[at["offset", path]] -= alpha[p].sum()
            for k, i in enumerate(self.dims[p].tolist()):
                if i >= 0:
                    step = by_length[p, k] * h.inverse_squared_length[i]
                    gradient[at["length_i", i]] += step
                    gradient[at[self.kind[i], None]] += step
