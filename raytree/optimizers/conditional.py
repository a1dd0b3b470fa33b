"""Bayesian optimization with kernels for conditional spaces (Levesque et al. 2017): the models of `models.conditional`, EI.

The defaults are ours; `PAPER` is the paper's GP-cond-ls (`GP-cond` with search="random"), its other methods differ in
`kernel` and `impute`: `CondKernelOptimizer(space, **PAPER)`. What is left of ours under `PAPER`: the chance of success, and the
steps of a local search (the paper does not say how far a neighbour is).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from raytree.acquisition.local_search import climb
from raytree.acquisition.maximize import Candidate, Gain, maximize
from raytree.acquisition.paths import one_by_one, promising
from raytree.acquisition.pending import TREATMENTS
from raytree.errors import SettingError, one_of, yes_or_no
from raytree.explain import Notes
from raytree.gp.context import CONTEXTS
from raytree.gp.inference import next_fit
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian, Mixture, Prediction
from raytree.gp.transform import TRANSFORMS, Transform
from raytree.models.conditional import KERNELS, LENGTHS, PAPER_PRIORS, ConditionalModel
from raytree.models.inputs import Inputs
from raytree.optimizer import Optimizer
from raytree.space import Path, Space
from raytree.store import Data, Trial
from raytree.strategies.base import Search
from raytree.strategies.fidelity import Fidelity, added_fraction
from raytree.strategies.fitted import Alone, Fitted, Scaled, dump_theta, enough, fitted_to, load_theta, most_likely, transforms
from raytree.strategies.improvement import MOST_PATHS, ImprovementStrategy

PLAIN: dict[str, Any] = {"transform": "linear", "explore": False}
PAPER: dict[str, Any] = {**PLAIN, "inference": "slice", "search": "local", "categories": "integer"}
"""The method of Levesque et al. 2017. What still differs:

- trials that fail lower the chance of success around them, which multiplies EI; running trials take part; the paper has neither;
- the first trials are space-filling;
- a local search compares whole neighbourhoods and takes the steepest step.
"""
FLAT: dict[str, Any] = {**PLAIN, "kernel": "matern", "impute": False, "search": "gradient"}
"""A Gaussian process blind to structure: the GP baseline of Jenatton et al. 2017, section 4."""

EVALUATIONS = 15
"""Of the likelihood in one fit, from each of two starts."""
FINAL_EVALUATIONS = 40
"""The same, for an answer."""
REFIT = 10
"""Hyperparameters are estimated again when there is one new observation for so many old ones."""
BURN_IN = 100
"""Sweeps of the slice sampler before the first suggestion."""
DRAWS = 10
"""Samples of hyperparameters for each suggestion."""
CANDIDATES = 1000
"""Random rows among which the best starts of local searches are."""
STARTS = 10
"""Local searches, one of them from the best observation."""
RESERVE = 32
"""Rows handed on as a reserve against duplicates."""


class ConditionalInference:
    """The conditional model over the course of a search.

    Args:
        space: the search space as it was given.
        seed: of Mondrian partitions, samples and ensembles.
        inputs: rows as numbers.
        kernel: a name of `KERNELS`.
        context: the kernel between fidelities.
        transform: the setting.
        sampled: whether hyperparameters are sampled for every suggestion.
        fidelities: whether rows have a fidelity.
    """

    def __init__(
        self,
        space: Space,
        seed: int,
        inputs: Inputs,
        kernel: str,
        context: str,
        transform: str,
        sampled: bool,
        fidelities: bool,
    ) -> None:
        self._space, self._seed, self.inputs, self._kernel = space, seed, inputs, kernel
        self._plain_inputs = Inputs(space, "hamming", True, KERNELS["conditional"].power, seed)
        self._context, self._transform, self._sampled = context, transform, sampled
        self._fidelities = fidelities
        self._theta: Array | None = None
        self._scale = ""  # the name of the transform that was chosen last
        self._last: Gaussian | None = None  # its factors are used again
        self._alone = Alone[ConditionalModel](transform, REFIT)
        self.fitted_to = 0

    def block_of(self, path: Path) -> Path:
        return path if self._kernel == "conditional" else ()

    def expect_curves(self) -> None:
        self._fidelities = True
        self._theta, self.fitted_to = None, 0  # there are more hyperparameters from now on

    def model(self, data: Data, y: Array, alone: bool = False) -> ConditionalModel:
        """The model of some data; of one path alone always with the conditional kernel."""
        inputs, kernel = (self._plain_inputs, "conditional") if alone else (self.inputs, self._kernel)
        context = self._context if self._fidelities else None
        return ConditionalModel(self._space, inputs, kernel, data.rows, y, data.paths, PAPER_PRIORS, self._seed, context)

    def _likely(
        self,
        data: Data,
        scales: dict[str, Transform],
        start: Array | None,
        evaluations: int = EVALUATIONS,
        alone: bool = False,
    ) -> Scaled[ConditionalModel]:
        """The most likely hyperparameters, on the most likely scale."""

        def fit(y: Array) -> tuple[ConditionalModel, Array, float]:
            model = self.model(data, y, alone)
            return model, *model.fit(start, evaluations)

        return most_likely(data, scales, fit)

    def _latest(self, data: Data, scales: dict[str, Transform]) -> Scaled[ConditionalModel]:
        """The model with hyperparameters and scale as they were."""
        name = self._scale if self._scale in scales else next(iter(scales))
        model = self.model(data, scales[name].forward(data.losses))
        return Scaled(name, scales[name], model, model.start() if self._theta is None else self._theta)

    def fit(self, data: Data, target: float, remember: bool = True) -> Fitted[Mixture]:
        known, scales = len(data.losses), transforms(self._transform, data)
        data = enough(data, self.block_of)
        due = self._sampled or known >= next_fit(self.fitted_to, REFIT)
        found = self._likely(data, scales, self._theta) if due and not self._sampled else self._latest(data, scales)
        thetas = found.theta[None]
        if self._sampled:
            rng = np.random.default_rng([self._seed, 5, known])
            thetas = found.model.sample(self._theta, rng, DRAWS, BURN_IN)
        if due and remember:
            self._theta, self._scale, self.fitted_to = thetas[-1], found.name, known
        posterior = Mixture([found.model.posterior(theta, target, self._last) for theta in thetas])
        self._last = posterior.parts[0]
        return self._fitted(data, found, posterior)

    def alone(self, data: Data, target: float) -> Fitted[Mixture]:
        found = self._alone.estimate(data, self._scale, lambda first, scales: self._likely(first, scales, None, alone=True))
        found = found._replace(model=self.model(data, found.scale.forward(data.losses), alone=True))
        return self._fitted(data, found, Mixture([found.model.posterior(found.theta, target)]))

    def final(self, data: Data) -> Fitted[Mixture]:
        """Averaged over likely hyperparameters: to interpolate is not to be certain."""
        if self._sampled:
            return self.fit(data, 1.0, remember=False)
        known, scales = len(data.losses), transforms(self._transform, data)
        data = enough(data, self.block_of)
        found = self._likely(data, scales, self._theta, FINAL_EVALUATIONS)
        members = found.model.ensemble(found.theta, np.random.default_rng([self._seed, 11, known]))
        parts = [found.model.posterior(member.theta) for member in members]
        return self._fitted(data, found, Mixture(parts, np.array([member.weight for member in members])))

    def _fitted(self, data: Data, found: Scaled[ConditionalModel], posterior: Mixture) -> Fitted[Mixture]:
        good = posterior.target_means() if self._fidelities else found.model.y
        return fitted_to(posterior, found.scale, data.rows[:, : self._space.d], good, data.paths)

    # What was learnt

    def describe(self, fitted: Fitted[Mixture], trial: Trial, row: Array) -> dict[str, Prediction]:
        return {"model": fitted.posterior.predict(trial.path, row)}

    def notes(self, fitted: Fitted[Mixture]) -> Notes:
        kernels = [part.process.kernel.theta for part in fitted.posterior.parts]  # type: ignore[attr-defined]
        lengths = np.exp(fitted.posterior.weights @ np.array(kernels)[:, LENGTHS : LENGTHS + self.inputs.n_lengths])
        shown = "\n".join(f"  {label}: {length:.3g}" for label, length in zip(self.inputs.labels, lengths, strict=True))
        return Notes(f"length-scales (of a parameter's whole range)\n{shown}")

    # State

    def state(self) -> dict[str, Any]:
        return {"theta": dump_theta(self._theta), "transform": self._scale, "fitted_to": self.fitted_to}

    def restore(self, state: dict[str, Any]) -> None:
        context = 1 + len(CONTEXTS[self._context].parameters) if self._fidelities else 0
        self._theta = load_theta(state["theta"], LENGTHS + self.inputs.n_lengths + context)
        self._scale, self.fitted_to = str(state["transform"]), int(state["fitted_to"])


@dataclass(frozen=True)
class ByGradient:
    """Maximises log-EI on the most promising paths: Sobol points, the best refined by gradients.

    Args:
        space: the search space as it was given.
    """

    space: Space

    def __call__(
        self, gain: Gain, fitted: Fitted[Mixture], posterior: Mixture, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        best = promising(self.space, paths, one_by_one(gain.score), MOST_PATHS, rng)
        return maximize(self.space, best, gain, fitted.around, rng, everywhere=fitted.best_row)


@dataclass(frozen=True)
class ByDraws:
    """Maximises log-EI among random rows, or by local searches from the best of them and from the best observation.

    Args:
        space: the search space as it was given.
        local: whether there are local searches.
    """

    space: Space
    local: bool

    def __call__(
        self, gain: Gain, fitted: Fitted[Mixture], posterior: Mixture, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        space = self.space

        def score(rows: Array) -> Array:
            return scores(space, gain, rows)

        alone = paths[0] if len(paths) == 1 and space.n_paths > 1 else None
        rows = space.sample(rng, CANDIDATES) if alone is None else space.on_path(alone, rng.random((CANDIDATES, space.d)))
        values = score(rows)
        if self.local:
            starts = np.concatenate([fitted.best_row[None], rows[np.argsort(-values, kind="stable")[: STARTS - 1]]])
            ends, heights = climb(space, starts, score)
            rows, values = np.concatenate([ends, rows]), np.concatenate([heights, values])
        best = np.argsort(-values, kind="stable")[:RESERVE]
        found = zip(best.tolist(), space.paths_of(rows[best]), strict=True)
        return [Candidate(float(values[k]), path, rows[k]) for k, path in found]


def scores(space: Space, gain: Gain, rows: Array) -> Array:
    """(m,) the gain at rows (m, d) of any paths."""
    paths = space.paths_of(rows)
    groups: dict[Path, list[int]] = {}
    for k, path in enumerate(paths):
        groups.setdefault(path, []).append(k)
    values = np.empty(len(rows))
    for path, index in groups.items():
        values[index] = gain.score(path, rows[index])
    return values


class CondKernelOptimizer(Optimizer):
    """Bayesian optimization with one Gaussian process whose kernel knows which parameters are alive.

    Args:
        space: the search space.
        seed: see `Optimizer`, as for mode, num_initial, budget, on_error and max_t.
        mode: "min" or "max".
        num_initial: suggestions from the initial design.
        budget: how many trials there will be, if known.
        on_error: what a trial that ends in error means: "penalize" or "ignore".
        max_t: the t at which a trial is complete, if some are stopped before.
        pending: what running trials are taken for, see `acquisition.pending`: "believer", "fantasy", "thompson" or "ignore".
        context: the kernel between fidelities, see `gp.context`: "quadratic", "decay" or "matern".
        fidelity_key: where the fraction of a complete evaluation stands in a configuration, if the search is to choose it.
        min_fidelity: the least such fraction.
        kernel: "conditional" (no covariance between different branches), "laplace", "mondrian" (its random-feature form),
            "matern" or "squared".
        impute: whether inactive parameters are set to their default; without, they are numbers that mean nothing.
        categories: "hamming", "onehot" or "integer", see `models.inputs`.
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples).
        search: how EI is maximised: "gradient" (Sobol points on every path, the best refined by L-BFGS-B; not for the
            mondrian kernel), "local" (random points, then local search over neighbours), "random", or "auto": by gradient for
            smooth kernels, locally for the others.
        transform: of the losses, see `gp.transform`: "robust" (the data choose whether the worse half is bent), "bent", or
            "linear" (the paper).
        explore: whether every second suggestion goes to the path that was tried least, once the model expects nothing.
    """

    def __init__(
        self,
        space: Any,
        *,
        seed: int | None = None,
        mode: str = "min",
        num_initial: int | None = None,
        budget: int | None = None,
        on_error: str = "penalize",
        max_t: float | str | None = None,
        pending: str = "believer",
        context: str = "quadratic",
        fidelity_key: str | None = None,
        min_fidelity: float = 1.0 / 27.0,
        kernel: str = "conditional",
        impute: bool = True,
        categories: str = "hamming",
        inference: str = "map",
        search: str = "auto",
        transform: str = "robust",
        explore: bool = True,
    ) -> None:
        yes_or_no(impute=impute, explore=explore)
        one_of("pending", pending, TREATMENTS)
        one_of("context", context, CONTEXTS)
        one_of("kernel", kernel, KERNELS)
        one_of("inference", inference, ("map", "slice"))
        one_of("search", search, ("auto", "gradient", "local", "random"))
        one_of("transform", transform, TRANSFORMS)
        if search == "gradient" and kernel == "mondrian":
            raise SettingError("search", "the mondrian kernel has no gradient.", "Use 'local' or 'random'.")
        added = added_fraction(fidelity_key, min_fidelity, max_t, pending)
        method = {
            "pending": pending, "context": context, "fidelity_key": fidelity_key, "min_fidelity": float(min_fidelity),
            "kernel": kernel, "impute": bool(impute), "categories": categories, "inference": inference, "search": search,
            "transform": transform, "explore": bool(explore),
        }  # fmt: skip
        way = search if search != "auto" else "gradient" if KERNELS[kernel].power == 2 else "local"

        def strategy(made: Search) -> ImprovementStrategy:
            fidelity = Fidelity(made, added)
            inputs = Inputs(made.given, categories, bool(impute), KERNELS[kernel].power, made.seed)
            model = ConditionalInference(
                made.given, made.seed, inputs, kernel, context, transform, inference == "slice",
                fidelity.on,
            )  # fmt: skip
            find = ByGradient(made.given) if way == "gradient" else ByDraws(made.given, way == "local")
            return ImprovementStrategy(made, model, find, fidelity, pending, explore)

        super().__init__(
            space, strategy, method, added, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error,
            max_t=max_t,
        )  # fmt: skip
