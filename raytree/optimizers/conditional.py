"""Bayesian optimization with kernels for conditional spaces (Levesque et al. 2017): the models of `models.conditional`, EI.

The defaults are ours; `PAPER` is the paper's GP-cond-ls (`GP-cond` with search="random"), its other methods differ in
`kernel` and `impute`: `CondKernelOptimizer(space, **PAPER)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from raytree.acquisition.improvement import log_improvement
from raytree.acquisition.local_search import climb
from raytree.acquisition.maximize import Candidate, maximize
from raytree.acquisition.paths import known_paths, promising
from raytree.errors import SettingError, one_of
from raytree.explain import Explanation
from raytree.gp.context import CONTEXTS, TRENDS
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import TRANSFORMS, Transform
from raytree.models.conditional import KERNELS, PAPER_PRIORS, BlockGP
from raytree.models.conditional_posterior import Mixture
from raytree.models.inputs import Inputs
from raytree.models.success import Success
from raytree.observations import Losses
from raytree.optimizers.fidelity import FidelityOptimizer
from raytree.optimizers.surrogate import MOST_PATHS, Fitted, fitted_to, next_fit
from raytree.space import Path

PLAIN: dict[str, Any] = {"transform": "linear", "improvement": "plain", "explore": False}
PAPER: dict[str, Any] = {**PLAIN, "inference": "slice", "search": "local", "categories": "integer"}
FLAT: dict[str, Any] = {**PLAIN, "kernel": "matern", "impute": False, "search": "gradient"}
"""A Gaussian process blind to structure: the GP baseline of Jenatton et al. 2017, section 4."""

INFERENCE, SEARCH = ("map", "slice"), ("auto", "gradient", "local", "random")
EVALUATIONS = 40
"""Of the likelihood in one fit."""
BURN_IN, DRAWS = 100, 10
"""Of the slice sampler: sweeps before the first suggestion, samples for each."""
CANDIDATES, STARTS, RESERVE = 1000, 10, 32
"""Random rows; how many local searches; how many rows are handed on as a reserve against duplicates."""


class CondKernelOptimizer(FidelityOptimizer[Mixture]):
    """Bayesian optimization with one Gaussian process whose kernel knows which parameters are alive.

    Args:
        space: the search space.
        kernel: "conditional" (no covariance between different branches), "laplace", "mondrian" (its random-feature form),
            "matern" or "squared".
        impute: whether inactive parameters are set to their default; without, they are numbers that mean nothing.
        categories: "hamming", "onehot" or "integer", see `models.inputs`.
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples).
        search: how EI is maximised: "gradient" (Sobol points on every path, the best refined by L-BFGS-B; not for the
            mondrian kernel), "local" (random points, then local search over neighbours), "random", or "auto": by gradient for
            smooth kernels, locally for the others.
        transform: of the losses, see `gp.transform`: "robust", or "linear" (the paper).
        improvement: "known" (what an evaluation would do to what is known, with the tails of an estimated amplitude) or
            "plain" (the paper: of the function itself, normal), see `acquisition.improvement`.
        explore: whether every second suggestion goes to the path that was tried least, once the model expects nothing.
        settings: of methods that know fidelities, see `FidelityOptimizer`, and of every optimizer, see `Optimizer`.
    """

    def __init__(
        self,
        space: Any,
        *,
        kernel: str = "conditional",
        impute: bool = True,
        categories: str = "hamming",
        inference: str = "map",
        search: str = "auto",
        transform: str = "robust",
        improvement: str = "known",
        explore: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(space, **settings)
        one_of("kernel", kernel, KERNELS)
        one_of("inference", inference, INFERENCE)
        one_of("search", search, SEARCH)
        one_of("transform", transform, TRANSFORMS)
        one_of("improvement", improvement, ("known", "plain"))
        if search == "gradient" and kernel == "mondrian":
            raise SettingError("search", "the mondrian kernel has no gradient.", "Use 'local' or 'random'.")
        self._method: dict[str, Any] = {
            "kernel": kernel, "impute": bool(impute), "categories": categories, "inference": inference, "search": search,
            "transform": transform, "improvement": improvement, "explore": bool(explore),
        }  # fmt: skip
        self._inputs = Inputs(self._plain, categories, bool(impute), KERNELS[kernel].power, self.seed)
        self._plain_inputs = Inputs(self._plain, "hamming", True, KERNELS["conditional"].power, self.seed)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._method}

    @property
    def _climbs(self) -> bool:
        smooth = KERNELS[self._method["kernel"]].power == 2
        return self._method["search"] == "gradient" or (self._method["search"] == "auto" and smooth)

    def _block_of(self, path: Path) -> Path:
        return path if self._method["kernel"] == "conditional" else ()

    # Proposing

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self._fit()
            known = known_paths(self._plain, fitted.visited, rng)
            if self._draws():
                return self._drawn(fitted, self._places(fitted, known, rng), rng)
            posterior, success = self._with_pending(fitted, rng), self._success()
            if self._climbs:
                found = self._maximize(fitted, posterior, success, known, rng)
            else:
                found = self._sampled(fitted, posterior, success, rng)
            return self._suggested(fitted, posterior, success, self._elsewhere(found, success, known, rng))

    def _sampled(
        self, fitted: Fitted[Mixture], posterior: Mixture, success: Success | None, rng: np.random.Generator
    ) -> list[Candidate]:
        """The best of random rows, or of local searches from the best of them and from the best observation."""

        def score(rows: Array) -> Array:
            return self._scores(posterior, success, rows)

        rows = self._plain.sample(rng, CANDIDATES)
        values = score(rows)
        if self._method["search"] != "random":
            incumbent = fitted.around[fitted.visited[0]][:1]
            starts = np.concatenate([incumbent, rows[np.argsort(-values, kind="stable")[: STARTS - 1]]])
            ends, heights = climb(self._plain, starts, score)
            rows, values = np.concatenate([ends, rows]), np.concatenate([heights, values])
        best = np.argsort(-values, kind="stable")[:RESERVE]
        paths = self._plain.paths_of(rows[best])
        return [Candidate(float(values[k]), path, rows[k]) for k, path in zip(best.tolist(), paths, strict=True)]

    def _scores(self, posterior: Mixture, success: Success | None, rows: Array) -> Array:
        """(m,) log-EI at rows (m, d) of any paths, weighed by the chance of a valid value."""
        paths = self._plain.paths_of(rows)
        blocks: dict[Path, list[int]] = {}
        for k, path in enumerate(paths):
            blocks.setdefault(posterior.block_of(path), []).append(k)
        values = np.empty(len(rows))
        for index in blocks.values():
            values[index] = log_improvement(posterior, paths[index[0]], rows[index])
        return values if success is None else values + success.log_chances(paths, rows)

    def _maximize(
        self, fitted: Fitted[Mixture], posterior: Mixture, success: Success | None, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        score, slope = self._gains(posterior, success)
        best = promising(self._plain, paths, score, MOST_PATHS, rng)
        model = fitted.around[fitted.visited[0]][0]
        return maximize(self._plain, best, score, slope, fitted.around, rng, model=model)

    def expect_curves(self) -> None:
        if self.observations.max_t is None:
            self._theta, self._fitted_to = None, 0  # there are more hyperparameters from now on
        super().expect_curves()

    # The model

    def _fit(self, remember: bool = True, target: float | None = None) -> Fitted[Mixture]:
        known = self._known()
        data = self._enough(known)
        target = self._target(data) if target is None else target
        scale = self._transform(known)
        y = scale.forward(data.losses)
        model = BlockGP(
            self._plain, self._inputs, self._method["kernel"], data.rows, y, data.paths, PAPER_PRIORS, self.seed, self.context
        )
        thetas = np.array([model.start() if self._theta is None else self._theta])
        due = self._method["inference"] == "slice" or len(known.losses) >= next_fit(self._fitted_to)
        if self._method["inference"] == "slice":
            rng = np.random.default_rng([self.seed, 5, self._asks])
            thetas = model.sample(self._theta, rng, DRAWS, BURN_IN)
        elif due:
            thetas = model.fit(self._theta, EVALUATIONS)[None]
        if due and remember:
            self._theta, self._fitted_to = thetas[-1], len(known.losses)
        return self._surrounded(model, thetas, target, scale)

    def _final(self) -> Fitted[Mixture]:
        return self._fit(remember=False, target=1.0)

    def _surrounded(self, model: BlockGP, thetas: Array, target: float, scale: Transform) -> Fitted[Mixture]:
        posterior = model.posterior(thetas, target, self._method["improvement"] == "plain")
        good = model.y if self.context is None else posterior.target_means()
        return fitted_to(posterior, scale, model.rows[:, : self._plain.d], good, model.paths)

    def _alone(self, data: Losses) -> Fitted[Mixture]:
        scale = next(iter(TRANSFORMS[self._method["transform"]](data.losses).values()))
        y = scale.forward(data.losses)
        model = BlockGP(self._plain, self._plain_inputs, "conditional", data.rows, y, data.paths, context=self.context)
        target = float(data.rows[:, -1].max()) if self.context is not None else 1.0
        return self._surrounded(model, model.fit(None, EVALUATIONS), target, scale)

    def _annotate(self, fitted: Fitted[Mixture], table: Any, title: str) -> Explanation:
        lengths = np.exp(np.mean([part.theta[2 : 2 + self._inputs.n_lengths] for part in fitted.posterior.parts], axis=0))
        shown = "\n".join(f"  {label}: {length:.3g}" for label, length in zip(self._inputs.labels, lengths, strict=True))
        return Explanation(table, title=title, notes=f"length-scales (of a parameter's whole range)\n{shown}")

    # State

    def _theta_length(self) -> int:
        context = 0 if self.context is None else TRENDS + 1 + len(CONTEXTS[self.context].parameters)
        return 2 + self._inputs.n_lengths + context
