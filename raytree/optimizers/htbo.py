"""Heteroscedastic treed Bayesian optimization (Assael et al. 2014): objectives that change character across the space.

A regression tree cuts the space where the values change; every leaf has a Gaussian process with hyperparameters of its own,
which borrow from the leaf's ancestors (`models.treed`). `BO` and `BO_WARP` are the paper's baselines with the same inference.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import qmc

from raytree.acquisition.improvement import log_ei
from raytree.acquisition.maximize import EXACT, Candidate, box_of, numeric_slope, refine
from raytree.acquisition.paths import known_paths
from raytree.errors import StateError, one_of
from raytree.explain import Explanation
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import TRANSFORMS
from raytree.models.inputs import Inputs
from raytree.models.partition import Node
from raytree.models.success import Success
from raytree.models.treed import TreedGP, TreedPosterior
from raytree.optimizers.pool import Pool
from raytree.optimizers.surrogate import EXPLORE_EVERY, NEGLIGIBLE, Fitted, SurrogateOptimizer, fitted_to, next_fit
from raytree.space import Categorical, Path, Point

BO: dict[str, Any] = {"tree": False}
BO_WARP: dict[str, Any] = {"tree": False, "warp": True}

EVALUATIONS, LEAF_EVALUATIONS, LEAVES_TOGETHER = 20, (3, 12), 160
"""Of eq. (2): for the whole; for every leaf from there, at least and at most; for all leaves together."""
BURN_IN, DRAWS = 100, 10
CANDIDATES, SPRAY, SPREAD = 2**14, 10, 1e-3
"""Sobol points, and points around the best observation with their deviation."""
REFINED, STEPS = 4, 15
"""How many of the best are refined, with how many gradients."""
CLOSE = 0.05
"""Of the unit interval: a leaf ends at its last point, and beyond it another one expects nothing, so that a search can creep."""
RESERVE, MOST_DRAWN = 32, 512
"""Rows handed on against duplicates, and rows of a pool among which a drawn function is minimised."""


class HTBOOptimizer(SurrogateOptimizer[TreedPosterior]):
    """Bayesian optimization with a Gaussian process per leaf of a regression tree.

    Args:
        space: the search space.
        warp: whether ordered parameters are warped by Beta laws, estimated too.
        conditioning: what a leaf's predictions are conditioned on: "all" observations or those of the "leaf".
        inference: of hyperparameters: "map", or "slice" (EI is averaged over samples).
        tree: whether there is a tree at all.
        transform: of the losses, see `gp.transform`: "robust", or "linear" (the paper).
        candidates: if given, only these configurations are ever suggested, each once: a list of configurations, a DataFrame with
            a column per parameter, or an array (n, d) in the order of the space's parameters. Not part of a saved state: give
            them again to restore.
        settings: of every optimizer with a model, see `SurrogateOptimizer` and `Optimizer`. With `max_t` only complete trials
            count.
    """

    OBJECTS = ("candidates",)

    def __init__(
        self,
        space: Any,
        *,
        warp: bool = False,
        conditioning: str = "all",
        inference: str = "map",
        tree: bool = True,
        transform: str = "robust",
        candidates: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(space, **settings)
        one_of("conditioning", conditioning, ("all", "leaf"))
        one_of("inference", inference, ("map", "slice"))
        one_of("transform", transform, TRANSFORMS)
        self._method: dict[str, Any] = {
            "warp": bool(warp), "conditioning": conditioning, "inference": inference, "tree": bool(tree),
            "transform": transform,
        }  # fmt: skip
        self._pool = Pool(self.space, candidates) if candidates is not None and self.space.d else None
        self._inputs = Inputs(self.space, "hamming", True, 2, self.seed)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._method}

    # A finite pool

    def _initial(self, k: int) -> Array:
        row = super()._initial(k)
        return row if self._pool is None else self._pool.nearest(row, self.observations)

    def _at_random(self, rng: np.random.Generator, n: int) -> Array:
        return super()._at_random(rng, n) if self._pool is None else self._pool.rows[rng.integers(len(self._pool.rows), size=n)]

    def _leftover(self, rng: np.random.Generator) -> Point | None:
        if self._pool is None:
            return super()._leftover(rng)
        left = self._pool.left(self.observations)
        return self._pool.points[left[int(rng.integers(len(left)))]] if len(left) else None

    # Proposing

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self._fit()
            if self._draws():
                return self._drawn(fitted, self._drawn_from(fitted, rng), rng)
            posterior, success = self._with_pending(fitted, rng), self._success()
            if self._pool is not None:
                rows = self._pool.rows[self._pool.left(self.observations)]
                return rows[np.argsort(-self._scores(posterior, success, rows), kind="stable")[:RESERVE]]
            best = fitted.around[fitted.visited[0]][:1]
            spray = np.where(np.isnan(best), 0.5, best) + SPREAD * rng.normal(size=(SPRAY, self.space.d))
            units = qmc.Sobol(self.space.d, scramble=True, rng=rng).random(CANDIDATES) if self.space.d else np.empty((1, 0))
            rows = self.space.mask(np.vstack([units, np.clip(spray, 0.0, 1.0)]))
            values = self._scores(posterior, success, rows)
            order = np.argsort(-values, kind="stable")
            refined = [self._refined(posterior, success, rows[k], float(values[k])) for k in order[:REFINED].tolist()]
            refined.sort(key=lambda candidate: -candidate.value)
            found = [*(candidate.row for candidate in refined), *rows[order[:RESERVE]]]
            settled = refined[0].value < math.log(NEGLIGIBLE) or self._is_close(refined[0].row)
            if settled and self._asks % EXPLORE_EVERY == 0:
                unknown = posterior.predict((), rows).sd  # of all leaves: large where a leaf's function is rough
                found.insert(0, rows[int(np.argmax(unknown))])
            return found

    def _is_close(self, row: Array) -> bool:
        """Whether a trial was so close to a row that another one there is a matter of digits."""
        known = np.array([trial.row for trial in self.observations])
        apart = np.where(np.isnan(known) & np.isnan(row), 0.0, np.abs(known - row))
        named = [isinstance(p.domain, Categorical) for p in self.space.parameters]
        apart[:, named] = np.where(apart[:, named] > 1e-9, 1.0, apart[:, named])
        return bool(np.min(np.nan_to_num(apart, nan=1.0).max(axis=1, initial=0.0)) < CLOSE)

    def _drawn_from(self, fitted: Fitted[TreedPosterior], rng: np.random.Generator) -> Array:
        """(m, d) rows among which a drawn function is minimised."""
        if self._pool is None:
            return self._places(fitted, known_paths(self.space, fitted.visited, rng), rng)
        left = self._pool.left(self.observations)
        return self._pool.rows[rng.permutation(left)[:MOST_DRAWN]]

    def _scores(self, posterior: TreedPosterior, success: Success | None, rows: Array) -> Array:
        """(m,) log-EI averaged over hyperparameters at rows (m, d), weighed by the chance of a valid value."""
        numbers, leaves = self._inputs(rows), posterior.leaves(rows)
        values = np.empty(len(rows))
        for leaf in np.unique(leaves).tolist():
            index = leaves == leaf
            lowest = [fit.lowest for fit in posterior.fits[leaf]]
            predictions = posterior.each(leaf, numbers[index])
            each = [log_ei(p.mean, p.sd, best) for p, best in zip(predictions, lowest, strict=True)]
            values[index] = np.logaddexp.reduce(each, axis=0) - math.log(len(each))
        return values if success is None else values + success.log_chances(self.space.paths_of(rows), rows)

    def _refined(self, posterior: TreedPosterior, success: Success | None, row: Array, value: float) -> Candidate:
        """The score climbed from a row inside its leaf, where it is continuous, and its path."""
        start = Candidate(value, self.space.path_of(row), row)
        box = box_of(self.space, start.path)
        leaf = posterior.boxes()[int(posterior.leaves(row[None])[0])][box.continuous]
        inside = np.column_stack([np.maximum(box.bounds[:, 0], leaf[:, 0]), np.minimum(box.bounds[:, 1], leaf[:, 1])])
        box = box._replace(bounds=inside)

        def score(path: Path, rows: Array) -> Array:
            return self._scores(posterior, success, rows)

        return refine(self.space, start, box, score, numeric_slope(score, box), STEPS, EXACT)

    # The model

    def _fit(self, remember: bool = True) -> Fitted[TreedPosterior]:
        known = self._known()
        rows, losses, paths, _ = self._enough(known)
        scale = self._transform(known)
        y = scale.forward(losses)
        method = self._method
        model = TreedGP(self.space, self._inputs, rows, y, method["warp"], method["tree"], method["conditioning"], self.seed)
        due = method["inference"] == "slice" or len(known.losses) >= next_fit(self._fitted_to)
        if method["inference"] == "slice":
            rng = np.random.default_rng([self.seed, 5, self._asks])
            whole, thetas = model.sample(self._theta, rng, DRAWS, BURN_IN)
        else:
            each = int(np.clip(LEAVES_TOGETHER // len(model.paths), *LEAF_EVALUATIONS))
            whole, thetas = model.fit(self._theta, EVALUATIONS if due else 2, each)
        if remember:
            self._theta, self._fitted_to = whole, len(known.losses) if due else self._fitted_to
        return fitted_to(model.posterior(thetas), scale, rows, y, paths)

    def _annotate(self, fitted: Fitted[TreedPosterior], table: Any, title: str) -> Explanation:
        posterior = fitted.posterior
        lines = []
        for fits, path in zip(posterior.fits, posterior.model.paths, strict=True):
            rules = [self._rule(node, child) for node, child in itertools.pairwise(path)]
            theta = np.mean([fit.theta for fit in fits], axis=0)
            mean = self.observations.sign * float(fitted.scale.backward(np.array([theta[2]]))[0])
            lengths = np.exp(theta[3 : 3 + self._inputs.n_lengths])
            shown = ", ".join(f"{label} {length:.2g}" for label, length in zip(self._inputs.labels, lengths, strict=True))
            rule = " and ".join(rules) or "everywhere"
            lines.append(f"  {rule}: {len(path[-1].rows)} points, mean {mean:.4g}, length-scales {shown}")
        return Explanation(table, title=title, notes="leaves (points on a border are in both)\n" + "\n".join(lines))

    def _rule(self, node: Node, child: Node) -> str:
        name, domain, _ = self.space.parameters[node.parameter]
        value = domain.render(domain.code(node.at))
        if node.equality:
            cells = self.space.cells.get(node.parameter)
            shown = cells.labels[int(domain.code(node.at))] if cells is not None and isinstance(domain, Categorical) else value
            return f"{name} {'is' if child is node.low else 'is not'} {shown}"
        shown = f"{value:.4g}" if isinstance(value, float) else value
        return f"{name} {'<=' if child is node.low else '>='} {shown}"

    # State

    def _theta_length(self) -> int:
        laws = sum(mark < 0 for mark in self._inputs.indicator) if self._method["warp"] else 0
        return 3 + self._inputs.n_lengths + 2 * laws

    def _method_state(self) -> dict[str, Any]:
        return {**super()._method_state(), "candidates": None if self._pool is None else self._pool.fingerprint}

    def _restore_method(self, state: dict[str, Any]) -> None:
        super()._restore_method(state)
        if state["candidates"] != (None if self._pool is None else self._pool.fingerprint):
            raise StateError("candidates", "are not those of the saved search.", "Give the same candidates, in the same order.")
