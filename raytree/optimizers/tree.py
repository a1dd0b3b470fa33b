"""Tree-structured Bayesian optimization (Jenatton et al. 2017): the model of `models.tree`, expected improvement on paths.

The defaults are ours: a weight per edge, smooth functions of shared parameters, leaf kernels over everything that is alive,
tied hyperparameters, log-EI on every promising path. `PAPER` and `PAPER_NONLINEAR` are the paper's method, `INDEPENDENT` and
`MARGINAL` two of its baselines: `TreeOptimizer(space, **PAPER)`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raytree.acquisition.explore import farthest, least_tried
from raytree.acquisition.improvement import log_ei, log_ei_at
from raytree.acquisition.maximize import Candidate, maximize
from raytree.acquisition.paths import known_paths, log_path_ei, promising
from raytree.errors import SettingError
from raytree.explain import Explanation, path_table
from raytree.gp.linalg import Array, one_thread
from raytree.models.features import EDGE, Features
from raytree.models.tree import Settings, TreeModel
from raytree.models.tree_posterior import TreePosterior
from raytree.observations import Status
from raytree.optimizer import Optimizer, Recommendation
from raytree.scaling import Scale, scale_of
from raytree.space import Path

if TYPE_CHECKING:
    import pandas

PAPER: dict[str, Any] = {
    "shared": "linear", "weights": "nodes", "leaf": "own", "offsets": True, "search": "two-step", "compress": False,
    "explore": False,
}  # fmt: skip
PAPER_NONLINEAR: dict[str, Any] = {**PAPER, "shared": "fourier"}
INDEPENDENT: dict[str, Any] = {
    "shared": "none", "weights": "none", "leaf": "alive", "offsets": True, "tied": False, "search": "all", "compress": False,
    "explore": False,
}  # fmt: skip
MARGINAL: dict[str, Any] = {**PAPER, "search": "all"}

MOST_PATHS = 24
"""With more paths than this, full EI is for the most promising ones."""
EVALUATIONS = 40
"""Of the likelihood in one fit."""
NEGLIGIBLE, EXPLORE_EVERY = 1e-4, 2
"""Below this expected improvement, in standardised units, every second suggestion goes where little was tried."""
ACQUAINT_EVERY = 4
"""Every so many suggestions one goes to a path with no more trials than parameters of its own, if paths are few."""
SAME = 1e-3
"""Of the unit interval: a running trial this close makes a second one pointless."""


class Fitted(NamedTuple):
    """A posterior with what is needed to use it: `best` the lowest mean at an observation, `around` good rows by path."""

    posterior: TreePosterior
    scale: Scale
    best: float
    around: dict[Path, Array]
    visited: list[Path]  # best first
    theta: dict[tuple[str, object], float]


class TreeOptimizer(Optimizer):
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
        compress: whether losses above the median are compressed.
        explore: whether some suggestions go to the path that was tried least, see `acquisition.explore`.
        settings: of every optimizer, see `Optimizer`.
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
        compress: bool = True,
        explore: bool = True,
        **settings: Any,
    ) -> None:
        super().__init__(space, **settings)
        if leaf not in ("alive", "own"):
            raise SettingError("leaf", f"must be 'alive' or 'own', got {leaf!r}.")
        if search not in ("all", "two-step") and not (type(search) is int and search > 0):
            raise SettingError("search", f"must be 'all', 'two-step' or a number of paths, got {search!r}.")
        self._method: dict[str, Any] = {
            "shared": shared, "weights": weights, "leaf": leaf, "tied": tied, "offsets": offsets, "search": search,
            "compress": compress, "explore": explore,
        }  # fmt: skip
        self._features = Features(self.space, shared, weights, self.seed)
        self._variant = Settings(leaf, tied, offsets)
        self._theta: dict[tuple[str, object], float] = {}
        self._fitted_to = 0

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._method}

    # Proposing

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self._fit()
            posterior = self._with_pending(fitted)
            known = known_paths(self.space, fitted.visited, rng)
            if self._method["search"] == "two-step":
                return [candidate.row for candidate in self._two_step(fitted, posterior, known, rng)]
            k = MOST_PATHS if self._method["search"] == "all" else int(self._method["search"])
            paths = promising(self.space, posterior, known, fitted.best, k, rng)
            candidates = self._maximize(fitted, posterior, paths, rng)
            rows = [candidate.row for candidate in candidates]
            if not self._method["explore"]:
                return rows
            settled = candidates[0].value < math.log(NEGLIGIBLE) and self._asks % EXPLORE_EVERY == 0
            if settled or self._is_running(candidates[0]):
                rows = self._explore(known, rng) + rows
            elif self._asks % ACQUAINT_EVERY == 0 and self.space.n_paths <= MOST_PATHS:
                rows = self._explore([path for path in known if self._is_strange(path)], rng) + rows
        return rows

    def _is_strange(self, path: Path) -> bool:
        """Whether a path has no more trials than parameters of its own: what the model says of its best is a guess."""
        own = [i for i in self.space.free(path) if i not in self.space.shared]
        return sum(trial.path == path for trial in self.observations) <= len(own)

    def _is_running(self, candidate: Candidate) -> bool:
        """Whether a running trial is so close that another would add nothing before its result is known."""
        near = (trial.row for trial in self.pending if trial.path == candidate.path)
        return any(np.nanmax(np.abs(row - candidate.row), initial=0.0) < SAME for row in near)

    def _explore(self, paths: list[Path], rng: np.random.Generator) -> list[Array]:
        """A row on the path that was tried least, for when the model expects nothing any more."""
        path = least_tried(self.space, (trial.path for trial in self.observations), paths, self._log_feasible())
        if path is None:
            return []
        data = self.observations.losses()
        here = [k for k, p in enumerate(data.paths) if p == path]
        if self._is_strange(path) or len(here) <= len(self.space.free(path)):
            rows = [trial.row for trial in self.observations if trial.path == path]
            return [farthest(self.space, path, np.array(rows), rng)]
        alone = self._fit_to(data.rows[here], data.losses[here], [path] * len(here))
        return [self._maximize(alone, self._with_pending(alone), [path], rng)[0].row]

    def _maximize(
        self,
        fitted: Fitted,
        posterior: TreePosterior,
        paths: list[Path],
        rng: np.random.Generator,
        like: Array | None = None,
    ) -> list[Candidate]:
        """Full log-EI, eq. (5), on some paths, weighed by each path's chance of a valid value."""
        chance = self._log_feasible()

        def score(path: Path, rows: Array) -> Array:
            prediction = posterior.predict(path, rows)
            return log_ei(prediction.mean, prediction.sd, fitted.best) + chance.get(path, 0.0)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            value, gradient = log_ei_at(*posterior.gradient(path, row), fitted.best)
            return value + chance.get(path, 0.0), gradient

        return maximize(self.space, paths, score, slope, fitted.around, rng, like=like)

    def _two_step(self, fitted: Fitted, posterior: TreePosterior, paths: list[Path], rng: np.random.Generator) -> list[Candidate]:
        """Section 3.2: the path and its shared parameters by path-EI, eq. (6), then the leaf's own by EI, eq. (5)."""

        def score(path: Path, rows: Array) -> Array:
            return log_path_ei(posterior, path, rows, fitted.best)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            return log_ei_at(*posterior.gradient(path, row, whole=False), fitted.best)

        first = maximize(self.space, paths, score, slope, {}, rng)[0]
        return self._maximize(fitted, posterior, [first.path], rng, like=first.row)

    def _log_feasible(self) -> dict[Path, float]:
        """Per path the log of its chance to give a valid value: one success is believed in beforehand, never none."""
        good, bad = (
            Counter(trial.path for trial in self.observations.with_status(*which))
            for which in ((Status.FINISHED,), (Status.INVALID, Status.ERRORED))
        )
        return {path: math.log((good[path] + 1) / (good[path] + count + 1)) for path, count in bad.items()}

    # The model

    def _fit(self, remember: bool = True) -> Fitted:
        """The posterior for what is known now; hyperparameters are estimated again when the schedule says so.

        Looking (`remember=False`) leaves no trace: suggestions do not depend on who asked for an explanation in between.
        """
        rows, losses, paths, _ = self.observations.losses()
        due = len(losses) >= _next_fit(self._fitted_to)
        fitted = self._fit_to(rows, losses, paths, self._theta, due)
        if due and remember:
            self._theta.update(fitted.theta)
            self._fitted_to = len(losses)
        return fitted

    def _fit_to(
        self, rows: Array, losses: Array, paths: list[Path], previous: dict | None = None, estimate: bool = True
    ) -> Fitted:
        """The posterior for some data, with hyperparameters estimated from it or as they were."""
        scale = scale_of(losses, self._method["compress"])
        y = scale.forward(losses)
        model = TreeModel(self.space, self._features, rows, y, paths, self._variant)
        theta = model.fit(previous, EVALUATIONS) if estimate else model.start(previous)
        posterior = model.posterior(theta)
        around = {path: rows[index[np.argsort(y[index], kind="stable")[:2]]] for path, index in model.members.items()}
        visited = sorted(model.members, key=lambda path: float(y[model.members[path]].min()))
        return Fitted(posterior, scale, float(posterior.observed_means().min()), around, visited, model.named(theta))

    def _with_pending(self, fitted: Fitted) -> TreePosterior:
        """A posterior that takes running trials to come out as expected."""
        unknown = self.observations.unknown()
        return fitted.posterior.condition(np.array([t.row for t in unknown]), [t.path for t in unknown])

    def recommend(self) -> Recommendation | None:
        """The evaluated configuration with the lowest posterior mean."""
        trials = self.observations.losses().trials
        if not trials:
            return None
        with one_thread():
            fitted = self._fit(remember=False)
            means = fitted.posterior.observed_means()
            valid = [k for k, trial in enumerate(trials) if trial.status is Status.FINISHED]
            k = min(valid, key=lambda k: float(means[k]))
            prediction = fitted.posterior.predict(trials[k].path, trials[k].row[None])
        low, high = fitted.scale.backward(np.array([prediction.mean[0], prediction.mean[0] + prediction.sd[0]]))
        value = float(self.observations.sign * low)
        return Recommendation(self.space.config(trials[k].point), value, float(high - low), trials[k].id)

    def explain(self) -> Explanation:
        """Per path: trials, best value, mean and sd of the path at its best trial, path-EI, share. Per edge: its weight."""
        table = path_table(self.observations)
        if self.observations.best() is None:
            return Explanation(table, title=f"{type(self).__name__}, {len(self.observations)} trials")
        with one_thread():
            fitted = self._fit(remember=False)
            paths = {
                self.space.path_label(trial.path): trial for trial in sorted(self.observations, key=self._loss, reverse=True)
            }
            sign = self.observations.sign
            for label, trial in paths.items():
                row = trial.row[None]
                prediction = fitted.posterior.predict_path(trial.path, row)
                low, high = fitted.scale.backward(np.array([prediction.mean[0], prediction.mean[0] + prediction.sd[0]]))
                where = table["path"] == label
                table.loc[where, "path_mean"] = sign * low
                table.loc[where, "path_sd"] = high - low
                table.loc[where, "log_path_ei"] = float(log_path_ei(fitted.posterior, trial.path, row, fitted.best)[0])
        edges = self._edges(fitted)
        shown = edges.to_string(index=False, float_format="{:.3g}".format)
        notes = f"weights of the decisions (standardised; lower is better)\n{shown}"
        title = f"{type(self).__name__}, {len(self.observations)} trials"
        return Explanation(table, title=title, notes=notes if len(edges) else "", edges=edges)

    def _loss(self, trial: Any) -> float:
        return self.observations.sign * trial.value if trial.value is not None else math.inf

    def _edges(self, fitted: Fitted) -> pandas.DataFrame:
        import pandas

        mean, sd = fitted.posterior.weight_posterior()
        touched = set(fitted.posterior.columns.tolist())
        records = [
            {"edge": self._features.label(column), "mean": mean[column], "sd": sd[column]}
            for column in np.flatnonzero(self._features.group == EDGE).tolist()
            if column in touched
        ]
        return pandas.DataFrame(records, columns=["edge", "mean", "sd"])

    # State

    def _method_state(self) -> dict[str, Any]:
        theta = [
            [kind, list(which) if isinstance(which, tuple) else which, value] for (kind, which), value in self._theta.items()
        ]
        return {"theta": theta, "fitted_to": self._fitted_to}

    def _restore_method(self, state: dict[str, Any]) -> None:
        self._theta = {}
        for kind, which, value in state["theta"]:
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"bad hyperparameter {value!r}")
            self._theta[str(kind), tuple(which) if isinstance(which, list) else which] = float(value)
        self._fitted_to = int(state["fitted_to"])


def _next_fit(fitted_to: int) -> int:
    """How many observations make the next estimate worth its time: one more at first, a twentieth more later."""
    return fitted_to + max(1, fitted_to // 20)
