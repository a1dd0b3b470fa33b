"""What every optimizer with a model has in common: when to fit, running trials, failures, recommending, explaining."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from raytree.errors import SettingError, SpaceError, one_of
from raytree.explain import Explanation, path_table
from raytree.gp import linalg
from raytree.gp.linalg import Array, one_thread
from raytree.gp.transform import TRANSFORMS, Transform
from raytree.models.success import Success
from raytree.models.tree_posterior import Prediction
from raytree.observations import Losses, Status, Trial
from raytree.optimizer import Optimizer, Recommendation
from raytree.space import Path, Point, Space
from raytree.space.migrate import migrate


class Posterior(Protocol):
    """What a model must answer."""

    def predict(self, path: Path, rows: Array) -> Prediction: ...
    def target_means(self) -> Array: ...
    def condition(self, rows: Array, paths: Sequence[Path]) -> Self: ...


MOST_PATHS = 24
"""With more paths than this, full EI is for the most promising ones."""
DOUBT = 2.0
"""In standard deviations: what is better by more than that is better."""
NEGLIGIBLE = 1e-4
"""Less expected improvement than this, in units of the transformed losses, is none."""
EXPLORE_EVERY = 2
"""Once none is expected, one in so many suggestions goes where little was tried."""
MOST_KNOWN, MOST_RUNNING = 256, 128
"""Of one block of the model (a path, or everything): beyond, the best half and an even selection of the rest are enough, and the
running trials that were suggested last."""
FAILED = (Status.INVALID, Status.ERRORED)
FANTASIES = 8
"""Guesses at the values of running trials."""
DRAWN, SPRAYED, SPREADS = 24, 8, (0.1, 0.01, 0.001)
"""Rows of a path, and around each of its best ones at each distance, among which a drawn function is minimised."""

P = TypeVar("P", bound=Posterior)


class Fitted(NamedTuple, Generic[P]):
    """A posterior with what is needed to use it.

    Args:
        posterior: of the standardised losses.
        scale: from losses to standardised ones.
        best: the lowest posterior mean at a configuration that was observed.
        around: by path, the rows (k, d) of its best observations.
        visited: the paths that have observations, best first.
    """

    posterior: P
    scale: Transform
    best: float
    around: dict[Path, Array]
    visited: list[Path]


def fitted_to(posterior: P, scale: Transform, rows: Array, y: Array, paths: Sequence[Path]) -> Fitted[P]:
    """A posterior with its surroundings, for the rows (n, d) it was fitted to, which are good where y (n,) is low."""
    around: dict[Path, list[int]] = {}
    for k in np.argsort(y, kind="stable").tolist():
        around.setdefault(paths[k], []).append(k)
    near = {path: rows[index[:2]] for path, index in around.items()}
    return Fitted(posterior, scale, float(posterior.target_means().min()), near, list(around))


def next_fit(fitted_to: int, part: int = 20) -> int:
    """How many observations make the next estimate worth its time: one more at first, one in so many more later."""
    return fitted_to + max(1, fitted_to // part)


class Added(NamedTuple):
    """A parameter that a method adds to the space, under a key of its own in every configuration: a seed, a length.

    Args:
        setting: the setting that names the key.
        key: the key.
        domain: what the parameter can be.
    """

    setting: str
    key: str
    domain: Any

    def to(self, space: Space) -> Space:
        """The space with the parameter as its last one."""
        if not isinstance(self.key, str) or not self.key:
            raise SettingError(self.setting, f"must be a name, got {self.key!r}.")
        if not isinstance(space.structure, dict):
            raise SpaceError("space", f"must be a dict, so that {self.key!r} has a place in it.", "Wrap it in a dict.")
        if self.key in space.structure:
            raise SpaceError(self.key, "is a key that the searcher adds.", f"Leave it out, or give another {self.setting}.")
        return Space({**space.structure, self.key: self.domain})


class SurrogateOptimizer(Optimizer, Generic[P]):
    """The base of optimizers with a model: subclasses say how to fit it (`_fit`) and how to use it (`_propose`).

    `_theta` holds the last hyperparameters, to start the next estimate from, `_fitted_to` how many observations it had.
    `_plain` is the space as it was given; `space`, which is searched, has the parameter that the method adds, if it does.

    Args:
        space: the search space.
        added: a parameter to search beside those of the space.
        pending: what running trials are taken for: "believer" (they come out as expected: nothing is gained near them),
            "fantasy" (the acquisition is averaged over guesses at their values), "thompson" (while some are running, the next
            one minimises a function drawn from the posterior), or "ignore".
    """

    _method: dict[str, Any]
    """The settings of the method itself."""
    PENDING: ClassVar[tuple[str, ...]] = ("believer", "fantasy", "thompson", "ignore")

    def __init__(self, space: Any, added: Added | None = None, *, pending: str = "believer", **settings: Any) -> None:
        self._plain = space if isinstance(space, Space) else Space(space)
        self._added = added
        super().__init__(self._plain if added is None else added.to(self._plain), **settings)
        one_of("pending", pending, self.PENDING)
        self.treatment = pending
        self._theta: Array | None = None
        self._fitted_to = 0
        self._success_theta: dict[tuple[str, object], float] = {}
        self._success_fitted_to = 0

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "pending": self.treatment}

    # The space, and what a method adds to it

    @property
    def given_space(self) -> Space:
        return self._plain

    def point(self, config: Any) -> Point:
        """The codes of a configuration; one without the added parameter has the usual value."""
        if self._added is not None and isinstance(config, dict) and self._added.key not in config:
            config = {**config, self._added.key: self._usual()}
        return self.space.point(config)

    def _usual(self) -> Any:
        """The value of the added parameter in a configuration from elsewhere."""
        raise NotImplementedError

    def migrated(self, config: Any, defaults: Mapping[str, Any] | None, drop: Collection[str]) -> Any:
        if not isinstance(config, dict):
            return migrate(self._plain, config, defaults, drop)
        apart = {key: value for key, value in config.items() if self._added is not None and key == self._added.key}
        return {**migrate(self._plain, self._without_added(config), defaults, drop), **apart}

    def _without_added(self, config: Any) -> Any:
        if self._added is None:
            return config
        return {key: value for key, value in config.items() if key != self._added.key}

    def _recommended(self, trial: Trial) -> Any:
        return self._without_added(super()._recommended(trial))

    # Data

    def _known(self) -> Losses:
        """All that is known."""
        return self.observations.losses()

    def _data(self) -> Losses:
        """What the model is fitted to."""
        return self._enough(self._known())

    def _block_of(self, path: Path) -> Path:
        """Paths whose observations are factorised together."""
        return ()

    def _enough(self, data: Losses) -> Losses:
        """The data, or of blocks with very many observations those that tell most about the optimum."""
        if len(data.losses) <= MOST_KNOWN:
            return data
        groups: dict[Path, list[int]] = {}
        for k, path in enumerate(data.paths):
            groups.setdefault(self._block_of(path), []).append(k)
        kept: list[int] = []
        for index in groups.values():
            if len(index) > MOST_KNOWN:
                half = MOST_KNOWN // 2
                ranked = np.array(index)[np.argsort(data.losses[index], kind="stable")]
                rest = np.sort(ranked[half:])
                chosen = rest[np.linspace(0, len(rest) - 1, half).round().astype(int)]
                kept += [*ranked[:half].tolist(), *chosen.tolist()]
            else:
                kept += index
        kept.sort()
        return Losses(data.rows[kept], data.losses[kept], [data.paths[k] for k in kept], [data.trials[k] for k in kept])

    def _has_data(self) -> bool:
        return bool(self.observations.complete())

    def _fit(self, remember: bool = True) -> Fitted[P]:
        """The posterior for what is known now; hyperparameters are estimated again when the schedule says so.

        Looking (`remember=False`) leaves no trace: suggestions do not depend on who asked for an explanation in between.
        """
        raise NotImplementedError

    def _unknown(self) -> tuple[Array, list[Path]]:
        """Rows and paths of running trials."""
        unknown = self._latest(self.pending)
        return np.array([t.row for t in unknown]), [t.path for t in unknown]

    def _latest(self, trials: list[Trial]) -> list[Trial]:
        """Of very many trials of a block the last ones, in their order."""
        if len(trials) <= MOST_RUNNING:
            return trials
        count: Counter[Path] = Counter()
        kept = []
        for trial in reversed(trials):
            block = self._block_of(trial.path)
            count[block] += 1
            if count[block] <= MOST_RUNNING:
                kept.append(trial)
        return kept[::-1]

    def _with_pending(self, fitted: Fitted[P], rng: np.random.Generator) -> Any:
        """A posterior that knows of running trials; with "fantasy" one of several parts."""
        rows, paths = self._unknown()
        if not len(rows) or self.treatment == "ignore":
            return fitted.posterior
        if self.treatment != "fantasy":
            return fitted.posterior.condition(rows, paths)
        posterior: Any = fitted.posterior
        mean, covariance = posterior.joint(rows, paths)
        values = mean + rng.normal(size=(FANTASIES, len(mean))) @ linalg.cholesky(covariance).T
        first, *others = [posterior.condition(rows, paths, value) for value in values]
        return first.together(others)

    def _draws(self) -> bool:
        """Whether the next suggestion comes from a drawn function."""
        return self.treatment == "thompson" and bool(self.pending)

    def _drawn(self, fitted: Fitted[P], rows: Array, rng: np.random.Generator) -> list[Array]:
        """Rows (m, d) in the order of a function drawn from the posterior, lowest first (Thompson sampling)."""
        posterior: Any = fitted.posterior
        mean, covariance = posterior.joint(rows, self.given_space.paths_of(rows))
        drawn = mean + linalg.cholesky(covariance) @ rng.normal(size=len(mean))
        return list(rows[np.argsort(drawn, kind="stable")[:32]])

    def _places(self, fitted: Fitted[P], paths: Sequence[Path], rng: np.random.Generator) -> Array:
        """(m, d) rows to look for the lowest value of a drawn function: random ones, and some around good ones."""
        space = self.given_space
        groups = []
        for path in paths[:MOST_PATHS]:
            units = [rng.random((DRAWN, space.d))]
            for row in fitted.around.get(path, np.empty((0, space.d))):
                units += [np.nan_to_num(row, nan=0.5) + spread * rng.normal(size=(SPRAYED, space.d)) for spread in SPREADS]
            groups.append(space.on_path(path, np.clip(np.concatenate(units), 0.0, 1.0)))
        return np.concatenate(groups)

    def _success(self) -> Success | None:
        """The chance of success of rows; None while nothing has failed."""
        ended = [trial for trial in self.observations if trial.status is not Status.RUNNING]
        failed = np.array([trial.status in FAILED for trial in ended], dtype=bool)
        if not failed.any():
            return None
        kept = ended[-MOST_KNOWN:]
        rows = np.array([self._plain_rows(trial)[0] for trial in kept])
        due = len(ended) >= next_fit(self._success_fitted_to, 10)
        model = Success(self._plain, rows, [t.path for t in kept], failed[-MOST_KNOWN:], self._success_theta, due)
        if due:
            self._success_theta.update(model.theta)
            self._success_fitted_to = len(ended)
        return model

    def _transforms(self, data: Losses) -> dict[str, Transform]:
        """From losses to what the model sees, by name: of what trials said last, failed ones left out."""
        last = {
            trial.number: loss
            for trial, loss in zip(data.trials, data.losses.tolist(), strict=True)
            if trial.status not in FAILED
        }
        return TRANSFORMS[self._method["transform"]](np.array(list(last.values())))

    def _transform(self, data: Losses) -> Transform:
        """The first of them."""
        return next(iter(self._transforms(data).values()))

    # What was learnt

    def recommend(self) -> Recommendation | None:
        """The evaluated configuration with the lowest posterior mean, of those that can be trusted unless another one is better
        beyond doubt."""
        trials = self._data().trials
        valid = [k for k, trial in enumerate(trials) if trial.status is Status.FINISHED]
        if not valid:
            return super().recommend()
        with one_thread():
            fitted = self._final()
            k, trusted = self._leader(fitted, valid), self._trusted(trials, valid)
            mean, sd = self._at(fitted, trials[k])
            if trusted and k not in trusted:
                second = self._leader(fitted, trusted)
                if mean + self._doubt * sd >= self._at(fitted, trials[second])[0]:
                    k = second
            mean, sd = self._in_units(fitted, fitted.posterior.predict(trials[k].path, self._plain_rows(trials[k])))
        return Recommendation(self._recommended(trials[k]), mean, sd, trials[k].id)

    @property
    def _doubt(self) -> float:
        """What cannot be trusted is recommended if it is better by so many deviations than all that can."""
        return DOUBT

    def _leader(self, fitted: Fitted[P], which: Sequence[int]) -> int:
        """Which of some trials that the model was fitted to has the lowest posterior mean."""
        means = fitted.posterior.target_means()
        return min(which, key=lambda k: float(means[k]))

    def _at(self, fitted: Fitted[P], trial: Trial) -> tuple[float, float]:
        """Mean and sd at a trial's configuration, standardised."""
        prediction = fitted.posterior.predict(trial.path, self._plain_rows(trial))
        return float(prediction.mean[0]), float(prediction.sd[0])

    def _trusted(self, trials: Sequence[Trial], valid: Sequence[int]) -> list[int]:
        """Which of the trials that may be recommended are known well."""
        return list(valid)

    def _final(self) -> Fitted[Any]:
        """The posterior to answer questions from."""
        return self._fit(remember=False)

    def _plain_rows(self, trial: Trial) -> Array:
        """(1, d) a trial's row in the space as it was given."""
        return trial.row[None, : self.given_space.d]

    def _in_units(self, fitted: Fitted[P], prediction: Prediction) -> tuple[float, float]:
        """Mean and sd of one prediction, in the user's sign and units."""
        mean, sd = float(prediction.mean[0]), float(prediction.sd[0])
        low, middle, high = fitted.scale.backward(np.array([mean - sd, mean, mean + sd])).tolist()
        return self.observations.sign * middle, max(middle - low, (high - low) / 2.0)

    def explain(self) -> Explanation:
        """Per path: trials, best value, share, and what the model says of its best trial; then what it says in general."""
        table = path_table(self.observations)
        title = f"{type(self).__name__}, {len(self.observations)} trials"
        if not self._has_data():
            return Explanation(table, title=title)
        with one_thread():
            fitted = self._final()
            best: dict[str, Trial] = {}
            for trial in sorted(self.observations, key=self._loss, reverse=True):
                best[self.space.path_label(trial.path)] = trial
            for label, trial in best.items():
                for column, value in self._describe(fitted, trial).items():
                    table.loc[table["path"] == label, column] = value
            return self._annotate(fitted, table, title)

    def _loss(self, trial: Trial) -> float:
        return self.observations.sign * trial.value if trial.value is not None else math.inf

    def _describe(self, fitted: Fitted[P], trial: Trial) -> dict[str, float]:
        """Columns for the path of a trial, its best one."""
        mean, sd = self._in_units(fitted, fitted.posterior.predict(trial.path, self._plain_rows(trial)))
        return {"model_mean": mean, "model_sd": sd}

    def _annotate(self, fitted: Fitted[P], table: Any, title: str) -> Explanation:
        """The explanation with what the model says in general."""
        return Explanation(table, title=title)

    # State

    def _theta_length(self) -> int:
        """The number of hyperparameters."""
        raise NotImplementedError

    def _method_state(self) -> dict[str, Any]:
        theta = None if self._theta is None else self._theta.tolist()
        success = {"theta": dump_named(self._success_theta), "fitted_to": self._success_fitted_to}
        return {"theta": theta, "fitted_to": self._fitted_to, "success": success}

    def _restore_method(self, state: dict[str, Any]) -> None:
        theta = state["theta"]
        if theta is not None:
            theta = np.array(theta, dtype=float)
            if theta.shape != (self._theta_length(),) or not np.all(np.isfinite(theta)):
                raise ValueError("bad hyperparameters")
        self._theta, self._fitted_to = theta, int(state["fitted_to"])
        success = state["success"]
        self._success_theta, self._success_fitted_to = load_named(success["theta"]), int(success["fitted_to"])


Named = dict[tuple[str, object], float]
"""Hyperparameters by kind and what they are of: a path, a parameter, or None."""


def dump_named(theta: Named) -> list[list[Any]]:
    """Named hyperparameters as JSON values."""
    return [[kind, list(which) if isinstance(which, tuple) else which, value] for (kind, which), value in theta.items()]


def load_named(saved: Any) -> Named:
    """The inverse of `dump_named`; raises ValueError for what is no finite number."""
    theta: Named = {}
    for kind, which, value in saved:
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"bad hyperparameter {value!r}")
        theta[str(kind), tuple(which) if isinstance(which, list) else which] = float(value)
    return theta
