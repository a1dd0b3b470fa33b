"""Expected improvement under the treed model, over the whole space or a finite pool. See `optimizers.htbo` for the method."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from raytree.acquisition import pending as running_trials
from raytree.acquisition.improvement import log_improvement, log_improvement_slope
from raytree.acquisition.maximize import EXACT, Candidate, Gain, box_of, refine
from raytree.acquisition.paths import known_paths
from raytree.design import Design, shifted_net
from raytree.errors import StateError
from raytree.explain import Explanation, Notes
from raytree.gp.inference import next_fit
from raytree.gp.linalg import Array, one_thread
from raytree.gp.posterior import Mixture, Prediction
from raytree.gp.transform import Transform
from raytree.models.inputs import Inputs
from raytree.models.partition import Node
from raytree.models.success import Success
from raytree.models.treed import Partitioned, TreedGP, WarpedKernel
from raytree.space import Categorical, Path, Point
from raytree.store import Data, Trial
from raytree.strategies.answers import answer, explained
from raytree.strategies.base import Answer, Search, Strategy
from raytree.strategies.fitted import (
    Chances,
    Fitted,
    Scaled,
    dump_theta,
    enough,
    fitted_to,
    latest,
    load_theta,
    most_likely,
    transforms,
)
from raytree.strategies.improvement import EXPLORE_EVERY, MOST_PATHS, NEGLIGIBLE
from raytree.strategies.pool import Pool

EVALUATIONS = 20
"""Of eq. (2), for the whole."""
LEAF_EVALUATIONS = (3, 12)
"""For every leaf from there, at least and at most."""
LEAVES_TOGETHER = 80
"""For all leaves together."""
REFIT = 20
"""Hyperparameters of the whole are estimated well when there is one new observation for so many old ones."""
BURN_IN = 100
"""Sweeps of the slice sampler before the first suggestion."""
DRAWS = 10
"""Samples of hyperparameters for each suggestion."""
SOBOL = 2**12
"""Sobol points at which EI is looked at; the paper has 20,000."""
LARGEST_SOBOL = 1_000_000
SPRAY = 10
"""Points around the best observation."""
SPREAD = 1e-3
"""Their deviation from it."""
REFINED = 4
"""How many of the best points are refined."""
STEPS = 15
"""With how many gradients."""
CLOSE = 0.05
"""Of the unit interval: a leaf ends at its last point, and beyond it another one expects nothing, so that a search can creep."""
RESERVE = 32
"""Rows handed on against duplicates."""
MOST_DRAWN = 512
"""Rows of a pool among which a drawn function is minimised."""


class TreedInference:
    """The treed model over the course of a search.

    Args:
        search: what to work on.
        warp: whether ordered parameters are warped.
        tree: whether there is a tree.
        conditioning: "all" or "leaf".
        sampled: whether hyperparameters are sampled for every suggestion.
        transform: the setting.
        centred: whether priors of leaves are centred at the whole.
        thin: the most points of a node above a leaf; None for all.
    """

    def __init__(
        self,
        search: Search,
        warp: bool,
        tree: bool,
        conditioning: str,
        sampled: bool,
        transform: str,
        centred: bool,
        thin: int | None,
    ) -> None:
        self._search, self.inputs = search, Inputs(search.space, "hamming", True, 2, search.seed)
        self._warp, self._tree, self._conditioning, self._sampled = warp, tree, conditioning, sampled
        self._transform, self._centred, self._thin = transform, centred, thin
        self._theta: Array | None = None
        self._scale = ""  # the name of the transform that was chosen last
        self.fitted_to = 0

    def block_of(self, path: Path) -> Path:
        return ()

    def _model(self, data: Data, y: Array) -> TreedGP:
        return TreedGP(
            self._search.space, self.inputs, data.rows, y, self._warp, self._tree, self._conditioning, self._search.seed,
            self._centred, self._thin,
        )  # fmt: skip

    def _whole(self, data: Data, scales: dict[str, Transform], due: bool) -> Scaled[TreedGP]:
        """The model with the hyperparameters of the whole: estimated on the most likely scale, or as they were."""
        if not due and self._theta is not None and self._scale in scales:
            scale = scales[self._scale]
            return Scaled(self._scale, scale, self._model(data, scale.forward(data.losses)), self._theta)

        def fit(y: Array) -> tuple[TreedGP, Array, float]:
            model = self._model(data, y)
            return model, *model.fit_whole(self._theta, EVALUATIONS)

        return most_likely(data, scales, fit)

    def fit(self, data: Data, remember: bool = True) -> Fitted[Partitioned]:
        """The model for what is known now; looking (`remember=False`) leaves no trace."""
        known, scales = len(data.losses), transforms(self._transform, data)
        data = enough(data, self.block_of)
        due = known >= next_fit(self.fitted_to, REFIT)
        if self._sampled:
            name, scale = next(iter(scales.items()))
            model = self._model(data, scale.forward(data.losses))
            rng = np.random.default_rng([self._search.seed, 5, known])
            whole, thetas = model.sample(self._theta, rng, DRAWS, BURN_IN)
        else:
            name, scale, model, whole = self._whole(data, scales, due)
            each = int(np.clip(LEAVES_TOGETHER // len(model.paths), *LEAF_EVALUATIONS))
            thetas = model.fit_leaves(whole, each)
        if remember:
            self._theta, self._scale = whole, name
            self.fitted_to = known if due else self.fitted_to
        return fitted_to(model.posterior(thetas), scale, data.rows, model.y, data.paths)

    def notes(self, fitted: Fitted[Partitioned]) -> Notes:
        """The leaves, in words."""
        posterior, lines = fitted.posterior, []
        for leaf, path in zip(posterior.leaves, posterior.root.walk(), strict=True):
            rules = [self.rule(node, child) for node, child in itertools.pairwise(path)]
            kernels = [part.process.kernel for part in leaf.parts]
            theta = np.mean([kernel.theta for kernel in kernels if isinstance(kernel, WarpedKernel)], axis=0)
            mean = self._search.trials.sign * float(fitted.scale.backward(np.array([theta[2]]))[0])
            lengths = np.exp(theta[3 : 3 + self.inputs.n_lengths])
            shown = ", ".join(f"{label} {length:.2g}" for label, length in zip(self.inputs.labels, lengths, strict=True))
            rule = " and ".join(rules) or "everywhere"
            lines.append(f"  {rule}: {len(path[-1].rows)} points, mean {mean:.4g}, length-scales {shown}")
        return Notes("leaves (points on a border are in both)\n" + "\n".join(lines))

    def rule(self, node: Node, child: Node) -> str:
        """What leads from a node to one of its children, in words."""
        space = self._search.space
        name, domain, _ = space.parameters[node.parameter]
        value = domain.render(domain.code(node.at))
        if node.equality:
            cells = space.cells.get(node.parameter)
            shown = cells.labels[int(domain.code(node.at))] if cells is not None and isinstance(domain, Categorical) else value
            return f"{name} {'is' if child is node.low else 'is not'} {shown}"
        shown = f"{value:.4g}" if isinstance(value, float) else value
        return f"{name} {'<=' if child is node.low else '>='} {shown}"

    def state(self) -> dict[str, Any]:
        return {"theta": dump_theta(self._theta), "transform": self._scale, "fitted_to": self.fitted_to}

    def restore(self, state: dict[str, Any]) -> None:
        laws = int(np.sum(self.inputs.indicator < 0)) if self._warp else 0
        self._theta = load_theta(state["theta"], 3 + self.inputs.n_lengths + 2 * laws)
        self._scale, self.fitted_to = str(state["transform"]), int(state["fitted_to"])


class TreedStrategy(Strategy):
    """Expected improvement under the treed model, over the whole space or a finite pool.

    Args:
        search: what to work on.
        inference: the model.
        treatment: of running trials, see `acquisition.pending`.
        pool: the only configurations there are, if they are finite.
        explore: whether to look where the model is least certain when it expects nothing, or only digits.
        sobol: points at which improvement is looked at.
    """

    def __init__(
        self, search: Search, inference: TreedInference, treatment: str, pool: Pool | None, explore: bool, sobol: int
    ) -> None:
        super().__init__(search)
        self.inference, self.treatment, self.pool = inference, treatment, pool
        self.explore, self.sobol = explore, sobol
        self.chances = Chances(search)

    # Rows without a model

    def ready(self) -> bool:
        return bool(self.search.trials.complete())

    def initial(self, design: Design, k: int) -> Array:
        row = design.row(k)
        return row if self.pool is None else self.pool.nearest(row, self.search.trials)

    def at_random(self, rng: np.random.Generator, n: int) -> Array:
        return super().at_random(rng, n) if self.pool is None else self.pool.rows[rng.integers(len(self.pool.rows), size=n)]

    def leftover(self, rng: np.random.Generator) -> Point | None:
        if self.pool is None:
            return super().leftover(rng)
        left = self.pool.left(self.search.trials)
        return self.pool.points[left[int(rng.integers(len(left)))]] if len(left) else None

    # Proposing

    def known(self, remember: bool = False) -> Data:
        """All that is known."""
        return self.chances.believable(self.search.trials.losses(), remember)

    def measured(self) -> Data:
        """What the model of an answer is fitted to."""
        return self.chances.measured(self.search.trials.losses())

    def fit(self, remember: bool = True) -> Fitted[Partitioned]:
        """The model for what is known now."""
        return self.inference.fit(self.known(remember), remember)

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            space = self.search.space
            fitted = self.fit()
            if self.treatment == "thompson" and self.search.trials.running():
                rows = self._drawn_from(fitted, rng)
                return running_trials.lowest_of_drawn(fitted.posterior, rows, space.paths_of(rows), rng)
            posterior, success = self._with_running(fitted.posterior, rng), self.chances.now()
            if self.pool is not None:
                rows = self.pool.rows[self.pool.left(self.search.trials)]
                best_first = np.argsort(-self.scores(posterior, success, rows), kind="stable")
                return list(rows[best_first[:RESERVE]])
            best = fitted.best_row[None]
            spray = np.where(np.isnan(best), 0.5, best) + SPREAD * rng.normal(size=(SPRAY, space.d))
            units = shifted_net(self.sobol, space.d, rng)
            rows = space.mask(np.vstack([units, np.clip(spray, 0.0, 1.0)]))
            values = self.scores(posterior, success, rows)
            order = np.argsort(-values, kind="stable")
            refined = [self._refined(posterior, success, rows[k], float(values[k])) for k in order[:REFINED].tolist()]
            refined.sort(key=lambda candidate: -candidate.value)
            found = [*(candidate.row for candidate in refined), *rows[order[:RESERVE]]]
            settled = refined[0].value < math.log(NEGLIGIBLE) or self.is_close(refined[0].row)
            if self.explore and settled and ask % EXPLORE_EVERY == 0:
                unknown = posterior.predict((), rows).sd  # of all leaves: large where a leaf's function is rough
                found.insert(0, rows[int(np.argmax(unknown))])
            return found

    def _with_running(self, posterior: Partitioned, rng: np.random.Generator) -> Partitioned:
        """A posterior that knows of running trials."""
        trials = latest(self.search.trials.running(), self.inference.block_of)
        if not trials or self.treatment == "ignore":
            return posterior
        rows, paths = np.array([trial.row for trial in trials]), [trial.path for trial in trials]
        if self.treatment != "fantasy":
            return posterior.condition(rows, paths)
        guesses = running_trials.draws(posterior, rows, paths, running_trials.FANTASIES, rng)
        each = [posterior.condition(rows, paths, values) for values in guesses]
        leaves = zip(*(made.leaves for made in each), strict=True)
        return posterior.with_leaves([Mixture([part for mixture in leaf for part in mixture.parts]) for leaf in leaves])

    def is_close(self, row: Array) -> bool:
        """Whether a trial was so close to a row that another one there is a matter of digits."""
        known = np.array([trial.row for trial in self.search.trials])
        apart = np.where(np.isnan(known) & np.isnan(row), 0.0, np.abs(known - row))
        named = [isinstance(p.domain, Categorical) for p in self.search.space.parameters]
        apart[:, named] = np.where(apart[:, named] > 1e-9, 1.0, apart[:, named])
        return bool(np.min(np.nan_to_num(apart, nan=1.0).max(axis=1, initial=0.0)) < CLOSE)

    def _drawn_from(self, fitted: Fitted[Partitioned], rng: np.random.Generator) -> Array:
        """(m, d) rows among which a drawn function is minimised."""
        space = self.search.space
        if self.pool is None:
            paths = known_paths(space, fitted.visited, rng)[:MOST_PATHS]
            return running_trials.places(space, paths, fitted.around, rng)
        left = self.pool.left(self.search.trials)
        found: Array = self.pool.rows[rng.permutation(left)[:MOST_DRAWN]]
        return found

    def scores(self, posterior: Partitioned, success: Success | None, rows: Array) -> Array:
        """(m,) log-EI averaged over hyperparameters at rows (m, d), weighed by the chance of a valid value."""
        leaves, values = posterior.leaf_of(rows), np.empty(len(rows))
        for leaf in np.unique(leaves).tolist():
            index = leaves == leaf
            values[index] = log_improvement(posterior.leaves[leaf], (), rows[index])
        return values if success is None else values + success.log_chances(self.search.space.paths_of(rows), rows)

    def _refined(self, posterior: Partitioned, success: Success | None, row: Array, value: float) -> Candidate:
        """The score climbed from a row inside its leaf, where it is continuous, and its path."""
        space = self.search.space
        start = Candidate(value, space.path_of(row), row)
        box, leaf = box_of(space, start.path), int(posterior.leaf_of(row[None])[0])
        ends = posterior.boxes()[leaf][box.continuous]
        inside = np.column_stack([np.maximum(box.bounds[:, 0], ends[:, 0]), np.minimum(box.bounds[:, 1], ends[:, 1])])

        def score(path: Path, rows: Array) -> Array:
            return self.scores(posterior, success, rows)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            value, gradient = log_improvement_slope(posterior.leaves[leaf], (), row)
            if success is None:
                return value, gradient
            chance, by_row = success.log_chance_slope(path, row)
            return value + chance, gradient + by_row

        return refine(space, start, box._replace(bounds=inside), Gain(score, slope), STEPS, EXACT)

    # Answers

    def final(self) -> Fitted[Partitioned]:
        """The model to answer questions from."""
        return self.inference.fit(self.measured(), remember=False)

    def answer(self) -> Answer | None:
        return self.answer_from(self.final)

    def answer_from(self, fit: Callable[[], Fitted[Partitioned]]) -> Answer | None:
        """The answer that a model gives."""
        trials = enough(self.measured(), self.inference.block_of).trials
        return answer(self.search, trials, fit, lambda _, valid: list(valid), 0.0) or super().answer()

    def explain(self, title: str) -> Explanation:
        if not self.ready():
            return super().explain(title)

        def describe(fitted: Fitted[Partitioned], trial: Trial, row: Array) -> dict[str, Prediction]:
            return {"model": fitted.posterior.predict(trial.path, row)}

        return explained(self.search, title, self.final, describe, self.inference.notes)

    # State

    def state(self) -> dict[str, Any]:
        pool = None if self.pool is None else self.pool.fingerprint
        return {"inference": self.inference.state(), "success": self.chances.state(), "candidates": pool}

    def restore(self, state: dict[str, Any]) -> None:
        self.inference.restore(state["inference"])
        self.chances.restore(state["success"])
        if state["candidates"] != (None if self.pool is None else self.pool.fingerprint):
            raise StateError("candidates", "are not those of the saved search.", "Give the same candidates, in the same order.")
