"""Tree-structured Bayesian optimization (Jenatton et al. 2017): the model of `models.tree`, expected improvement on paths.

The defaults are ours: a weight per edge, smooth functions of shared parameters, leaf kernels over everything that is alive,
tied hyperparameters, log-EI on every promising path. `PAPER` and `PAPER_NONLINEAR` are the paper's method, `INDEPENDENT` and
`MARGINAL` two of its baselines: `TreeOptimizer(space, **PAPER)`. What is left of ours under `PAPER`: the priors of
hyperparameters and their MAP estimate from two starts (the paper does not say), the chance of success, and Fourier features of
each shared parameter instead of all those of a vertex together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raytree.acquisition.improvement import log_ei_at
from raytree.acquisition.maximize import Candidate, Gain, maximize
from raytree.acquisition.paths import log_path_ei, optimistic, promising
from raytree.acquisition.pending import TREATMENTS
from raytree.errors import SettingError, one_of, yes_or_no
from raytree.explain import Notes
from raytree.gp.context import CONTEXTS
from raytree.gp.inference import next_fit
from raytree.gp.linalg import Array
from raytree.gp.posterior import Gaussian, Mixture, Prediction
from raytree.gp.transform import TRANSFORMS, Transform
from raytree.models.features import EDGE, Features
from raytree.models.leaf import Hyperparameters, Settings
from raytree.models.tree import Named, TreeModel
from raytree.optimizer import Optimizer
from raytree.space import Path, Space
from raytree.store import Data, Trial
from raytree.strategies.base import Search
from raytree.strategies.fidelity import Fidelity, added_fraction
from raytree.strategies.fitted import (
    Alone,
    Fitted,
    Scaled,
    dump_named,
    enough,
    fitted_to,
    load_named,
    most_likely,
    transforms,
)
from raytree.strategies.improvement import MOST_PATHS, ImprovementStrategy

if TYPE_CHECKING:
    import pandas

PAPER: dict[str, Any] = {
    "shared": "linear", "weights": "nodes", "leaf": "own", "offsets": True, "tied": False, "search": "two-step",
    "transform": "linear", "explore": False,
}  # fmt: skip
"""The method of Jenatton et al. 2017 with linear shared functions. What still differs:

- hyperparameters have priors, and are estimated again when the data have grown by a tenth;
- trials that fail lower the chance of success around them, which multiplies EI; the paper has none that fail;
- running trials take part; the paper has none;
- the first eight trials are space-filling, not random.
"""
PAPER_NONLINEAR: dict[str, Any] = {**PAPER, "shared": "fourier"}
"""The same with the random Fourier features of its supplement, section 3; each of one number, not of all that share a vertex."""
INDEPENDENT: dict[str, Any] = {
    "shared": "none", "weights": "none", "leaf": "alive", "offsets": True, "tied": False, "search": "all", "transform": "linear",
    "explore": False,
}  # fmt: skip
MARGINAL: dict[str, Any] = {**PAPER, "search": "all"}

EVALUATIONS = 15
"""Of the likelihood in one fit, from each of two starts."""
FEW_EVALUATIONS = 5
"""The least, where leaves are so large that each takes long: such a fit starts close to the one before."""
MULTIPLICATIONS = 6e8
"""For one fit: the cubes of the sizes of all leaves, times evaluations."""
FINAL_EVALUATIONS = 40
"""The same, for an answer."""
REFIT = 10
"""Hyperparameters are estimated again when there is one new observation for so many old ones."""


def evaluations(data: Data) -> int:
    """How often the likelihood of data is evaluated in a fit."""
    cubes = sum(count**3 for count in Counter(data.paths).values())
    return int(np.clip(MULTIPLICATIONS / cubes, FEW_EVALUATIONS, EVALUATIONS))


class TreeInference:
    """The tree model over the course of a search.

    Args:
        space: the search space as it was given.
        seed: of Fourier features and of ensembles.
        settings: which variant.
        shared: functions of shared parameters.
        weights: on which edges or nodes.
        transform: the setting.
        fidelities: whether rows have a fidelity.
    """

    def __init__(
        self, space: Space, seed: int, settings: Settings, shared: str, weights: str, transform: str, fidelities: bool
    ) -> None:
        self._space, self._seed, self._settings = space, seed, settings
        self._shared, self._weights, self._transform = shared, weights, transform
        self.features = self._features(fidelities)
        self._named: Named = {}  # hyperparameters by name: which there are depends on what was visited
        self._scale = ""  # the name of the transform that was chosen last
        self._last: Gaussian | None = None  # its factors are used again
        self._alone = Alone[TreeModel](transform, REFIT)
        self.fitted_to = 0

    def _features(self, fidelities: bool) -> Features:
        return Features(self._space, self._shared, self._weights, self._seed, fidelities)

    def block_of(self, path: Path) -> Path:
        return path

    def expect_curves(self) -> None:
        self.features = self._features(True)

    def _model(self, data: Data, y: Array) -> TreeModel:
        return TreeModel(self._space, self.features, data.rows, y, data.paths, self._settings)

    def _likely(self, data: Data, scales: dict[str, Transform], previous: Named | None, evaluations: int) -> Scaled[TreeModel]:
        """The most likely hyperparameters, on the most likely scale."""

        def fit(y: Array) -> tuple[TreeModel, Array, float]:
            model = self._model(data, y)
            return model, *model.fit(previous, evaluations)

        return most_likely(data, scales, fit)

    def fit(self, data: Data, target: float, remember: bool = True) -> Fitted[Mixture]:
        known = len(data.losses)
        scales = transforms(self._transform, data)
        data = enough(data, self.block_of)
        if known >= next_fit(self.fitted_to, REFIT):
            name, scale, model, theta = self._likely(data, scales, self._named, evaluations(data))
            h = model.unpack(theta)
            if remember:
                self._named.update(model.named(theta))
                self._scale, self.fitted_to = name, known
        else:
            scale = scales.get(self._scale) or next(iter(scales.values()))
            model = self._model(data, scale.forward(data.losses))
            h = model.hyperparameters(self._named)
        fitted = self._fitted(data, scale, model, h, target)
        self._last = fitted.posterior.parts[0]
        return fitted

    def alone(self, data: Data, target: float) -> Fitted[Mixture]:
        found = self._alone.estimate(data, self._scale, lambda first, scales: self._likely(first, scales, None, EVALUATIONS))
        model = self._model(data, found.scale.forward(data.losses))
        return self._fitted(data, found.scale, model, found.model.unpack(found.theta), target)

    def _fitted(self, data: Data, scale: Transform, model: TreeModel, h: Hyperparameters, target: float) -> Fitted[Mixture]:
        posterior = Mixture([model.posterior_at(h, target, self._last)])
        good = posterior.target_means() if self.features.fidelity else model.y
        return fitted_to(posterior, scale, data.rows[:, : self._space.d], good, data.paths)

    def final(self, data: Data) -> Fitted[Mixture]:
        """Averaged over likely hyperparameters: to interpolate is not to be certain."""
        known, scales = len(data.losses), transforms(self._transform, data)
        data = enough(data, self.block_of)
        _, scale, model, theta = self._likely(data, scales, self._named, FINAL_EVALUATIONS)
        members = model.ensemble(theta, np.random.default_rng([self._seed, 11, known]))
        members.sort(key=lambda member: -member.weight)  # the more likely ones first: they explain the decisions
        parts = [model.posterior(member.theta) for member in members]
        posterior = Mixture(parts, np.array([member.weight for member in members]))
        return fitted_to(posterior, scale, data.rows[:, : self._space.d], posterior.target_means(), data.paths)

    # What was learnt

    def describe(self, fitted: Fitted[Mixture], trial: Trial, row: Array) -> dict[str, Prediction]:
        return {
            "model": fitted.posterior.predict(trial.path, row),
            "path": fitted.posterior.parts[0].predict_path(trial.path, row),
        }

    def notes(self, fitted: Fitted[Mixture]) -> Notes:
        edges = self._edges(fitted)
        shown = edges.to_string(index=False, float_format="{:.3g}".format)
        return Notes(f"weights of the decisions (standardised losses: lower is better)\n{shown}" if len(edges) else "", edges)

    def _edges(self, fitted: Fitted[Mixture]) -> pandas.DataFrame:
        import pandas

        mean, sd = fitted.posterior.parts[0].weight_posterior()
        touched = set(fitted.posterior.parts[0].weights.columns.tolist())
        records = [
            {"edge": self.features.label(column), "mean": mean[column], "sd": sd[column]}
            for column in np.flatnonzero(self.features.group == EDGE).tolist()
            if column in touched
        ]
        return pandas.DataFrame(records, columns=["edge", "mean", "sd"])

    # State

    def state(self) -> dict[str, Any]:
        return {"theta": dump_named(self._named), "transform": self._scale, "fitted_to": self.fitted_to}

    def restore(self, state: dict[str, Any]) -> None:
        self._named, self._scale, self.fitted_to = load_named(state["theta"]), str(state["transform"]), int(state["fitted_to"])


@dataclass(frozen=True)
class OnPaths:
    """Maximises log-EI, eq. (5), on every path, or on the most promising of many.

    Args:
        space: the search space as it was given.
        most: how many paths are promising.
    """

    space: Space
    most: int

    def __call__(
        self, gain: Gain, fitted: Fitted[Mixture], posterior: Mixture, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        first = posterior.parts[0]
        chosen = promising(self.space, paths, lambda some, rows: optimistic(first, some, rows, fitted.best), self.most, rng)
        return maximize(self.space, chosen, gain, fitted.around, rng, everywhere=fitted.best_row)


@dataclass(frozen=True)
class TwoStep:
    """Section 3.2: the path and its shared parameters by path-EI, eq. (6), then the leaf's own by EI, eq. (5).

    Args:
        space: the search space as it was given.
    """

    space: Space

    def __call__(
        self, gain: Gain, fitted: Fitted[Mixture], posterior: Mixture, paths: list[Path], rng: np.random.Generator
    ) -> list[Candidate]:
        one = posterior.parts[0]

        def score(path: Path, rows: Array) -> Array:
            return log_path_ei(one, path, rows, fitted.best)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            return log_ei_at(*one.gradient(path, row, whole=False), fitted.best)

        first = maximize(self.space, paths, Gain(score, slope), {}, rng)[0]
        return maximize(self.space, [first.path], gain, fitted.around, rng, like=first.row, everywhere=fitted.best_row)


class TreeOptimizer(Optimizer):
    """Bayesian optimization with a Gaussian process per path, joined by weights on the decisions.

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
        shared: functions of shared parameters: "smooth", "linear", "fourier" or "none".
        weights: "edges" (one per decision and cell), "nodes" (the paper: one per decision) or "none".
        leaf: dimensions of a leaf's kernel: "alive" or "own" (the paper: shared parameters left out).
        tied: whether leaves share hyperparameters, with deviations that grow with their data.
        offsets: whether each visited leaf has a fitted offset b_p (the paper).
        search: "all" (full EI on every path, or on the 24 most promising of many), a number of paths, or "two-step" (path-EI
            chooses the path and its shared parameters, EI the rest; the paper).
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
        shared: str = "smooth",
        weights: str = "edges",
        leaf: str = "alive",
        tied: bool = True,
        offsets: bool = False,
        search: str | int = "all",
        transform: str = "robust",
        explore: bool = True,
    ) -> None:
        yes_or_no(explore=explore)
        one_of("pending", pending, TREATMENTS)
        one_of("context", context, CONTEXTS)
        one_of("leaf", leaf, ("alive", "own"))
        one_of("transform", transform, TRANSFORMS)
        if search not in ("all", "two-step") and not (type(search) is int and search > 0):
            raise SettingError("search", f"must be 'all', 'two-step' or a number of paths, got {search!r}.")
        added = added_fraction(fidelity_key, min_fidelity, max_t, pending)
        method = {
            "pending": pending, "context": context, "fidelity_key": fidelity_key, "min_fidelity": float(min_fidelity),
            "shared": shared, "weights": weights, "leaf": leaf, "tied": tied, "offsets": offsets, "search": search,
            "transform": transform, "explore": bool(explore),
        }  # fmt: skip

        def strategy(made: Search) -> ImprovementStrategy:
            fidelity = Fidelity(made, added)
            settings = Settings(leaf, tied, offsets, context)
            inference = TreeInference(made.given, made.seed, settings, shared, weights, transform, fidelity.on)
            most = MOST_PATHS if isinstance(search, str) else search
            find = TwoStep(made.given) if search == "two-step" else OnPaths(made.given, most)
            return ImprovementStrategy(made, inference, find, fidelity, pending, explore)

        super().__init__(
            space, strategy, method, added, seed=seed, mode=mode, num_initial=num_initial, budget=budget, on_error=on_error,
            max_t=max_t,
        )  # fmt: skip
