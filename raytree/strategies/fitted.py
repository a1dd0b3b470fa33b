"""A model fitted to what is known: which observations it sees, on which scale, and what the acquisition needs beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from raytree.explain import Notes
from raytree.gp.inference import next_fit
from raytree.gp.linalg import Array
from raytree.gp.posterior import Posterior, Prediction
from raytree.gp.transform import LARGEST, TRANSFORMS, Transform
from raytree.models.success import Success
from raytree.models.tree import Named
from raytree.space import Path
from raytree.store import FAILED, Data, Status, Trial
from raytree.strategies.base import Answer, Search

MOST_KNOWN = 256
"""Observations of one block of the model (a path, or everything): of more, the best half and an even selection of the rest."""
MOST_RUNNING = 128
"""Running trials of a block: of more, those that were suggested last."""
MOST_ALONE = 64
"""Estimates for single paths that are kept."""
AROUND = 2
"""The best observations of a path around which to look for the next."""
SUCCESS_REFIT = 10
"""The chance of success is estimated again when there is one new trial for so many old ones."""

BlockOf = Callable[[Path], Path]
"""The block of a path: observations of one block are factorised together."""
P = TypeVar("P", bound=Posterior)
M = TypeVar("M")


class Fitted(NamedTuple, Generic[P]):
    """A posterior with what is needed to use it.

    Args:
        posterior: of the transformed losses.
        scale: from losses to transformed ones.
        best: the lowest posterior mean at a configuration that was observed.
        around: by path, the rows (k, d) of its best observations.
        visited: the paths that have observations, best first.
    """

    posterior: P
    scale: Transform
    best: float
    around: dict[Path, Array]
    visited: list[Path]

    @property
    def best_row(self) -> Array:
        """(d,) the row of the best observation."""
        return np.asarray(self.around[self.visited[0]][0])


def fitted_to(posterior: P, scale: Transform, rows: Array, y: Array, paths: Sequence[Path]) -> Fitted[P]:
    """A posterior with its surroundings, for the rows (n, d) it was fitted to, which are good where y (n,) is low."""
    around: dict[Path, list[int]] = {}
    for k in np.argsort(y, kind="stable").tolist():
        around.setdefault(paths[k], []).append(k)
    near = {path: rows[index[:AROUND]] for path, index in around.items()}
    return Fitted(posterior, scale, float(posterior.target_means().min()), near, list(around))


# Which observations


def enough(data: Data, block_of: BlockOf) -> Data:
    """The data, or of blocks with very many observations those that tell most about the optimum."""
    if len(data.losses) <= MOST_KNOWN:
        return data
    groups: dict[Path, list[int]] = {}
    for k, path in enumerate(data.paths):
        groups.setdefault(block_of(path), []).append(k)
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
    return data.at(sorted(kept))


def latest(trials: list[Trial], block_of: BlockOf) -> list[Trial]:
    """The trials, or of very many of a block the last ones, in their order."""
    if len(trials) <= MOST_RUNNING:
        return trials
    count: Counter[Path] = Counter()
    kept = []
    for trial in reversed(trials):
        block = block_of(trial.path)
        count[block] += 1
        if count[block] <= MOST_RUNNING:
            kept.append(trial)
    return kept[::-1]


# Which scale


def transforms(setting: str, data: Data) -> dict[str, Transform]:
    """The transforms among which the data may choose, by name: made from what trials said last, failed ones left out.

    A report on the way may be far worse than any last one: then no scale without a bend is among them.
    """
    found = TRANSFORMS[setting](data.last_losses())
    in_reach = {name: made for name, made in found.items() if made.bent or np.all(made.forward(data.losses) < LARGEST)}
    return in_reach or found


class Scaled(NamedTuple, Generic[M]):
    """A model of losses on some scale, and the most likely hyperparameters."""

    name: str
    scale: Transform
    model: M
    theta: Array


def most_likely(data: Data, scales: dict[str, Transform], fit: Callable[[Array], tuple[M, Array, float]]) -> Scaled[M]:
    """The scale under which the data are most likely.

    Args:
        data: the data.
        scales: what to choose from, by name.
        fit: from transformed losses (n,) to a model, its most likely hyperparameters, and minus their log-posterior.
    """
    found = []
    for name, scale in scales.items():
        model, theta, value = fit(scale.forward(data.losses))
        jacobian = float(np.sum(scale.log_slope(data.losses[~data.failed]))) if len(scales) > 1 else 0.0
        found.append((value - jacobian, Scaled(name, scale, model, theta)))
    return min(found, key=lambda pair: pair[0])[1]


class Alone(Generic[M]):
    """Estimates for one path at a time, each from the path's first observations: as many as the schedule of refits says.

    They depend on those observations and on the scale alone, so that it does not matter which of them are still known.

    Args:
        transform: the setting.
        part: see `next_fit`.
    """

    def __init__(self, transform: str, part: int) -> None:
        self._transform, self._part = transform, part
        self._known: dict[tuple[str, bytes], Scaled[M]] = {}

    def estimate(self, data: Data, name: str, likely: Callable[[Data, dict[str, Transform]], Scaled[M]]) -> Scaled[M]:
        """The estimate for the data of a path.

        Args:
            data: all data of the path.
            name: of the kind of scale that all paths have together.
            likely: makes an estimate from data and the scales to choose from.
        """
        n = 0
        while next_fit(n, self._part) <= len(data.losses):
            n = next_fit(n, self._part)
        first = data.at(range(n))
        key = name, first.rows.tobytes() + first.losses.tobytes()
        if key not in self._known:
            if len(self._known) >= MOST_ALONE:
                self._known.clear()
            scales = TRANSFORMS[self._transform](first.losses)
            self._known[key] = likely(first, {name: scales[name]} if name in scales else scales)
        return self._known[key]


# The chance of success


class Chances:
    """The model of success over the course of a search: when it is estimated again, from which hyperparameters on."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._theta: Named = {}
        self._fitted_to = 0
        self._last: tuple[bytes, Success] | None = None  # what it was made of; one suggestion asks several times

    def believable(self, data: Data, remember: bool = True) -> Data:
        """The data, without the imputed losses of failed trials if failures are accidents.

        That a trial has failed says that its configuration is bad if others like it fail as well. Where failures have
        nothing to do with the place (a node was lost), it would teach the model that good places are bad.
        """
        success = self.now(remember) if self._imputed(data) else None
        return data if success is None or success.by_place() else self.measured(data)

    def measured(self, data: Data) -> Data:
        """The data without imputed losses. They keep a search away from failures; what is answered goes by what was seen."""
        imputed = self._imputed(data)
        return data.at([k for k in range(len(data.losses)) if k not in imputed]) if imputed else data

    def _imputed(self, data: Data) -> set[int]:
        """The places of imputed losses: each is the last of its trial."""
        last = np.append(data.numbers[1:] != data.numbers[:-1], True)[: len(data.losses)]
        ended = np.flatnonzero(last & data.failed).tolist()
        return {k for k in ended if data.trials[k].status in self._search.trials.bad}

    def now(self, remember: bool = True) -> Success | None:
        """The chance of success of rows; None while nothing has failed."""
        trials = self._search.trials
        if not any(trials.count(status) for status in FAILED):
            return None
        ended = [trial for trial in trials if trial.status is not Status.RUNNING]
        failed = np.array([trial.status in FAILED for trial in ended], dtype=bool)
        kept = ended[-MOST_KNOWN:]
        rows = np.concatenate([self._search.given_row(trial) for trial in kept])
        due = len(ended) >= next_fit(self._fitted_to, SUCCESS_REFIT)
        made_of = rows.tobytes() + failed.tobytes()
        if self._last is None or self._last[0] != made_of:
            paths = [trial.path for trial in kept]
            self._last = made_of, Success(self._search.given, rows, paths, failed[-MOST_KNOWN:], self._theta, due)
        model = self._last[1]
        if due and remember:
            self._theta.update(model.theta)
            self._fitted_to = len(ended)
        return model

    def state(self) -> dict[str, Any]:
        return {"theta": dump_named(self._theta), "fitted_to": self._fitted_to}

    def restore(self, state: dict[str, Any]) -> None:
        self._theta, self._fitted_to, self._last = load_named(state["theta"]), int(state["fitted_to"]), None


# Hyperparameters as JSON


def dump_named(theta: Named) -> list[list[Any]]:
    """Named hyperparameters as JSON values."""
    return [[kind, list(which) if isinstance(which, tuple) else which, value] for (kind, which), value in theta.items()]


def load_named(saved: Any) -> Named:
    """The inverse of `dump_named`; raises ValueError for what is no finite number."""
    theta: Named = {}
    for kind, which, value in saved:
        theta[str(kind), tuple(which) if isinstance(which, list) else which] = checked(value)
    return theta


def dump_theta(theta: Array | None) -> list[float] | None:
    """Hyperparameters (k,) as JSON values."""
    return None if theta is None else theta.tolist()


def load_theta(saved: Any, length: int) -> Array | None:
    """The inverse of `dump_theta`; raises ValueError unless there are so many finite numbers."""
    if saved is None:
        return None
    if not isinstance(saved, list) or len(saved) != length:
        raise ValueError("bad hyperparameters")
    return np.array([checked(value) for value in saved])


def checked(value: Any) -> float:
    """A finite number; raises ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ValueError(f"bad hyperparameter {value!r}")
    return float(value)


class Remembering(Protocol):
    """What a model remembers from one fit to the next, as JSON values."""

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class Modelled(Protocol):
    """A strategy with a model, as a report looks at it."""

    search: Search

    @property
    def inference(self) -> Remembering: ...

    def ready(self) -> bool: ...

    def fit(self, remember: bool = True) -> Fitted[Any]: ...

    def final(self) -> Fitted[Any]: ...

    def answer_from(self, fit: Callable[[], Fitted[Any]]) -> Answer | None: ...


class Inference(Protocol[P]):
    """A model over the course of a search: how it is fitted, and what it remembers from one fit to the next."""

    def block_of(self, path: Path) -> Path:
        """The block of a path."""
        ...

    def fit(self, data: Data, target: float, remember: bool = True) -> Fitted[P]:
        """The model for what is known now; hyperparameters are estimated again when the schedule says so.

        Looking (`remember=False`) leaves no trace: suggestions do not depend on who asked for an explanation in between.
        """
        ...

    def alone(self, data: Data, target: float) -> Fitted[P]:
        """A model of the data of one path, which the others have not taught anything."""
        ...

    def final(self, data: Data) -> Fitted[P]:
        """The model to answer questions from."""
        ...

    def expect_curves(self) -> None:
        """Rows have a fidelity from now on."""
        ...

    def describe(self, fitted: Fitted[P], trial: Trial, row: Array) -> dict[str, Prediction]:
        """Predictions to show of a trial with a row (1, d), by name."""
        ...

    def notes(self, fitted: Fitted[P]) -> Notes:
        """What the model says in general."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: dict[str, Any]) -> None: ...
