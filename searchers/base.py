"""The Ray Tune side of every searcher, once: what Tune calls, and what it may throw at us.

Tune's loop is single-threaded and calls `suggest`, `on_trial_result`, `on_trial_complete`, `save` and `restore`; an
exception from any of them ends the whole run. So constructors, `set_search_properties`, `restore` and a `suggest` that
cannot start raise clear errors, and nothing else raises: whatever arrives (unknown ids, repeats, missing metrics) is
stored, ignored, or logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ray.tune.result import DEFAULT_METRIC, TIME_TOTAL_S, TRAINING_ITERATION
from ray.tune.search.searcher import Searcher

from raytree import state as document
from raytree.errors import ConfigurationError, DamagedStateError, RaytreeError, SettingError, SpaceError, StateError
from raytree.explain import Explanation, trial_table
from raytree.observations import Status, Trial, as_value
from raytree.optimizer import Optimizer, Recommendation
from raytree.searchers import driver
from raytree.searchers.history import read_history
from raytree.searchers.placeholders import has_placeholders
from raytree.searchers.tune_space import to_space
from raytree.space import Space
from raytree.space.serial import dump, fingerprint, load, storable
from raytree.space.when import contains_when

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("raytree")

_MISSING = object()


def _never_raises(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback that logs instead of raising: an exception here would end the user's whole run."""

    @wraps(callback)
    def guarded(self: RaytreeSearcher, *args: Any, **kwargs: Any) -> None:
        try:
            callback(self, *args, **kwargs)
        except Exception:
            logger.exception("raytree: %s failed; the search goes on without this event", callback.__name__)

    return guarded


class RaytreeSearcher(Searcher):
    """The base of the searchers; use one of them.

    Args:
        space: the search space, if it is not given to Tune as `param_space` or `config`.
        metric: the metric to optimize; Tune's own if left out.
        mode: "min" or "max"; Tune's own if left out.
        points_to_evaluate: configurations to run first, in order and exactly as given.
        evaluated_rewards: metric values of the first of them; those are not run again.
        seed: makes suggestions reproducible.
        num_initial: suggestions from the space-filling design, the points above included.
        time_attr: what counts the progress of a trial in its results; with None its reports are counted.
        on_error: what a trial that failed means: "ignore" or "penalize".
        method: settings of the optimizer; with a scheduler that stops trials, `max_t` among them: the `time_attr` of a complete
            trial, as the scheduler has it.
    """

    CKPT_FILE_TMPL = "searcher-state-{}.json"
    optimizer_class: ClassVar[type[Optimizer]]

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        points_to_evaluate: Sequence[dict] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        seed: int | None = None,
        num_initial: int | None = None,
        time_attr: str | None = TRAINING_ITERATION,
        on_error: str = "ignore",
        **method: Any,
    ) -> None:
        for name, value, allowed in (("metric", metric, (str,)), ("mode", mode, (str,)), ("time_attr", time_attr, (str,))):
            if value is not None and not isinstance(value, allowed):
                raise SettingError(name, f"must be a string, got {value!r}.", "raytree optimizes one metric.")
        if mode not in (None, "min", "max"):
            raise SettingError("mode", f"must be 'min' or 'max', got {mode!r}.")
        super().__init__(metric=metric, mode=mode)
        self._metric: str | None = metric
        self._mode: str | None = mode
        self._space: Space | None = None if space is None else to_space(space)
        self._own_space = space is not None
        self._points = list(points_to_evaluate or [])
        self._rewards = list(evaluated_rewards or [])
        self._time_attr = time_attr
        self._budget: int | None = None
        self._max_concurrent: int | None = None
        self._settings = {"seed": seed, "on_error": on_error, **method}
        if num_initial is not None:
            self._settings["num_initial"] = num_initial
        self._given: list[tuple[dict, Any, bool, list | None]] = []
        self._optimizer: Optimizer | None = None
        self._warned: set[str] = set()
        self._signed_at: float | None = None
        self._announced = False  # whether Tune has passed its space to this very object
        self._forgotten = False  # whether the space has placeholders that Tune cannot resolve
        if len(self._rewards) > len(self._points):
            raise SettingError("evaluated_rewards", "more values than points_to_evaluate.", "Give one value a point.")
        self._check()

    def _check(self) -> None:
        """Raise now what would be wrong later: settings and points, as far as the space is known."""
        known = self.optimizer_class.known_settings()
        for name in self._settings:
            if name not in known:
                raise SettingError(name, f"is not a setting of {type(self).__name__}.", f"It has {', '.join(known)}.")
        optimizer = self.optimizer_class(self._space or Space({}), mode=self._mode or "min", **self._settings)
        if self._space is not None:
            for k, point in enumerate(self._points):
                try:
                    optimizer.point(point)
                except ConfigurationError as error:
                    raise type(error)(f"points_to_evaluate[{k}]: {error.where}", error.problem, error.remedy) from None
            for parameters, *_ in self._given:
                optimizer.point(parameters)

    # Set-up

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict, **spec: Any) -> bool:
        """Tune's metric, mode, space and budget; False if a different space was given before."""
        for name, own, given in (("metric", self._metric, metric), ("mode", self._mode, mode)):
            if own is not None and given is not None and own != given:
                raise SettingError(name, f"the searcher was given {own!r} and Tune {given!r}.", "Give it in one place.")
        self._metric, self._mode = self._metric or metric, self._mode or mode
        samples = spec.get("num_samples")
        if isinstance(samples, int) and samples > 0 and self._optimizer is None:
            self._budget = samples
        if contains_when(config):
            raise SpaceError(
                "param_space",
                "`when` only works in the searcher's own space: Tune would leave inactive keys in the configuration.",
                f"Use {type(self).__name__}(space=..., metric=..., mode=...) and no param_space.",
            )
        self._announced, self._forgotten = True, False
        if self._own_space:
            return False
        space = to_space(config)
        if self._space is not None and fingerprint(space) != fingerprint(self._space):
            return False
        if self._space is None:
            self._space = space
            self._check()
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Records the number; False: Tune's limiter does the limiting."""
        self._max_concurrent = max_concurrent
        return False

    def _ready(self) -> Optimizer:
        """The optimizer, made when everything it needs is known."""
        if self._optimizer is not None:
            return self._optimizer
        if self._space is None:
            raise SettingError(
                "space", "the searcher has no search space.", "Pass param_space=... to Tuner, or space=... to the searcher."
            )
        if self._mode is None:
            raise SettingError(
                "metric and mode",
                "nothing says what to optimize.",
                "Tune passes its own only together with a param_space: "
                f"give them to the searcher, {type(self).__name__}(space=..., metric='loss', mode='min').",
            )
        self._metric = self._metric or DEFAULT_METRIC
        self._optimizer = self.optimizer_class(self._space, mode=self._mode, budget=self._budget, **self._settings)
        for point, reward in zip(self._points, self._rewards, strict=False):
            self._optimizer.give(point, reward)
        for point in self._points[len(self._rewards) :]:
            self._optimizer.request(point)
        for parameters, value, error, intermediate in self._given:
            self._give(parameters, value, error, intermediate)
        self._given = []
        return self._optimizer

    # The loop

    def suggest(self, trial_id: str) -> dict | str | None:
        """A configuration with everything resolved, or `FINISHED` when a finite space is used up."""
        optimizer = self._ready()
        if self._forgotten:
            raise SettingError(
                "param_space",
                "holds objects, and after a restart Tune has forgotten them: trials would get placeholders.",
                "Pass it again: Tuner.restore(path, trainable=..., param_space=...).",
            )
        if trial_id in optimizer.observations:  # asked again for the same trial: the same answer
            return optimizer.space.config(optimizer.observations.trials[trial_id].point)
        suggestion = optimizer.ask(trial_id)
        return Searcher.FINISHED if suggestion is None else suggestion.config

    @_never_raises
    def on_trial_result(self, trial_id: str, result: dict) -> None:
        """Stores a report by its t."""
        trial = self._known(trial_id, result)
        value = self._measure(result)
        if trial is not None and value is not _MISSING:
            self._ready().report(trial_id, value, self._time(result) or max(trial.reports, default=0) + 1)

    @_never_raises
    def on_trial_complete(self, trial_id: str, result: dict | None = None, error: bool = False) -> None:
        """Ends a trial: with its last value, with what it had reported before, or in error."""
        trial = self._known(trial_id, result)
        if trial is None:
            return
        optimizer = self._ready()
        value = _MISSING if result is None else self._measure(result)
        if error:
            optimizer.fail(trial_id)
        elif value is _MISSING:
            optimizer.end(trial_id)
            if result is not None:
                self._warn("metric", "a trial ended without the metric %r; its last report counts", self._metric)
        else:
            optimizer.tell(trial_id, value, self._time(result or {}), (result or {}).get(TIME_TOTAL_S))
        if trial.status is Status.INVALID:
            self._warn("invalid", "a trial ended with %r, no finite number; it counts as a failed configuration", value)
        self._log(trial)

    @_never_raises
    def on_pause(self, trial_id: str) -> None:
        """A paused trial is still running for us; trials are not all complete from now on. HyperBandForBOHB calls this."""
        optimizer = self._ready()
        if optimizer.observations.max_t is None:
            self._warn("pause", "a scheduler pauses trials; the longest is taken to be complete (max_t=... says better)")
            optimizer.expect_curves()

    def on_unpause(self, trial_id: str) -> None:
        """See `on_pause`."""

    def _known(self, trial_id: str, result: dict | None) -> Trial | None:
        """The trial of an id; one never suggested is rebuilt from the configuration in its result, if that fits."""
        optimizer = self._ready()
        if trial_id in optimizer.observations:
            return optimizer.observations.trials[trial_id]
        config = _config_of(result or {})
        if config is None:
            logger.debug("raytree: ignoring news of the unknown trial %s", trial_id)
            return None
        try:
            return optimizer.adopt(trial_id, config)
        except ConfigurationError as error:
            self._warn("foreign", "ignoring trial %s, which is not from this space (%s)", trial_id, error)
            return None

    def _measure(self, result: dict, metric: str | None = None) -> Any:
        """The metric in a result, flat or nested; `_MISSING` if it is not there."""
        metric = metric or self._metric
        assert metric is not None
        if metric in result:
            return result[metric]
        value: Any = result
        for key in metric.split("/"):
            if not isinstance(value, dict) or key not in value:
                return _MISSING
            value = value[key]
        return value

    def _time(self, result: dict) -> float | None:
        t = None if self._time_attr is None else as_value(result.get(self._time_attr))
        return t if t is not None and t > 0 else None

    # Points evaluated elsewhere

    def add_evaluated_point(
        self,
        parameters: dict,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """An evaluation made elsewhere, in the user's sign. Kept until the space is known.

        Raises:
            ConfigurationError: if the parameters are not in the space.
        """
        if self._space is None or self._mode is None:
            self._given.append((parameters, value, error, intermediate_values))
        else:
            self._ready()
            self._give(parameters, value, error, intermediate_values)

    def add_evaluated_trials(
        self,
        trials_or_analysis: Any,
        metric: str | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        drop: Collection[str] = (),
    ) -> None:
        """What an earlier run evaluated, from an earlier version of the space too. All of it is added, or nothing.

        Args:
            trials_or_analysis: trials, a `ResultGrid`, an `ExperimentAnalysis`, or an experiment directory you trust.
            metric: the metric of that run, if it had another name there.
            defaults: values of parameters that have appeared since, by their place in a configuration.
            drop: places of parameters that have vanished since.

        Raises:
            ConfigurationError: at the first parameter that is neither in the space nor in `defaults` or `drop`.
        """
        optimizer = self._ready()
        name = metric or self._metric
        assert name is not None
        found = []
        for past in read_history(trials_or_analysis):
            config = optimizer.migrated(past.config, defaults, drop)
            found.append((config, self._measure(past.results, name), self._time(past.results), past.failed))
        if found and all(value is _MISSING for _, value, _, failed in found if not failed):
            self._warn("history", "none of the trials reported the metric %r", name)
        for config, value, t, failed in found:
            if failed:
                optimizer.fail(optimizer.adopt(optimizer.fresh_id(), config).id)
            elif value is not _MISSING:
                optimizer.give(config, value, t)

    def _give(self, parameters: dict, value: Any, error: bool, intermediate: list | None) -> None:
        optimizer = self._ready()
        times = len(intermediate or [])
        trial_id = optimizer.give(parameters, value, t=float(times) if times else None)
        for t, step in enumerate((intermediate or [])[:-1], start=1):
            optimizer.report(trial_id, step, t)
        if error:
            optimizer.observations.discard_value(trial_id)

    # Answers

    def recommend(self) -> Recommendation | None:
        """The configuration to use, with its expected metric; None before there is any value."""
        return None if self._optimizer is None else self._optimizer.recommend()

    def explain(self) -> Explanation:
        """What the search has learnt: `.table`, and text when printed."""
        return self._ready().explain()

    def observations(self) -> pandas.DataFrame:
        """One row per trial, in order of suggestion."""
        return trial_table(self._ready().observations)

    @classmethod
    def from_experiment(cls, directory: str | Path, **settings: Any) -> Self:
        """The searcher of an experiment directory: after `Tuner.restore` the user holds none."""
        searcher = cls(**settings)
        searcher._restore_newest(Path(directory).expanduser())
        return searcher

    # State

    def save(self, checkpoint_path: str) -> None:
        """Writes everything needed to go on, as one JSON document: whole, or not at all.

        A disk that is full is a warning: the search goes on, and an older file at that place stays as it was.

        Raises:
            StateError: if there can be no such file.
        """
        self._save(Path(checkpoint_path))

    def _save(self, path: Path, through: Path | None = None) -> None:
        """See `save`; `through` is a folder for the unfinished file."""
        started = self._space is not None and self._mode is not None
        payload = {
            "searcher": type(self).__name__,
            "metric": self._metric,
            "mode": self._mode,
            "time_attr": self._time_attr,
            "max_concurrent": self._max_concurrent,
            "own_space": self._own_space,
            "optimizer": self._ready().state() if started else None,
            "waiting": None if started else self._waiting(),
        }
        try:
            document.replace(path, document.write(payload), through)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise StateError(str(path), f"cannot be written ({error.strerror}).", "Check the path.") from None
        except OSError as error:
            message = "the search could not be saved to %s (%s); it goes on, and the last snapshot that was saved stays"
            self._warn("save", message, path, error.strerror)
        else:
            self._warned.discard("save")

    def _waiting(self) -> dict[str, Any] | None:
        """What was given before the space was known, to be saved."""
        waiting = {"points": dump(self._points), "rewards": dump(self._rewards), "given": dump(self._given)}
        if storable(waiting):
            return waiting
        self._warn("waiting", "points that were given hold objects that a file cannot; give them again after a restore")
        return None

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Tune's own snapshot, with a note of who has written it. Never raises: that would end the run."""
        directory = Path(checkpoint_dir)
        try:
            self._save(directory / self.CKPT_FILE_TMPL.format(session_str), driver.beside(directory))
            self._signed_at = driver.sign(directory, session_str, self._signed_at)
        except Exception as error:  # noqa: BLE001
            self._warn("save", "the search could not be saved (%s: %s); it goes on", type(error).__name__, error)

    def restore(self, checkpoint_path: str) -> None:
        """Takes up a saved search: metric, mode, budget and, if the searcher has none, the space included.

        Raises:
            StateError: if the file is damaged, foreign, newer, or of another searcher or space; nothing is changed then.
        """
        self._restore(document.load(Path(checkpoint_path)), checkpoint_path)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Takes up the search of an experiment directory, from the newest snapshot that is whole.

        Raises:
            StateError: as `restore` does, and if another driver is at work there.
        """
        driver.refuse_second(Path(checkpoint_dir))
        self._restore_newest(Path(checkpoint_dir))

    def _restore_newest(self, directory: Path) -> None:
        """See `restore_from_dir`; looking does not disturb a driver."""
        paths = sorted(directory.glob(self.CKPT_FILE_TMPL.format("*")), reverse=True)
        damage: DamagedStateError | None = None
        for path in paths:
            try:
                payload = document.load(path)
            except DamagedStateError as error:
                damage = damage or error
                continue
            self._restore(payload, str(path))
            if damage is not None:
                message = "the newest snapshot is damaged (%s); going on from %s, without what was reported since"
                logger.warning("raytree: " + message, damage, path)
            return
        raise damage or StateError(str(directory), "holds no snapshot of a search.", "Give the folder that Tune wrote.")

    def _restore(self, payload: dict[str, Any], where: str) -> None:
        if payload.get("searcher") != type(self).__name__:
            raise StateError(where, f"was saved by {payload.get('searcher')!r}.", "Restore with the searcher that saved it.")
        saved = _checked_payload(payload, where)
        for name, own in (("metric", self._metric), ("mode", self._mode)):
            if own is not None and saved[name] is not None and own != saved[name]:
                raise StateError(where, f"has the {name} {saved[name]!r}, the searcher {own!r}.", "Give the same, or none.")
        optimizer = None
        if saved["optimizer"] is not None:
            optimizer = self.optimizer_class.from_state(saved["optimizer"], self._space, **self._settings)
            if optimizer.observations.mode != saved["mode"]:
                raise StateError(where, "contradicts itself.", "Use another snapshot.")
        if saved["waiting"] is not None:
            self._restore_waiting(saved["waiting"], where)
        self._metric, self._mode = saved["metric"] or self._metric, saved["mode"] or self._mode
        self._time_attr, self._max_concurrent = saved["time_attr"], saved["max_concurrent"]
        self._own_space = self._own_space or bool(saved["own_space"])
        self._optimizer = optimizer
        if optimizer is not None:
            self._space, self._budget = optimizer.given_space, optimizer.budget
            self._forgotten = not self._announced and has_placeholders(self._space.structure)

    def _restore_waiting(self, waiting: dict[str, Any], where: str) -> None:
        """The inverse of `_waiting`, checked as far as the space is known; changes nothing if something is wrong."""
        before = self._points, self._rewards, self._given
        try:
            self._points, self._rewards, self._given = (load(waiting[name]) for name in ("points", "rewards", "given"))
            for parameters, _, error, intermediate in self._given:
                if (
                    not isinstance(parameters, dict)
                    or not isinstance(error, bool)
                    or not isinstance(intermediate, (list, type(None)))
                ):
                    raise TypeError(f"{parameters!r} is no evaluated point")
            if len(self._rewards) > len(self._points):
                raise ValueError("more values than points")
            self._check()
        except (RaytreeError, TypeError, ValueError, KeyError) as error:
            self._points, self._rewards, self._given = before
            raise StateError(where, f"its points do not fit ({error}).", "Use another snapshot.") from None

    # Talk

    def _warn(self, cause: str, message: str, *args: Any) -> None:
        """A warning, once per cause."""
        if cause not in self._warned:
            self._warned.add(cause)
            logger.warning("raytree: " + message, *args)

    def _log(self, trial: Trial) -> None:
        if not logger.isEnabledFor(logging.INFO):
            return
        optimizer = self._ready()
        space = optimizer.space
        named = []
        for parameter, code in zip(space.parameters, trial.point, strict=True):
            if code is not None and parameter not in (space.parameters[j] for j in space.decisions):
                shown = parameter.domain.render(code)
                named.append(
                    f"{parameter.name.rsplit('.', 1)[-1]}={shown:.4g}"
                    if isinstance(shown, float)
                    else f"{parameter.name.rsplit('.', 1)[-1]}={shown}"
                )
        best = optimizer.observations.best()
        ending = f"{self._metric} {trial.value:.6g}" if trial.value is not None else str(trial.status)
        record = f" (best {best.value:.6g} @ #{best.number + 1})" if best is not None else ""
        label = space.path_label(trial.path)
        where = " ".join(([label] if label != "all" else []) + named)
        logger.info("#%d %s -> %s%s", trial.number + 1, where, ending, record)


def _checked_payload(payload: dict[str, Any], where: str) -> dict[str, Any]:
    """What a searcher has saved, of the right types; raises `StateError`."""
    kinds: dict[str, tuple[type, ...]] = {"metric": (str,), "mode": (str,), "time_attr": (str,), "optimizer": (dict,)}
    kinds |= {"max_concurrent": (int,), "waiting": (dict,)}
    values = {name: payload.get(name) for name in (*kinds, "own_space")}
    if not all(values[name] is None or isinstance(values[name], kind) for name, kind in kinds.items()):
        raise StateError(where, "malformed.", "Use another snapshot.")
    if values["mode"] not in (None, "min", "max"):
        raise StateError(where, f"malformed: the mode is {values['mode']!r}.", "Use another snapshot.")
    return values


def _config_of(result: dict) -> dict | None:
    """The configuration in a result: nested under "config", or flattened into "config/a/b" keys."""
    if isinstance(result.get("config"), dict):
        return result["config"]
    config: dict = {}
    for key, value in result.items():
        if isinstance(key, str) and key.startswith("config/"):
            *above, last = key.split("/")[1:]
            place = config
            for part in above:
                place = place.setdefault(part, {})
                if not isinstance(place, dict):
                    return None
            place[last] = value
    return config or None
