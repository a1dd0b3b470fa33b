"""Bayesian optimization by sampling hierarchically (Moss et al. 2020): which configuration, on which realization.

A stochastic objective with a seed is many functions, one per seed, scattered around the one that matters. The hierarchical
model of `models.hierarchical` tells them apart; max-value entropy (`acquisition.entropy`) says how much an evaluation of some
configuration on some seed would tell about the best value of the target, and a fresh seed is always one of the choices. Running
trials are members of a batch, eq. (2): what an evaluation would tell is reduced by what they will have told already.

The defaults are ours; `BOSHOptimizer(space, **PAPER)` is the paper's method.

The seed is a parameter of the search like any other here, `space` with it and `given_space` without, so that configurations,
duplicates, states and histories know it; only the model and the maximiser look at it in a way of their own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, direct

from raytree.acquisition.entropy import ACQUISITIONS, exact_maxima, gibbon, gumbel_maxima
from raytree.acquisition.maximize import Candidate, box_of, maximize, numeric_slope
from raytree.acquisition.paths import known_paths, promising
from raytree.design import MAX_INITIAL, Design
from raytree.errors import SettingError, one_of
from raytree.explain import Explanation
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import TRANSFORMS
from raytree.models.hierarchical import HierarchicalGP, HierarchicalPosterior
from raytree.models.inputs import Inputs
from raytree.models.success import Success
from raytree.observations import Status, Trial
from raytree.optimizer import LISTABLE
from raytree.optimizers.realizations import Realizations, domain_of
from raytree.optimizers.surrogate import MOST_PATHS, Added, Fitted, SurrogateOptimizer, fitted_to, next_fit
from raytree.space import Path, Point, Space

logger = logging.getLogger("raytree")

PAPER: dict[str, Any] = {
    "max_realizations": "all", "acquisition": "mumbo", "maxima": "gumbel", "maximizer": "direct", "check": False,
    "transform": "linear",
}  # fmt: skip

EVALUATIONS = 40
"""Of the likelihood in one fit, from each of three starts."""
PLACES, MAXIMA = 1000, 10
"""Where the target is sampled to find its maxima, and how many samples."""
STEP, STARTS = 1e-5, 5
"""The acquisition is climbed by finite differences of this size, from so many starts: every seed has summits of its own."""
MOST_SEEDS = 3
"""Of a row's realizations, so many (the best by the closed form) are scored by quadrature."""
CHECK_EVERY, SURE, TRIED = 2, 10, 5
"""Up to one in so many trials repeats what has the best mean on another realization, until it was tried on so many; what was
tried on so many, or on all in use, is known well enough to be recommended."""
DIRECT_EVALUATIONS = 400
NOISY, EVIDENCE, NO_EFFECT, ENOUGH = 0.25, 2.0, 1e-2, 30
"""After so many trials: if this share of the variance is noise, and the data are hardly likelier with seeds than with noise
alone (a difference of logarithms), the seed seems to be ignored; seed and noise together with less than this share of the
target's variance seem to have no effect."""


class View(NamedTuple):
    """What the optimizer sees at m rows: mean and sd of the target (m,) in the user's sign and units, and for each seed of the
    pool what an evaluation there would tell (m, p)."""

    rows: Array
    seeds: list[Any]
    mean: Array
    sd: Array
    acquisition: Array


class BOSHOptimizer(SurrogateOptimizer[HierarchicalPosterior]):
    """Optimizes the mean of a stochastic objective over seeds, and decides which seed to evaluate next.

    Args:
        space: the search space, without the seed.
        seed_key: where the seed stands in a configuration.
        realizations: the only seeds there are, such as the numbers of K folds; any 31-bit integer but the largest if left out.
        max_realizations: how many different seeds are used at most: a number, "all" (the paper: no limit), or "auto": for n
            trials sqrt(2 n), not fewer either, see `optimizers.realizations`.
        initial_realizations: over how many seeds the initial design is spread.
        acquisition: "gibbon" (closed form) or "mumbo" (quadrature).
        maxima: how the target's maximum is sampled: "exact" (joint samples) or "gumbel".
        diversity: weight of the batch term of eq. (2): 1, or "1/B^2" (Moss et al. 2021, appendix D: for batches much larger
            than ten; B counts the running trials and the one asked for).
        maximizer: "gradient" (Sobol points, the best refined) or "direct" (the paper; spaces of real parameters without
            decisions only).
        check: whether up to every second trial repeats the configuration that would be recommended on another seed, until it was
            tried on ten. A configuration that leads after one trial has mostly been lucky.
        transform: of the losses, see `gp.transform`: "robust", or "linear" (the paper).
        settings: of every optimizer with a model, see `SurrogateOptimizer` and `Optimizer`; `num_initial` is d + 5 by default,
            `pending` is "believer" (the batch term) or "ignore". With `max_t` only complete trials count.
    """

    PENDING = ("believer", "ignore")

    def __init__(
        self,
        space: Any,
        *,
        seed_key: str = "seed",
        realizations: Sequence[Any] | None = None,
        max_realizations: int | str = "auto",
        initial_realizations: int = 2,
        acquisition: str = "gibbon",
        maxima: str = "exact",
        diversity: float | str = 1.0,
        maximizer: str = "gradient",
        check: bool = True,
        transform: str = "robust",
        **settings: Any,
    ) -> None:
        self._seeds = domain_of(realizations)
        super().__init__(space, Added("seed_key", seed_key, self._seeds), **settings)
        self._realizations = Realizations(self._seeds, max_realizations, initial_realizations, self.seed)
        one_of("transform", transform, TRANSFORMS)
        self._check_method(acquisition, maxima, diversity, maximizer)
        if settings.get("num_initial") is None:
            self.num_initial = _default_length(self._plain, self.budget)
            self._design = Design(self.space, self.num_initial, self.seed)
        self._method: dict[str, Any] = {
            "seed_key": seed_key, "realizations": None if realizations is None else list(realizations),
            "max_realizations": max_realizations, "initial_realizations": initial_realizations, "acquisition": acquisition,
            "maxima": maxima, "diversity": diversity, "maximizer": maximizer, "check": bool(check), "transform": transform,
        }  # fmt: skip
        self._d = self._plain.d  # the seed stands behind these, unless there is only one: then it is a constant
        self._inputs = Inputs(self._plain, "hamming", True, 2, self.seed)
        self._warned = False

    def _check_method(self, acquisition: str, maxima: str, diversity: float | str, maximizer: str) -> None:
        one_of("acquisition", acquisition, ACQUISITIONS)
        one_of("maxima", maxima, ("exact", "gumbel"))
        one_of("maximizer", maximizer, ("gradient", "direct"))
        number = isinstance(diversity, (int, float)) and not isinstance(diversity, bool) and 0 <= diversity < math.inf
        if diversity != "1/B^2" and not number:
            raise SettingError("diversity", f"must be a weight of at least 0 or '1/B^2', got {diversity!r}.")
        if maximizer == "direct" and self._plain.d:  # else the space is not known yet
            box = box_of(self._plain, ()) if self._plain.n_paths == 1 else None
            if box is None or box.discrete:
                raise SettingError("maximizer", "DIRECT needs real parameters and no decisions.", "Use 'gradient'.")

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), **self._method}

    # Realizations

    def _usual(self) -> Any:
        return self._seeds.render(self._pool()[0])

    def _codes(self) -> list[int]:
        """The code of every trial's realization, in order."""
        return [self._code(trial) for trial in self.observations]

    def _code(self, trial: Trial) -> int:
        """The code of a trial's realization."""
        return int(trial.point[self._d] or 0) if self.space.d > self._d else 0

    def _pool(self) -> list[int]:
        """The codes of the realizations in use."""
        return self._realizations.pool(self._codes())

    def _on(self, row: Array, code: int) -> Array:
        """A row of the plain space on a realization."""
        return np.append(row, self._seeds.unit(code)) if self.space.d > self._d else row

    def _at_random(self, rng: np.random.Generator, n: int) -> Array:
        pool = self._pool()
        return np.array([self._on(row, pool[int(rng.integers(len(pool)))]) for row in self._plain.sample(rng, n)])

    def _leftover(self, rng: np.random.Generator) -> Point | None:
        """A point that was not tried on some realization of the pool; if there is none, on a fresh one if that is allowed."""
        if self._plain.size > LISTABLE:
            return super()._leftover(rng)
        pool = self._pool()
        fresh = self._realizations.reserve(pool, len(self.observations))
        for codes in (pool, [] if fresh is None else [fresh]):
            points = [(*point, code)[: self.space.d] for point in self._plain.points() for code in codes]
            left = [point for point in points if not self.observations.used(point)]
            if left:
                return left[int(rng.integers(len(left)))]
        return None

    def _initial(self, k: int) -> Array:
        pool = self._pool()[: self._realizations.initial]
        return self._on(super()._initial(k)[: self._d], pool[k % len(pool)])

    # Proposing

    def _propose(self, rng: np.random.Generator) -> Iterable[Array]:
        with one_thread():
            fitted = self._fit()
            self._suspect(fitted.posterior)
            running = self._with_pending(fitted, rng)
            check = self._check(fitted, running) if self._method["check"] and self._asks % CHECK_EVERY == 0 else []
            if check:
                return check
            maxima, success = self._sample_maxima(fitted, rng), self._success()
            used, pool = self._codes(), self._pool()
            fresh = self._realizations.fresh(pool, len(used))
            codes = pool if fresh is None else [*pool, fresh]
            allowed = self._realizations.allowed(pool, used)

            def scores(path: Path, rows: Array) -> Array:
                """(m, p) of all realizations that may come next."""
                return self._scores(fitted.posterior, running, maxima, path, rows, allowed, success)

            found = self._best(fitted, lambda path, rows: scores(path, rows).max(axis=1), rng)
            chosen = []
            for candidate in found:
                values = scores(candidate.path, candidate.row[None])[0]
                chosen += [
                    (float(values[k]), self._on(candidate.row, codes[allowed[k]])) for k in np.argsort(-values).tolist()[:2]
                ]
            first = chosen[0]
            return [first[1], *(row for _, row in sorted(chosen[1:], key=lambda pair: -pair[0]))]

    def _check(self, fitted: Fitted[HierarchicalPosterior], running: HierarchicalPosterior) -> list[Array]:
        """The configuration with the best mean, while it was tried on few realizations: on the one that would tell most.

        Where chance is mostly kind (nine landings of ten), a configuration that leads after one trial has mostly been lucky,
        and a search for information goes on to the next lucky one.
        """
        trials = self._data().trials
        valid = [k for k, trial in enumerate(trials) if trial.status is Status.FINISHED]
        leader = trials[self._leader(fitted, valid or range(len(trials)))]
        here = [trial for trial in self.observations if _place(trial, self._d) == _place(leader, self._d)]
        taken = {self._code(trial) for trial in here}
        tried = {self._code(trial) for trial in here if trial.status in (Status.FINISHED, Status.RUNNING)}
        pool = self._pool()
        left = [k for k, code in enumerate(pool) if code not in taken]
        if not left or len(tried) >= SURE:
            return []
        tells = np.abs(running.joint(leader.path, leader.row[None, : self._d], left).correlation()[0])
        return [self._on(leader.row[: self._d], pool[left[int(np.argmax(tells))]])]

    def _scores(
        self,
        known: HierarchicalPosterior,
        running: HierarchicalPosterior,
        maxima: Array,
        path: Path,
        rows: Array,
        seeds: list[int],
        success: Success | None,
    ) -> Array:
        """(m, p) eq. (2) for one more member of the batch, at rows (m, d) on realizations numbered as in the pool."""
        joint = known.joint(path, rows, seeds)
        rho = joint.correlation()
        gamma = (maxima[None, :] + joint.mean[:, None]) / joint.sd[:, None]  # the target is a loss: its gain is -mean
        value = gibbon(rho[:, :, None], gamma[:, None, :]).mean(axis=-1)
        batch = self._batch_term(running, joint.variance, path, rows, seeds) if running is not known else 0.0
        if self._method["acquisition"] != "gibbon":
            bound = value + batch
            value = np.full_like(bound, -np.inf)
            at = np.argsort(-bound, axis=1)[:, :MOST_SEEDS]
            line = np.arange(len(rows))[:, None]
            function = ACQUISITIONS[self._method["acquisition"]]
            value[line, at] = function(rho[line, at][:, :, None], gamma[:, None, :]).mean(axis=-1)
        return np.asarray(value + batch if success is None else np.exp(success.log_chance(path, rows))[:, None] * value + batch)

    def _batch_term(self, running: HierarchicalPosterior, variance: Array, path: Path, rows: Array, seeds: list[int]) -> Array:
        """(m, p) half the log of how much running trials shrink the variance of an evaluation: log |C| of eq. (2), greedily."""
        weight = self._method["diversity"]
        if weight == "1/B^2":
            weight = 1.0 / (1 + len(running.X) - len(running.model.X)) ** 2
        return np.asarray(0.5 * weight * np.log(running.joint(path, rows, seeds).variance / variance))

    def _best(self, fitted: Fitted[HierarchicalPosterior], score: Any, rng: np.random.Generator) -> list[Candidate]:
        """Rows of the plain space, best first."""
        if self._method["maximizer"] == "direct":
            return self._by_direct(score, rng)

        def slope(path: Path, row: Array) -> tuple[float, Array]:
            return numeric_slope(score, box_of(self._plain, path), STEP)(path, row)

        paths = promising(self._plain, known_paths(self._plain, fitted.visited, rng), score, MOST_PATHS, rng)
        model = fitted.around[fitted.visited[0]][0]
        return maximize(self._plain, paths, score, slope, fitted.around, rng, n_refined=STARTS, model=model)

    def _by_direct(self, score: Any, rng: np.random.Generator) -> list[Candidate]:
        """DIRECT (Jones 2009), as in the paper; random rows behind it as a reserve."""
        box = box_of(self._plain, ())
        path = self._plain.paths()[0]
        found = direct(lambda x: -float(score(path, x[None])[0]), Bounds(*box.bounds.T), maxfun=DIRECT_EVALUATIONS, maxiter=1000)
        rows = np.vstack([found.x, self._plain.sample(rng, 16)])
        return [Candidate(float(value), path, row) for row, value in zip(rows, score(path, rows), strict=True)]

    def _sample_maxima(self, fitted: Fitted[HierarchicalPosterior], rng: np.random.Generator) -> Array:
        """(k,) samples of the target's best gain: not less than what is already expected somewhere."""
        rows = [self._plain.sample(rng, PLACES), *(trial.row[None, : self._d] for trial in self.observations)]
        places = np.unique(np.nan_to_num(np.concatenate(rows), nan=-1.0), axis=0)
        places = np.where(places < 0, np.nan, places)
        mean, covariance = fitted.posterior.joint_target(places, self._plain.paths_of(places))
        if self._method["maxima"] == "exact":
            drawn = exact_maxima(-mean, covariance, MAXIMA, rng)
        else:
            drawn = gumbel_maxima(-mean, np.sqrt(np.maximum(np.diag(covariance), 1e-12)), MAXIMA, rng)
        return np.maximum(drawn, -fitted.best + 1e-6)

    def look(self, rows: Array) -> View:
        """What the optimizer sees at rows (m, d) of one path, without the seed: to draw it. Leaves no trace."""
        with one_thread():
            fitted = self._fit(remember=False)
            path = self._plain.path_of(rows[0])
            prediction = fitted.posterior.predict(path, rows)
            maxima = self._sample_maxima(fitted, np.random.default_rng([self.seed, 7]))
            pool = self._pool()
            running = self._with_pending(fitted, np.random.default_rng([self.seed, 7]))
            scores = self._scores(fitted.posterior, running, maxima, path, rows, list(range(len(pool))), None)
        mean, high = fitted.scale.backward(prediction.mean), fitted.scale.backward(prediction.mean + prediction.sd)
        return View(rows, [self._seeds.render(code) for code in pool], self.observations.sign * mean, high - mean, scores)

    def _trusted(self, trials: Sequence[Trial], valid: Sequence[int]) -> list[int]:
        """Those whose configuration was tried on several realizations: luck is not recommended."""
        if not self._method["check"]:
            return list(valid)
        realizations: dict[bytes, set[int]] = {}
        for trial in self.observations.complete():
            realizations.setdefault(_place(trial, self._d), set()).add(self._code(trial))
        enough = min(TRIED, len(self._pool()))
        return [k for k in valid if len(realizations.get(_place(trials[k], self._d), ())) >= enough]

    # The model

    def _fit(self, remember: bool = True) -> Fitted[HierarchicalPosterior]:
        """Hyperparameters are estimated now and then, and always for what is not remembered: older ones than the data take the
        last lucky trial at its word, and recommend it."""
        known = self._known()
        rows, losses, paths, trials = self._enough(known)
        rows, numbers = rows[:, : self._d], self._numbers(trials)
        scale, theta = self._transform(known), self._theta
        model = HierarchicalGP(self._plain, self._inputs, rows, scale.forward(losses), paths, numbers)
        if not remember or theta is None or len(known.losses) >= next_fit(self._fitted_to):
            theta, _ = model.fit(self._theta, EVALUATIONS)
            if remember:
                self._theta, self._fitted_to = theta, len(known.losses)
        posterior = model.posterior(theta)
        return fitted_to(posterior, scale, rows, posterior.target_means(), paths)

    def _numbers(self, trials: Sequence[Trial]) -> list[int]:
        """The realizations of trials, by their place in the pool."""
        number = {code: k for k, code in enumerate(self._pool())}
        return [number[self._code(trial)] for trial in trials]

    def _with_pending(self, fitted: Fitted[HierarchicalPosterior], rng: np.random.Generator) -> HierarchicalPosterior:
        if self.treatment == "ignore":
            return fitted.posterior
        unknown = self._latest(self.pending)
        rows = np.array([trial.row[: self._d] for trial in unknown])
        return fitted.posterior.condition(rows, [trial.path for trial in unknown], self._numbers(unknown))

    def _suspect(self, posterior: HierarchicalPosterior) -> None:
        """Says once that the seed seems to have no effect, or none that it should have."""
        if self._warned or len(posterior.model.y) < ENOUGH or len(np.unique(posterior.seeds)) < 2:
            return
        between, noise = posterior.deviation + posterior.offset, posterior.noise
        noisy = noise > NOISY * (posterior.target + between + noise)
        key = self._method["seed_key"]
        if noisy and posterior.model.evidence_of_seeds(posterior.theta) < EVIDENCE:
            self._warned = True
            logger.warning(
                "raytree: the trainable seems to ignore config[%r]: trials of one seed vary as much as trials of different ones. "
                "Seed everything random with it (data split, simulator, environment, numpy, the framework). If that is done, the "
                "objective is chaotic, and nothing is wrong.", key,
            )  # fmt: skip
        elif between + noise < NO_EFFECT * posterior.target:
            self._warned = True
            logger.warning(
                "raytree: the objective seems not to depend on config[%r]; if it is deterministic, TreeSearcher is quicker.",
                key,
            )

    def _describe(self, fitted: Fitted[HierarchicalPosterior], trial: Trial) -> dict[str, float]:
        mean, sd = self._in_units(fitted, fitted.posterior.predict(trial.path, self._plain_rows(trial)))
        return {"target_mean": mean, "target_sd": sd}

    def _annotate(self, fitted: Fitted[HierarchicalPosterior], table: Any, title: str) -> Explanation:
        p = fitted.posterior
        total = p.target + p.deviation + p.offset + p.noise
        shares = ", ".join(
            f"{name} {100 * value / total:.0f}%"
            for name, value in (
                ("target", p.target),
                ("seed x configuration", p.deviation),
                ("seed", p.offset),
                ("noise", p.noise),
            )
        )
        return Explanation(table, title=title, notes=f"{len(self._pool())} realizations; prior variance: {shares}")

    # State

    def _theta_length(self) -> int:
        return 4 + self._inputs.n_lengths

    def _method_state(self) -> dict[str, Any]:
        return {**super()._method_state(), "warned": self._warned}

    def _restore_method(self, state: dict[str, Any]) -> None:
        super()._restore_method(state)
        self._warned = bool(state["warned"])


def _place(trial: Trial, d: int) -> bytes:
    """A trial's configuration without the seed, up to rounding."""
    return np.round(trial.row[:d], 9).tobytes()


def _default_length(space: Space, budget: int | None) -> int:
    """d + 5, and at least one per path; at most a third of a known budget and at most 32."""
    wanted = min(max(space.n_paths, space.dimension + 5), MAX_INITIAL)
    return wanted if budget is None else max(1, min(wanted, budget // 3))
