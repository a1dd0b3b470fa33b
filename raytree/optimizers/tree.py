"""Tree-structured Bayesian optimization (Jenatton et al. 2017): the model of `models.tree`, expected improvement on paths.

The defaults are ours: a weight per edge, smooth functions of shared parameters, leaf kernels over everything that is alive,
tied hyperparameters, log-EI on every promising path. `PAPER` and `PAPER_NONLINEAR` are the paper's method, `INDEPENDENT` and
`MARGINAL` two of its baselines: `TreeOptimizer(space, **PAPER)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raytree.acquisition.improvement import log_ei_at
from raytree.acquisition.maximize import Candidate, maximize
from raytree.acquisition.paths import known_paths, log_path_ei, optimistic, promising
from raytree.errors import SettingError, one_of
from raytree.explain import Explanation
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import TRANSFORMS, Transform
from raytree.models.features import EDGE, Features
from raytree.models.success import Success
from raytree.models.tree import Settings, TreeModel
from raytree.models.tree_posterior import Together, TreePosterior
from raytree.observations import Losses, Trial
from raytree.optimizers.fidelity import FidelityOptimizer
from raytree.optimizers.surrogate import FAILED, MOST_PATHS, Fitted, dump_named, fitted_to, load_named, next_fit
from raytree.space import Path

if TYPE_CHECKING:
    import pandas

PAPER: dict[str, Any] = {
    "shared": "linear", "weights": "nodes", "leaf": "own", "offsets": True, "search": "two-step", "transform": "linear",
    "explore": False, "improvement": "plain",
}  # fmt: skip
PAPER_NONLINEAR: dict[str, Any] = {**PAPER, "shared": "fourier"}
INDEPENDENT: dict[str, Any] = {
    "shared": "none", "weights": "none", "leaf": "alive", "offsets": True, "tied": False, "search": "all", "transform": "linear",
    "explore": False, "improvement": "plain",
}  # fmt: skip
MARGINAL: dict[str, Any] = {**PAPER, "search": "all"}

EVALUATIONS = 15
"""Of the likelihood in one fit, from each of two starts."""
FINAL_EVALUATIONS = 40
"""The same, for an answer."""
REFIT = 10
"""Hyperparameters are estimated again when there is one new observation for so many old ones."""


class TreeOptimizer(FidelityOptimizer[TreePosterior]):
    """Bayesian optimization with a Gaussian process per path, joined by weights on the decisions.

    Args:
        space: the search space.
        shared: functions of shared parameters: "smooth", "linear", "fourier" or "none".
        weights: "edges" (one per decision and cell), "nodes" (the paper: one per decision) or "none".
        leaf: dimensions of a leaf's kernel: "alive" or "own" (the paper: shared parameters left out).
        tied: whether leaves share hyperparameters, with deviations that grow with their data.
        offsets: whether each visited leaf has a fitted offset b_p (the paper).
        search: "all" (full EI on every path, or on the 24 most promising of many), a number of paths, or "two-step" (path-EI
            chooses the path and its shared parameters, EI the rest; the paper).
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
        shared: str = "smooth",
        weights: str = "edges",
        leaf: str = "alive",
        tied: bool = True,
        offsets: bool = False,
        search: str | int = "all",
        transform: str = "robust",
        improvement: str = "known",
        explore: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(space, **settings)
        one_of("leaf", leaf, ("alive", "own"))
        one_of("transform", transform, TRANSFORMS)
        one_of("improvement", improvement, ("known", "plain"))
        if search not in ("all", "two-step") and not (type(search) is int and search > 0):
            raise SettingError("search", f"must be 'all', 'two-step' or a number of paths, got {search!r}.")
        self._method: dict[str, Any] = {
            "shared": shared, "weights": weights, "leaf": leaf, "tied": tied, "offsets": offsets, "search": search,
            "transform": transform, "improvement": improvement, "explore": bool(explore),
        }  # fmt: skip
        self._variant = Settings(leaf, tied, offsets, self._fidelity["context"], improvement)
        self._features = self._features_of(self.context is not None)
        self._bend = ""  # the name of the transform that was chosen last
        self._named: dict[tuple[str, object], float] = {}  # hyperparameters by name: which there are depends on what was visited

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._method}

    def _features_of(self, fidelity: bool) -> Features:
        return Features(self._plain, self._method["shared"], self._method["weights"], self.seed, fidelity)

    def _block_of(self, path: Path) -> Path:
        return path

    # Proposing

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self._fit()
            known = known_paths(self._plain, fitted.visited, rng)
            if self._draws():
                return self._drawn(fitted, self._places(fitted, known, rng), rng)
            posterior, success = self._with_pending(fitted, rng), self._success()
            if self._method["search"] == "two-step":
                return self._with_lengths(fitted, self._two_step(fitted, posterior, success, known, rng))
            k = MOST_PATHS if self._method["search"] == "all" else int(self._method["search"])
            first = posterior.parts[0]
            paths = promising(self._plain, known, lambda p, rows: optimistic(first, p, rows, fitted.best), k, rng)
            candidates = self._maximize(fitted, posterior, success, paths, rng)
            found = self._elsewhere(candidates, success, known, rng)
            return self._suggested(fitted, posterior, success, found)

    def _maximize(
        self,
        fitted: Fitted[TreePosterior],
        posterior: TreePosterior | Together,
        success: Success | None,
        paths: list[Path],
        rng: np.random.Generator,
        like: Array | None = None,
    ) -> list[Candidate]:
        """Full log-EI, eq. (5), on some paths, weighed by each path's chance of a valid value."""
        score, slope = self._gains(posterior, success)
        model = fitted.around[fitted.visited[0]][0]
        return maximize(self._plain, paths, score, slope, fitted.around, rng, like=like, model=model)

    def _two_step(
        self,
        fitted: Fitted[TreePosterior],
        posterior: TreePosterior | Together,
        success: Success | None,
        paths: list[Path],
        rng: np.random.Generator,
    ) -> list[Candidate]:
        """Section 3.2: the path and its shared parameters by path-EI, eq. (6), then the leaf's own by EI, eq. (5)."""

        one = posterior.parts[0]

        def score(path: Path, rows: Array) -> Array:
            return log_path_ei(one, path, rows, fitted.best)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            return log_ei_at(*one.gradient(path, row, whole=False), fitted.best)

        first = maximize(self._plain, paths, score, slope, {}, rng)[0]
        return self._maximize(fitted, posterior, success, [first.path], rng, like=first.row)

    # The model

    def _fit(self, remember: bool = True, target: float | None = None) -> Fitted[TreePosterior]:
        known = self._known()
        data = self._enough(known)
        due = len(known.losses) >= next_fit(self._fitted_to, REFIT)
        target = self._target(data) if target is None else target
        scales = self._transforms(known)
        name, fitted, theta = self._fit_to(data, scales, target, self._named, due)
        if due and remember:
            self._named.update(theta)
            self._bend, self._fitted_to = name, len(known.losses)
        return fitted

    def _final(self) -> Fitted[Any]:
        """What is answered is averaged over likely hyperparameters: to interpolate is not to be certain."""
        data = self._enough(known := self._known())
        scale, model, theta = self._chosen(data, self._transforms(known), self._named, FINAL_EVALUATIONS)[1:]
        members = model.ensemble(theta, np.random.default_rng([self.seed, 11, len(known.losses)]))
        members.sort(key=lambda member: -member.weight)  # the more likely ones first: they explain the decisions
        parts = [model.posterior(member.theta, 1.0) for member in members]
        posterior = Together(parts, np.array([member.weight for member in members]))
        return fitted_to(posterior, scale, data.rows[:, : self._plain.d], posterior.target_means(), data.paths)

    def _chosen(
        self, data: Losses, scales: dict[str, Transform], previous: dict | None, evaluations: int
    ) -> tuple[str, Transform, TreeModel, Array]:
        """The transform under which the data are most likely, with its name, the model and the most likely theta."""
        valid = np.array([trial.status not in FAILED for trial in data.trials], dtype=bool)
        found = []
        for name, scale in scales.items():
            model = self._model(data.rows, scale.forward(data.losses), data.paths)
            theta, value = model.best(previous, evaluations)
            found.append((value - float(np.sum(scale.log_slope(data.losses[valid]))), name, scale, model, theta))
        return min(found, key=lambda entry: entry[0])[1:]

    def _fit_to(
        self,
        data: Losses,
        scales: dict[str, Transform],
        target: float,
        previous: dict | None = None,
        estimate: bool = True,
    ) -> tuple[str, Fitted[TreePosterior], dict[tuple[str, object], float]]:
        """The posterior for some data, with transform and hyperparameters estimated from it or as they were; and those."""
        if estimate:
            name, scale, model, theta = self._chosen(data, scales, previous, EVALUATIONS)
        else:
            name = self._bend if self._bend in scales else next(iter(scales))
            scale = scales[name]
            model = self._model(data.rows, scale.forward(data.losses), data.paths)
            theta = model.start(previous)
        posterior = model.posterior(theta, target)
        good = model.y if self.context is None else posterior.target_means()
        return name, fitted_to(posterior, scale, data.rows[:, : self._plain.d], good, data.paths), model.named(theta)

    def _model(self, rows: Array, y: Array, paths: Sequence[Path]) -> TreeModel:
        if self._features.fidelity != (self.context is not None):  # fidelities were announced on the way
            self._features = self._features_of(self.context is not None)
        return TreeModel(self._plain, self._features, rows, y, paths, self._variant)

    def _alone(self, data: Losses) -> Fitted[TreePosterior]:
        target = float(data.rows[:, -1].max()) if self.context is not None else 1.0
        return self._fit_to(data, TRANSFORMS[self._method["transform"]](data.losses), target)[1]

    def _describe(self, fitted: Fitted[TreePosterior], trial: Trial) -> dict[str, float]:
        row = self._plain_rows(trial)
        likely = fitted.posterior.parts[0]
        mean, sd = self._in_units(fitted, likely.predict_path(trial.path, row))
        log_ei_of_path = float(log_path_ei(likely, trial.path, row, fitted.best)[0])
        return {"path_mean": mean, "path_sd": sd, "log_path_ei": log_ei_of_path}

    def _annotate(self, fitted: Fitted[TreePosterior], table: pandas.DataFrame, title: str) -> Explanation:
        edges = self._edges(fitted)
        shown = edges.to_string(index=False, float_format="{:.3g}".format)
        notes = f"weights of the decisions (standardised; lower is better)\n{shown}"
        return Explanation(table, title=title, notes=notes if len(edges) else "", edges=edges)

    def _edges(self, fitted: Fitted[TreePosterior]) -> pandas.DataFrame:
        import pandas

        likely = fitted.posterior.parts[0]
        mean, sd = likely.weight_posterior()
        touched = set(likely.columns.tolist())
        records = [
            {"edge": self._features.label(column), "mean": mean[column], "sd": sd[column]}
            for column in np.flatnonzero(self._features.group == EDGE).tolist()
            if column in touched
        ]
        return pandas.DataFrame(records, columns=["edge", "mean", "sd"])

    # State

    def _method_state(self) -> dict[str, Any]:
        return {**super()._method_state(), "theta": dump_named(self._named), "transform": self._bend}

    def _restore_method(self, state: dict[str, Any]) -> None:
        super()._restore_method({**state, "theta": None})
        self._named, self._bend = load_named(state["theta"]), str(state["transform"])
