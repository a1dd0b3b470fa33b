"""Choosing a configuration and a seed: the hierarchical model over the course of a search, and what an evaluation is worth.

See `optimizers.bosh` for the method. The seed is the last parameter of the searched space; only the model and the maximiser
look at it in a way of their own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from raytree.acquisition.entropy import exact_maxima, gumbel_maxima, log_batch_entropy
from raytree.acquisition.knowledge import Knowledge
from raytree.acquisition.maximize import Candidate, Gain, Score, box_of, maximize, numeric_slope
from raytree.acquisition.paths import known_paths, one_by_one, promising
from raytree.design import Design
from raytree.explain import Explanation, Notes
from raytree.gp.inference import next_fit
from raytree.gp.linalg import Array, one_thread
from raytree.gp.posterior import Prediction
from raytree.lazy import optimize
from raytree.models.hierarchical import HierarchicalGP, HierarchicalPosterior, places_of
from raytree.models.inputs import Inputs
from raytree.models.success import Success
from raytree.space import Path, Point, Space
from raytree.store import Data, Trial
from raytree.strategies.answers import answer, explained
from raytree.strategies.base import LISTABLE, Answer, Search, Strategy
from raytree.strategies.fitted import (
    MOST_KNOWN,
    Chances,
    Fitted,
    Scaled,
    dump_theta,
    fitted_to,
    latest,
    load_theta,
    most_likely,
    transforms,
)
from raytree.strategies.improvement import MOST_PATHS
from raytree.strategies.realizations import Seeds

logger = logging.getLogger("raytree")


EVALUATIONS = 40
"""Of the likelihood in one fit, from each of three starts."""
REFIT = 20
"""Hyperparameters are estimated again when there is one new observation for so many old ones."""
PLACES = 1000
"""Where the target is sampled to find its maxima."""
MAXIMA = 10
"""How many maxima are sampled."""
STEP = 1e-5
"""The acquisition is climbed by finite differences of this size."""
STARTS = 5
"""From so many starts: every seed has summits of its own."""
DIRECT_EVALUATIONS = 400
FINALISTS = 16
"""Rows that are valued exactly, on every realization, after a search with a bound."""
ENOUGH = 30
"""Trials after which the seed may be suspected of having no effect."""
NOISY = 0.25
"""If this share of the variance is noise, the seed may be ignored by the trainable."""
EVIDENCE = 2.0
"""It is, if the data are likelier by less than this with seeds than with noise alone (a difference of logarithms)."""
NO_EFFECT = 1e-2
"""Seed and noise together with less than this share of the target's variance seem to have no effect."""

Scores = Callable[[Path, Array], Array]
"""(path, rows (m, d)) -> (m, p) what an evaluation of each on each realization is worth, a logarithm."""


class View(NamedTuple):
    """What the optimizer sees at m rows: mean and sd of the target (m,) in the user's sign and units, and for each seed of the
    pool what an evaluation there would tell (m, p)."""

    rows: Array
    seeds: list[Any]
    mean: Array
    sd: Array
    acquisition: Array


class HierarchicalInference:
    """The hierarchical model over the course of a search.

    Args:
        space: the search space as it was given.
        seeds: which trial has which seed.
        seed: of whatever is random.
        transform: the setting.
    """

    def __init__(self, space: Space, seeds: Seeds, seed: int, transform: str) -> None:
        self._space, self._seeds, self._transform = space, seeds, transform
        self.inputs = Inputs(space, "hamming", True, 2, seed)
        self._theta: Array | None = None
        self._scale = ""  # the name of the transform that was chosen last
        self.fitted_to = 0

    def fit(self, data: Data, remember: bool = True) -> Fitted[HierarchicalPosterior]:
        """Hyperparameters are estimated now and then, and always for what is not remembered: older ones than the data take the
        last lucky trial at its word, and recommend it."""
        known, scales = len(data.losses), transforms(self._transform, data)
        data = self.enough(data)
        if not remember or self._theta is None or known >= next_fit(self.fitted_to, REFIT):
            found = most_likely(data, scales, lambda y: self._estimated(data, y))
            if remember:
                self._theta, self._scale, self.fitted_to = found.theta, found.name, known
        else:
            name = self._scale if self._scale in scales else next(iter(scales))
            found = Scaled(name, scales[name], self._model(data, scales[name].forward(data.losses)), self._theta)
        posterior = found.model.posterior(found.theta)
        return fitted_to(posterior, found.scale, data.rows[:, : self._space.d], posterior.target_means(), data.paths)

    def _model(self, data: Data, y: Array) -> HierarchicalGP:
        numbers = self._seeds.numbers(data.trials)
        rows = data.rows[:, : self._space.d]
        return HierarchicalGP(self._space, self.inputs, rows, y, data.paths, numbers, self._seeds.finite)

    def _estimated(self, data: Data, y: Array) -> tuple[HierarchicalGP, Array, float]:
        model = self._model(data, y)
        return model, *model.fit(self._theta, EVALUATIONS)

    def enough(self, data: Data) -> Data:
        """The data, or of very many whole configurations: the best by their means, and an even selection of the others.

        A choice by single trials would keep a configuration's lucky ones.
        """
        if len(data.losses) <= MOST_KNOWN:
            return data
        groups: dict[bytes, list[int]] = {}
        for k, place in enumerate(places_of(data.rows[:, : self._space.d])):
            groups.setdefault(place, []).append(k)
        ranked = sorted(groups.values(), key=lambda index: float(np.mean(data.losses[index])))
        size = np.cumsum([len(index) for index in ranked])
        half = int(np.searchsorted(size, MOST_KNOWN // 2, side="right"))
        rest = sorted(ranked[half:])
        share = (MOST_KNOWN - int(size[half - 1] if half else 0)) / max(1, int(size[-1] - (size[half - 1] if half else 0)))
        even = rest[:: max(1, math.ceil(1.0 / share))]
        return data.at(sorted(k for index in [*ranked[:half], *even] for k in index))

    def state(self) -> dict[str, Any]:
        return {"theta": dump_theta(self._theta), "transform": self._scale, "fitted_to": self.fitted_to}

    def restore(self, state: dict[str, Any]) -> None:
        self._theta = load_theta(state["theta"], 4 + self.inputs.n_lengths)
        self._scale, self.fitted_to = str(state["transform"]), int(state["fitted_to"])


class Entropy(NamedTuple):
    """The paper's acquisition: "gibbon" or "mumbo", how maxima are sampled, and the weight of the batch term."""

    name: str
    maxima: str
    diversity: float | str


class SeedStrategy(Strategy):
    """Chooses a configuration and a seed.

    Args:
        search: what to work on.
        seeds: which trial has which seed.
        inference: the model.
        entropy: the paper's acquisition, or None for the knowledge gradient.
        by_direct: whether DIRECT maximises it.
        treatment: of running trials: "believer" or "ignore".
        seed_key: the name of the seed, for messages.
    """

    def __init__(
        self,
        search: Search,
        seeds: Seeds,
        inference: HierarchicalInference,
        entropy: Entropy | None,
        by_direct: bool,
        treatment: str,
        seed_key: str,
    ) -> None:
        super().__init__(search)
        self.seeds, self.inference, self.entropy, self.by_direct = seeds, inference, entropy, by_direct
        self.treatment, self.seed_key = treatment, seed_key
        self.chances = Chances(search)
        self._warned = False

    # Rows without a model

    def ready(self) -> bool:
        return bool(self.search.trials.complete())

    def added_value(self) -> Any:
        return self.seeds.first()

    def at_random(self, rng: np.random.Generator, n: int) -> Array:
        pool = self.seeds.pool()
        return np.array([self.seeds.on(row, pool[int(rng.integers(len(pool)))]) for row in self.search.given.sample(rng, n)])

    def leftover(self, rng: np.random.Generator) -> Point | None:
        """A point that was not tried on some realization of the pool; if there is none, on a fresh one if that is allowed."""
        given, space = self.search.given, self.search.space
        if given.size > LISTABLE:
            return super().leftover(rng)
        for codes in (self.seeds.pool(), self.seeds.fresh()):
            points = [(*point, code)[: space.d] for point in given.points() for code in codes]
            left = [point for point in points if not self.search.trials.used(point)]
            if left:
                return left[int(rng.integers(len(left)))]
        return None

    def initial(self, design: Design, k: int) -> Array:
        pool = self.seeds.initial()
        return self.seeds.on(design.row(k)[: self.search.given.d], pool[k % len(pool)])

    # Proposing

    def known(self, remember: bool = False) -> Data:
        """All that is known."""
        return self.chances.believable(self.search.trials.losses(), remember)

    def measured(self) -> Data:
        """What the model of an answer is fitted to."""
        return self.chances.measured(self.search.trials.losses())

    def fit(self, remember: bool = True) -> Fitted[HierarchicalPosterior]:
        """The model for what is known now."""
        return self.inference.fit(self.known(remember), remember)

    def propose(self, ask: int, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self.fit()
            self._suspect(fitted.posterior)
            running, codes, success = self.with_running(fitted.posterior), self.seeds.candidates(), self.chances.now()
            quick, exact, again = self._worth(fitted, running, codes, success, rng)

            def score(path: Path, rows: Array) -> Array:
                return np.asarray(quick(path, rows).max(axis=1))

            found = self._best(fitted, score, rng)
            for path, rows in again.items():  # each may be tried again, on another realization
                found += [Candidate(float(v), path, row) for v, row in zip(score(path, rows), rows, strict=True)]
            found.sort(key=lambda candidate: -candidate.value)
            chosen = []
            for _, path, row in found[:FINALISTS]:
                values = exact(path, row[None])[0]
                chosen += [(float(values[k]), self.seeds.on(row, codes[k])) for k in np.argsort(-values).tolist()[:2]]
            return [row for _, row in sorted(chosen, key=lambda pair: -pair[0])]

    def _worth(
        self,
        fitted: Fitted[HierarchicalPosterior],
        running: HierarchicalPosterior,
        codes: list[int],
        success: Success | None,
        rng: np.random.Generator,
    ) -> tuple[Scores, Scores, dict[Path, Array]]:
        """What evaluations are worth, roughly and exactly; and by path, rows that may be worth trying again."""
        if self.entropy is None:
            known = self.knowledge(running, codes)
            again = _by_path(running, known.contenders.which)
            return _with_chance(known.quick, success), _with_chance(known.exact, success), again
        scores = _with_chance(self.entropies(fitted, running, self.seeds.places(codes), rng), success)
        return scores, scores, {}

    def with_running(self, posterior: HierarchicalPosterior) -> HierarchicalPosterior:
        """A posterior that knows of running trials."""
        trials = latest(self.search.trials.running(), lambda path: ()) if self.treatment == "believer" else []
        rows = np.array([trial.row[: self.search.given.d] for trial in trials])
        return posterior.condition(rows, [trial.path for trial in trials], self.seeds.numbers(trials))

    def knowledge(self, running: HierarchicalPosterior, codes: Sequence[int]) -> Knowledge:
        """What evaluations on some realizations are worth: the gain of the recommended mean."""
        position = {code: k for k, code in enumerate(codes)}
        taken: dict[bytes, list[int]] = {}
        places = places_of(np.concatenate([self.search.given_row(trial) for trial in self.search.trials]))
        for place, trial in zip(places, self.search.trials, strict=True):
            if (code := self.seeds.code(trial)) in position:
                taken.setdefault(place, []).append(position[code])
        return Knowledge(running, self.seeds.places(codes), taken)

    def entropies(
        self, fitted: Fitted[HierarchicalPosterior], running: HierarchicalPosterior, seeds: list[int], rng: np.random.Generator
    ) -> Scores:
        """The same by the paper: what they tell about the best value of the target."""
        assert self.entropy is not None
        maxima, (name, _, weight) = self._maxima(fitted, rng), self.entropy
        known = fitted.posterior
        extra = len(running.X) - len(known.X)
        diversity = 1.0 / (1 + extra) ** 2 if isinstance(weight, str) else float(weight)

        def scores(path: Path, rows: Array) -> Array:
            joint = known.evaluations(path, rows, seeds)
            variance = running.evaluations(path, rows, seeds).variance if extra else joint.variance
            return log_batch_entropy(name, joint, maxima, diversity * np.log(variance / joint.variance))

        return scores

    def _best(self, fitted: Fitted[HierarchicalPosterior], score: Score, rng: np.random.Generator) -> list[Candidate]:
        """Rows of the given space, best first."""
        space = self.search.given
        if self.by_direct:
            return _by_direct(space, score, rng)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            return numeric_slope(score, box_of(space, path), STEP)(path, row)

        paths = promising(space, known_paths(space, fitted.visited, rng), one_by_one(score), MOST_PATHS, rng)
        gain = Gain(score, slope)
        return maximize(space, paths, gain, fitted.around, rng, n_refined=STARTS, everywhere=fitted.best_row)

    def _maxima(self, fitted: Fitted[HierarchicalPosterior], rng: np.random.Generator) -> Array:
        """(k,) samples of the target's best gain: not less than what is already expected somewhere."""
        assert self.entropy is not None
        given = self.search.given
        rows = [given.sample(rng, PLACES), *(self.search.given_row(trial) for trial in self.search.trials)]
        places = np.unique(np.nan_to_num(np.concatenate(rows), nan=-1.0), axis=0)
        places = np.where(places < 0, np.nan, places)
        mean, covariance = fitted.posterior.joint(places, given.paths_of(places))
        if self.entropy.maxima == "exact":
            drawn = exact_maxima(-mean, covariance, MAXIMA, rng)
        else:
            drawn = gumbel_maxima(-mean, np.sqrt(np.maximum(np.diag(covariance), 1e-12)), MAXIMA, rng)
        return np.maximum(drawn, -fitted.best + 1e-6)

    def _suspect(self, posterior: HierarchicalPosterior) -> None:
        """Says once that the seed seems to have no effect, or none that it should have."""
        if self._warned or len(posterior.model.y) < ENOUGH or len(np.unique(posterior.seeds)) < 2:
            return
        between, noise = posterior.deviation + posterior.offset, posterior.noise
        noisy = noise > NOISY * (posterior.target + between + noise)
        if noisy and posterior.model.evidence_of_seeds(posterior.theta) < EVIDENCE:
            self._warned = True
            logger.warning(
                "raytree: the trainable seems to ignore config[%r]: trials of one seed vary as much as trials of different ones. "
                "Seed everything random with it (data split, simulator, environment, numpy, the framework). If that is done, the "
                "objective is chaotic, and nothing is wrong.", self.seed_key,
            )  # fmt: skip
        elif between + noise < NO_EFFECT * posterior.target:
            self._warned = True
            logger.warning(
                "raytree: the objective seems not to depend on config[%r]; if it is deterministic, TreeSearcher is quicker.",
                self.seed_key,
            )

    # What was learnt

    def look(self, rows: Array) -> View:
        """What the optimizer sees at rows (m, d) of one path, without the seed: to draw it. Leaves no trace."""
        with one_thread():
            fitted, pool = self.fit(remember=False), self.seeds.pool()
            path, running = self.search.given.path_of(rows[0]), self.with_running(fitted.posterior)
            prediction = fitted.posterior.predict(path, rows)
            if self.entropy is None:
                scores = self.knowledge(running, pool).exact(path, rows)
            else:
                rng = np.random.default_rng([self.search.seed, 7])
                scores = self.entropies(fitted, running, self.seeds.places(pool), rng)(path, rows)
        mean, high = fitted.scale.backward(prediction.mean), fitted.scale.backward(prediction.mean + prediction.sd)
        return View(rows, self.seeds.shown(pool), self.search.trials.sign * mean, high - mean, np.exp(scores))

    def final(self) -> Fitted[HierarchicalPosterior]:
        """The model to answer questions from."""
        return self.inference.fit(self.measured(), remember=False)

    def answer(self) -> Answer | None:
        return self.answer_from(self.final)

    def answer_from(self, fit: Callable[[], Fitted[HierarchicalPosterior]]) -> Answer | None:
        """The answer that a model gives."""
        trials = self.inference.enough(self.measured()).trials
        return answer(self.search, trials, fit, lambda _, valid: list(valid), 0.0) or super().answer()

    def explain(self, title: str) -> Explanation:
        if not self.ready():
            return super().explain(title)

        def describe(fitted: Fitted[HierarchicalPosterior], trial: Trial, row: Array) -> dict[str, Prediction]:
            return {"target": fitted.posterior.predict(trial.path, row)}

        return explained(self.search, title, self.final, describe, self._notes)

    def _notes(self, fitted: Fitted[HierarchicalPosterior]) -> Notes:
        p = fitted.posterior
        parts = {"target": p.target, "seed x configuration": p.deviation, "seed": p.offset, "noise": p.noise}
        shares = ", ".join(f"{name} {100 * value / sum(parts.values()):.0f}%" for name, value in parts.items())
        return Notes(f"{len(self.seeds.pool())} realizations; prior variance: {shares}")

    # State

    def state(self) -> dict[str, Any]:
        return {"inference": self.inference.state(), "success": self.chances.state(), "warned": self._warned}

    def restore(self, state: dict[str, Any]) -> None:
        self.inference.restore(state["inference"])
        self.chances.restore(state["success"])
        self._warned = bool(state["warned"])


def _with_chance(log_values: Scores, success: Success | None) -> Scores:
    """Logarithms (m, p) of values, with the chance of success of each row."""
    if success is None:
        return log_values
    return lambda path, rows: log_values(path, rows) + success.log_chance(path, rows)[:, None]


def _by_path(posterior: HierarchicalPosterior, which: np.ndarray) -> dict[Path, Array]:
    """Some rows of a posterior's data, by path."""
    groups: dict[Path, list[int]] = {}
    for k in which.tolist():
        groups.setdefault(posterior.paths[k], []).append(k)
    return {path: posterior.rows[index] for path, index in groups.items()}


def _by_direct(space: Space, score: Score, rng: np.random.Generator) -> list[Candidate]:
    """DIRECT (Jones 2009), as in the paper; random rows behind it as a reserve."""

    box, path = box_of(space, ()), space.paths()[0]
    found = optimize.direct(
        lambda x: -float(score(path, x[None])[0]), optimize.Bounds(*box.bounds.T), maxfun=DIRECT_EVALUATIONS, maxiter=1000
    )
    rows = np.vstack([found.x, space.sample(rng, 16)])
    return [Candidate(float(value), path, row) for row, value in zip(rows, score(path, rows), strict=True)]
