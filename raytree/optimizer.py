"""The search loop without Ray: ask, report, tell, fail, state. Read this first.

    optimizer = RandomOptimizer(space, seed=0)
    suggestion = optimizer.ask()                   # an id and a configuration
    optimizer.report(suggestion.id, 0.7, t=1)      # as often as there is news, or never
    optimizer.tell(suggestion.id, 0.5)             # or optimizer.fail(suggestion.id)

A suggestion comes from the first of these that has one: points the user asked for; the initial design, while fewer trials
exist than it has points; the strategy of the method. Points that were tried before are passed over while the space has any
other; a finite space that is used up ends the search.

Determinism: randomness is drawn from (seed, number of the ask), so that the same events give the same suggestions in any
process and after `from_state(state())`.
"""

from __future__ import annotations

import inspect
import logging
import math
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from html import escape
from typing import Any, ClassVar, NamedTuple

import numpy as np

from raytree import state as document
from raytree.design import Design, default_length
from raytree.errors import ConfigurationError, SettingError, SpaceError, StateError
from raytree.explain import Explanation
from raytree.gp.linalg import Array
from raytree.space import Point, Space
from raytree.space.added import Added
from raytree.space.fill import filled
from raytree.space.flat import flatten
from raytree.space.migrate import migrate
from raytree.space.naming import name_of
from raytree.space.recover import recover
from raytree.space.serial import alike, dump, fingerprint, load, storable
from raytree.store import Ending, Observations, Status, Trial, as_value
from raytree.strategies.base import Answer, Search, Strategy

logger = logging.getLogger("raytree")

_RANDOM_TRIES = 64
LARGEST_DESIGN = 1_000_000
"""Suggestions from the initial design; more is a slip of the pen, or somebody's forgery."""
LARGEST_BUDGET = 2**63 - 1


class Suggestion(NamedTuple):
    """What to evaluate next, and the id to tell its value by."""

    id: str
    config: Any


class Recommendation(NamedTuple):
    """The configuration to use: expected metric in the user's sign and units, with its standard deviation if modelled."""

    config: Any
    value: float
    sd: float | None
    trial_id: str

    def _repr_html_(self) -> str:
        around = "" if self.sd is None else f" ± {self.sd:.2g}"
        items = "".join(
            f"<tr><td>{escape(key)}</td><td>{escape(name_of(v))}</td></tr>" for key, v in flatten(self.config).items()
        )
        return f"<p><b>{self.value:.6g}{around}</b> expected, trial {escape(self.trial_id)}</p><table>{items}</table>"


MakeStrategy = Callable[[Search], Strategy]


class Optimizer:
    """The loop and the state of a search; it has a strategy, which chooses. Use one of the methods in `optimizers`.

    Args:
        space: a `Space`, or anything `Space` is built from.
        strategy: makes the strategy for a search.
        method: the settings of the method, which make it again.
        added: a parameter that the method searches beside those of the space.
        seed: any non-negative integer; drawn at random if None, and saved.
        mode: "min" or "max".
        num_initial: suggestions from the initial design, points given by the user included; by default eight, or one per
            path where those are few, at most a third of the budget.
        budget: how many trials there will be, if known.
        on_error: what a trial that ends in error means: "penalize" (it was bad) or "ignore" (its value is unknown). Either
            way it lowers the chance of success around it.
        max_t: the t at which a trial is complete, if some are stopped before (by a scheduler): a number, or "auto" for the
            largest that was seen. Methods with a model of fidelity learn from stopped trials at their own t, the others use
            complete ones only. None: whatever value a trial ends with counts in full.
    """

    OBJECTS: ClassVar[tuple[str, ...]] = ()
    """Settings that a state does not hold: they are to be given again when it is restored."""
    _kinds: ClassVar[dict[str, type[Optimizer]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Optimizer._kinds[cls.__name__] = cls

    def __init__(
        self,
        space: Space | Any,
        strategy: MakeStrategy,
        method: dict[str, Any],
        added: Added | None = None,
        *,
        seed: int | None = None,
        mode: str = "min",
        num_initial: int | None = None,
        budget: int | None = None,
        on_error: str = "penalize",
        max_t: float | str | None = None,
    ) -> None:
        self.given_space = space if isinstance(space, Space) else Space(space)
        self.space = self.given_space if added is None else added.to(self.given_space)
        self.seed = _checked_seed(seed)
        self.budget = _positive("budget", budget, LARGEST_BUDGET)
        self.num_initial = _positive("num_initial", num_initial, LARGEST_DESIGN) or default_length(self.space, self.budget)
        self.observations = Observations(self.space, mode, on_error, max_t)
        self.strategy = strategy(Search(self.given_space, self.space, self.observations, self.seed))
        self._method, self._added = method, added
        self._requested: list[Point] = []
        self._asks = 0
        self._given = 0
        self._failures = 0
        self._design = Design(self.space, self.num_initial, self.seed)

    @classmethod
    def known_settings(cls) -> list[str]:
        """The keyword arguments of this method."""
        parameters = inspect.signature(cls.__init__).parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]

    # Configurations

    def point(self, config: Any) -> Point:
        """The codes of a configuration, in which the parameter that the method adds may be missing.

        Raises:
            ConfigurationError: with the place where it leaves the space.
        """
        if self._added is not None and isinstance(config, dict) and self._added.key not in config:
            config = {**config, self._added.key: self.strategy.added_value()}
        return self.space.point(config)

    def _split(self, config: Any) -> tuple[Any, dict[str, Any]]:
        """A configuration of the given space, and what the method has added to it."""
        if self._added is None or not isinstance(config, dict):
            return config, {}
        return self._added.without(config), {key: config[key] for key in (self._added.key,) if key in config}

    def migrated(self, config: Any, defaults: Mapping[str, Any] | None, drop: Collection[str]) -> Any:
        """A configuration of an earlier version of the space as one of this, see `space.migrate`."""
        own, apart = self._split(config)
        found = migrate(self.given_space, own, defaults, drop)
        return {**found, **apart} if apart else found

    def recovered(self, config: Mapping[str, Any], hint: str = "") -> Any:
        """The configuration of a trial that was not asked for here, from what it reported; see `space.recover`."""
        found = self.given_space.config(recover(self.given_space, config, hint))
        flat = flatten(config)
        return found if self._added is None or self._added.key not in flat else {**found, self._added.key: flat[self._added.key]}

    def completed(self, config: Any) -> Any:
        """A configuration with everything that it lacks; raises `ConfigurationError` where it leaves the space."""
        try:
            self.point(config)
            return config
        except ConfigurationError:
            own, apart = self._split(config)
            rng = np.random.default_rng([self.seed, 9, len(self._requested)])
            found = self.given_space.config(filled(self.given_space, own, rng))
            found = {**found, **apart} if apart else found
            self.point(found)
            return found

    # The loop

    def request(self, config: Any) -> None:
        """Ask for a configuration before anything else; requests are served in order, and exactly as given.

        What a partial configuration lacks is drawn at random.
        """
        self._requested.append(self.point(self.completed(config)))

    def ask(self, trial_id: str | None = None) -> Suggestion | None:
        """The next configuration to evaluate, or None if a finite space is used up.

        Args:
            trial_id: an id of the caller's; numbered by default.
        """
        point = self._next()
        if point is None:
            return None
        self._asks += 1
        trial = self.observations.add(trial_id if trial_id is not None else str(self._asks - 1), point)
        return Suggestion(trial.id, self.space.config(point))

    def _next(self) -> Point | None:
        if self._requested:
            return self._requested.pop(0)
        if self.observations.n_used >= self.space.size:
            return None
        rng = np.random.default_rng([self.seed, 2, self._asks])
        for rows in (self._preferred, lambda rng: self.strategy.at_random(rng, _RANDOM_TRIES)):
            for row in rows(rng):
                point = self._decoded(row)
                if point is not None and not self.observations.used(point):
                    return point
        return self.strategy.leftover(rng)

    def _decoded(self, row: Array) -> Point | None:
        """The point of a proposed row, moved into the unit cube; None for a row that is no place in it."""
        try:
            return self.space.decode(np.clip(row, 0.0, 1.0))
        except SpaceError as error:  # NaN where a parameter is active
            self._broke_down(error)
            return None

    def _preferred(self, rng: np.random.Generator) -> Iterable[Array]:
        """Rows from the design or from the method; none if the method breaks down, which must not end a search."""
        queued = self.strategy.queued()
        if queued:
            return queued
        if len(self.observations) < self.num_initial or not self.strategy.ready():
            return [self.strategy.initial(self._design, len(self.observations))]
        try:
            return list(self.strategy.propose(self._asks, rng))
        except Exception as error:  # noqa: BLE001  whatever it is, it is logged, and the search goes on
            self._broke_down(error)
            return []

    def _broke_down(self, error: Exception) -> None:
        """Says once, at length, that a proposal failed; `failures` counts them."""
        self._failures += 1
        level = logging.ERROR if self._failures == 1 else logging.DEBUG
        message = (
            "raytree: %s failed to propose (%s: %s). Random points take the place of such proposals; explain() counts them. "
            "This is a fault in raytree: please report it."
        )
        logger.log(level, message, type(self).__name__, type(error).__name__, error, exc_info=error)

    @property
    def failures(self) -> int:
        """How many proposals of the method broke down; each was replaced by a random point."""
        return self._failures

    def report(self, trial_id: str, value: Any, t: float) -> None:
        """A value on the way, at time t. Unknown ids are ignored."""
        if trial_id in self.observations:
            self.observations.report(trial_id, value, float(t))

    def tell(self, trial_id: str, value: Any, t: float | None = None, cost: float | None = None) -> None:
        """The final value of a trial, and what it cost, if that is known. Unknown ids are ignored; a second time replaces the
        first."""
        if trial_id in self.observations:
            self.observations.finish(trial_id, value, None if t is None else float(t))
            spent = as_value(cost)
            self.observations.trials[trial_id].cost = spent if spent is not None and spent > 0 else None

    def expect_curves(self) -> None:
        """Trials are being stopped or paused on their way: unless `max_t` says otherwise, the longest one is complete."""
        if self.observations.max_t is None:
            self.observations.max_t = "auto"
            self.strategy.expect_curves()

    def end(self, trial_id: str, by_itself: bool = False) -> None:
        """A trial ended without a last value: its last report counts. Unknown ids are ignored.

        Args:
            trial_id: which.
            by_itself: whether it came to its end, or something stopped it. Without any report it is invalid, or nothing
                is known of it.
        """
        if trial_id in self.observations:
            self.observations.end(trial_id, by_itself)

    def fail(self, trial_id: str) -> None:
        """A trial ended in error. Unknown ids are ignored."""
        if trial_id in self.observations:
            self.observations.fail(trial_id)

    def give(self, config: Any, value: Any, t: float | None = None, trial_id: str | None = None) -> str:
        """An evaluation made elsewhere; returns its id."""
        trial = self.adopt(self.fresh_id() if trial_id is None else trial_id, config)
        self.observations.finish(trial.id, value, t)
        return trial.id

    def fresh_id(self) -> str:
        """An id for a trial that was not asked for here."""
        self._given += 1
        return f"given-{self._given - 1}"

    def adopt(self, trial_id: str, config: Any, provisional: bool = False) -> Trial:
        """A running trial that was not asked for here, such as one started again under a new id.

        What a provisional one reports counts at once: its end may never be told.
        """
        return self.observations.add(trial_id, self.point(config), provisional)

    @property
    def pending(self) -> list[Trial]:
        """Trials that were suggested and have not ended."""
        return self.observations.running()

    # What was learnt

    def recommend(self) -> Recommendation | None:
        """The configuration to use: the evaluated one that the method expects most of. None before there is a value."""
        return self.recommended(self.strategy.answer())

    def recommended(self, answer: Answer | None) -> Recommendation | None:
        """An answer of the strategy, as you would use it."""
        if answer is None:
            return None
        config, _ = self._split(self.space.config(answer.trial.point))
        return Recommendation(config, answer.value, answer.sd, answer.trial.id)

    def explain(self) -> Explanation:
        """What was tried where: per path, trials, failures, best and mean value, share of trials, and what the model says."""
        return self.strategy.explain(f"{type(self).__name__}, {len(self.observations)} trials")

    # State

    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make this optimizer again."""
        return {
            "seed": self.seed,
            "mode": self.observations.mode,
            "num_initial": self.num_initial,
            "budget": self.budget,
            "on_error": self.observations.on_error,
            "max_t": self.observations.max_t,
            **self._method,
        }

    def state(self) -> dict[str, Any]:
        """Everything needed to go on as if nothing had happened, as plain JSON values."""
        structure = dump(self.given_space.structure)
        return {
            "kind": type(self).__name__,
            "space": structure if storable(structure) else None,
            "fingerprint": fingerprint(self.given_space),
            "settings": self.settings(),
            "asks": self._asks,
            "given": self._given,
            "requested": [list(point) for point in self._requested],
            "trials": [_dump_trial(trial) for trial in self.observations],
            "method": self.strategy.state(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], space: Space | Any | None = None, **settings: Any) -> Optimizer:
        """The optimizer of a state; of the saved kind, which must be this class or one below it.

        Without a space the state is trusted: it decides which keys and values configurations have. With one, they come
        from your space and your settings, and a state that has others is refused.

        Args:
            state: from `state`, or from `raytree.state.read`.
            space: the space that was saved; needed if it holds objects that a file cannot, or if you do not trust the
                state.
            settings: those in `OBJECTS`, if the search had any; with a space, also those that add to configurations
                (`seed_key`, `fidelity_key`, ...). Of all others the saved ones count.

        Raises:
            StateError: if anything is missing or wrong. Nothing is changed then.
        """
        kind = cls._kinds.get(str(state.get("kind")))
        if kind is None or not issubclass(kind, cls):
            raise StateError("state", f"holds a {state.get('kind')!r}, not a {cls.__name__}.", "Use the class that saved it.")
        try:
            return kind._load(state, space, settings)
        except StateError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as error:
            raise StateError("state", f"malformed ({type(error).__name__}: {error}).", "Use another snapshot.") from error

    @classmethod
    def _load(cls, state: dict[str, Any], given: Space | Any | None, settings: dict[str, Any]) -> Optimizer:
        objects = {name: settings[name] for name in cls.OBJECTS if name in settings}
        if given is None:
            if state["space"] is None:
                raise StateError("space", "holds objects that a file cannot.", "Pass the same space when restoring.")
            optimizer = cls(Space(load(state["space"])), **state["settings"], **objects)
        else:
            space = given if isinstance(given, Space) else Space(given)
            _check_same(space, state["fingerprint"])
            optimizer = cls(space, **state["settings"], **objects)
            yours = cls(space, **{name: value for name, value in settings.items() if name not in cls.OBJECTS})
            _check_added(space, optimizer.space, yours.space)
        for saved in state["trials"]:
            optimizer._restore_trial(saved)
        optimizer._requested = [optimizer.strategy.search.checked(point) for point in state["requested"]]
        optimizer._asks, optimizer._given = _count(state["asks"]), _count(state["given"])
        optimizer.strategy.restore(state["method"])
        return optimizer

    def _restore_trial(self, saved: dict[str, Any]) -> None:
        trial = self.observations.add(str(saved["id"]), self.strategy.search.checked(saved["point"]))
        trial.status = Status(saved["status"])
        trial.reports = {_finite(t): None if value is None else _finite(value) for t, value in saved["reports"]}
        trial.value = None if saved["value"] is None else _finite(saved["value"])
        trial.t = None if saved["t"] is None else _finite(saved["t"])
        trial.cost = None if saved["cost"] is None else _finite(saved["cost"])
        trial.ending = Ending(saved["ending"])
        trial.provisional = saved["provisional"] is True
        if (trial.status is Status.FINISHED) != (trial.value is not None):
            raise StateError("state", f"trial {trial.id} is {trial.status} with value {trial.value}.", "Use another snapshot.")
        self.observations.note(trial)

    def save(self) -> str:
        """`state` as a document with a version and a checksum."""
        return document.write(self.state())

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.observations)


def _dump_trial(trial: Trial) -> dict[str, Any]:
    return {
        "id": trial.id,
        "point": list(trial.point),
        "status": str(trial.status),
        "value": trial.value,
        "t": trial.t,
        "reports": [[t, value] for t, value in trial.reports.items()],
        "cost": trial.cost,
        "ending": str(trial.ending),
        "provisional": trial.provisional,
    }


def _check_same(space: Space, saved: str) -> None:
    """Raises `StateError` if a space has another fingerprint than the saved one; warns where that does not say enough."""
    if fingerprint(space) != saved:
        raise StateError(
            "space",
            "is not the space of the saved search.",
            "Pass the same space, in the same order, or none if you trust the file.",
        )
    names = list(dict.fromkeys(alike(dump(space.structure))))
    if names:
        message = "raytree: choices of type %s look all the same; keep them in the order of the saved search"
        logger.warning(message, ", ".join(names))


def _check_added(space: Space, saved: Space, yours: Space) -> None:
    """Raises `StateError` if the saved settings make another space of the given one than yours do."""
    if fingerprint(saved) == fingerprint(yours):
        return
    added, expected = ([key for key in made.structure if key not in space.structure] for made in (saved, yours))
    if added != expected:
        what = f"adds {added or 'nothing'} to configurations; your settings add {expected or 'nothing'}."
    else:
        what = f"gives {added} other values than your settings do."
    raise StateError(
        "settings", f"the saved search {what}", "Give the settings of the saved search, or no space if you trust the file."
    )


def _checked_seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbits(31)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SettingError("seed", f"must be a non-negative integer or None, got {seed!r}.")
    return int(seed)


def _positive(name: str, value: int | None, largest: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= largest:
        raise SettingError(name, f"must be a positive integer up to {largest:,} or None, got {value!r}.")
    return int(value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a count, got {value!r}")
    return value


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    return float(value)
