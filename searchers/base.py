"""The Ray Tune side of every searcher, once: what Tune calls, and what it may throw at us.

Tune's loop is single-threaded and calls `suggest`, `on_trial_result`, `on_trial_complete`, `save` and `restore`; an
exception from any of them ends the whole run. So constructors, `set_search_properties`, `restore` and a `suggest` that
cannot start raise clear errors, and nothing else raises: whatever arrives (unknown ids, repeats, missing metrics) is
stored, ignored, or logged.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ray.tune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC, DONE, EXPERIMENT_TAG, TIME_TOTAL_S, TRAINING_ITERATION
from ray.tune.search.searcher import Searcher

from raytree.errors import ConfigurationError, RaytreeError, SettingError, SpaceError, StateError
from raytree.explain import Explanation, trial_table
from raytree.optimizer import Optimizer, Recommendation
from raytree.report import View, view_of, words, write_page
from raytree.report.notebook import searcher_html
from raytree.searchers import driver, progress, snapshot
from raytree.searchers.arguments import check_names, configurations, located, numbers, space_of
from raytree.searchers.elsewhere import Evaluation, History, add_evaluation, add_history
from raytree.searchers.experiment import source_of
from raytree.searchers.hidden import Hidden
from raytree.searchers.history import read_experiment, read_history
from raytree.searchers.results import MISSING, config_of, measured, time_of
from raytree.searchers.snapshot import Snapshot, Waiting
from raytree.searchers.tune_space import find_domain, to_space
from raytree.searchers.watch import Watch, reported
from raytree.space import Space
from raytree.space.flat import flatten
from raytree.space.naming import name_of
from raytree.space.serial import fingerprint
from raytree.space.when import contains_when
from raytree.store import Status, Trial

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("raytree")


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
        points_to_evaluate: configurations to run first, in order and exactly as given; keys that one lacks are filled in.
        evaluated_rewards: metric values of the first of them; those are not run again.
        seed: makes suggestions reproducible.
        num_initial: suggestions from the space-filling design, the points above included.
        time_attr: what counts the progress of a trial in its results.
        on_error: what a trial that ends in error means: "penalize" (it was bad) or
            "ignore" (its value is unknown). Either way it lowers the chance of success
            around it.
        verbose: 1 prints a line for every trial that ends; see `ProgressCallback` for more.
        method: settings of the optimizer; with a scheduler that stops trials, `max_t` among them: the `time_attr` of a complete
            trial, as the scheduler has it.
    """

    CKPT_FILE_TMPL = "searcher-state-{}.json"
    optimizer_class: ClassVar[type[Optimizer]]

    def __new__(cls, *arguments: Any, **settings: Any) -> Self:
        """Refuses a misspelt setting with the one that was probably meant, before Python does."""
        own = [name for name in inspect.signature(RaytreeSearcher.__init__).parameters if name not in ("self", "method")]
        check_names(cls.__name__, settings, list(dict.fromkeys([*own, *cls.optimizer_class.known_settings()])))
        searcher: Self = super().__new__(cls)
        return searcher

    def __init__(
        self,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        points_to_evaluate: Sequence[dict[str, Any]] | None = None,
        evaluated_rewards: Sequence[float] | None = None,
        seed: int | None = None,
        num_initial: int | None = None,
        time_attr: str | None = TRAINING_ITERATION,
        on_error: str = "penalize",
        verbose: int = 0,
        **method: Any,
    ) -> None:
        if metric is not None and not isinstance(metric, str):
            raise SettingError("metric", f"must be a string, got {metric!r}.", "raytree optimizes one metric.")
        if mode not in (None, "min", "max"):
            raise SettingError("mode", f"must be 'min' or 'max', got {mode!r}.")
        if time_attr is not None and (not isinstance(time_attr, str) or not time_attr):
            raise SettingError(
                "time_attr", f"must be the name of a result, got {time_attr!r}.", f"Usually {TRAINING_ITERATION!r}."
            )
        super().__init__(metric=metric, mode=mode)
        self._metric: str | None = metric
        self._mode: str | None = mode
        self._space: Space | None = None if space is None else space_of(space)
        self._own_space = space is not None
        points = configurations("points_to_evaluate", points_to_evaluate)
        rewards = numbers("evaluated_rewards", evaluated_rewards)
        if len(rewards) > len(points):
            raise SettingError("evaluated_rewards", "more values than points_to_evaluate.", "Give one value a point.")
        self._waiting = Waiting(points, rewards, [])
        self._time_attr: str = time_attr or TRAINING_ITERATION
        self._budget: int | None = None
        self._max_concurrent: int | None = None
        self._settings = {"seed": seed, "on_error": on_error, **method}
        if num_initial is not None:
            self._settings["num_initial"] = num_initial
        self._optimizer: Optimizer | None = None
        self._hidden = Hidden()
        self._watch = Watch()
        self._in_use = False
        self._verbose = verbose
        self._thinking = 0.0  # seconds; only ever shown
        self._signed_at: float | None = None
        self._announced = False  # whether Tune has passed its space to this very object
        self._forgotten = False  # whether the space has placeholders that Tune cannot resolve
        self._check(self._waiting)

    def _check(self, waiting: Waiting) -> None:
        """Raise now what would be wrong later: settings and points, as far as the space is known."""
        optimizer = self.optimizer_class(self._space or Space({}), mode=self._mode or "min", **self._settings)
        if self._space is None:
            return
        for k, point in enumerate(waiting.points):
            try:
                if k < len(waiting.rewards):
                    optimizer.point(point)
                else:
                    optimizer.completed(point)
            except ConfigurationError as error:
                raise located(error, f"points_to_evaluate[{k}]") from None
        for entry in waiting.given:
            if isinstance(entry, Evaluation):
                optimizer.point(entry.config)

    # Set-up

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
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
        if self._in_use and self._optimizer is not None and len(self._optimizer.observations):
            self._watch.say(
                "reused",
                "this searcher has %d trials from an earlier run, and goes on from them. For a new search make a new searcher.",
                len(self._optimizer.observations),
            )
        self._in_use = self._announced = True
        self._forgotten = False
        if self._own_space:
            return False
        space = to_space(config)
        if self._space is not None and fingerprint(space) != fingerprint(self._space):
            return False
        if self._space is None:
            self._space = space
            self._check(self._waiting)
        if self._waiting.given and self._mode is not None:
            self._ready()  # what does not fit is refused before the first trial
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
            missing, metric = ("mode", self._metric) if self._metric is not None else ("metric and mode", "loss")
            raise SettingError(
                missing,
                "nothing says whether to make the metric small ('min') or large ('max')."
                if missing == "mode"
                else "nothing says what to optimize.",
                f"Give it to the searcher, {type(self).__name__}(space=..., metric={metric!r}, mode='min'), or to "
                "TuneConfig together with a param_space: without one, Tune does not pass its own on.",
            )
        self._metric = self._name()
        self._optimizer = self.optimizer_class(self._space, mode=self._mode, budget=self._budget, **self._settings)
        self._hidden.tell(self._optimizer)
        points, rewards, given = self._waiting
        try:
            for point, reward in zip(points, rewards, strict=False):
                self._optimizer.give(point, reward)
            for point in points[len(rewards) :]:
                self._optimizer.request(point)
            for entry in given:
                self._take(entry)
        except RaytreeError:
            self._optimizer = None
            raise
        self._waiting = Waiting([], [], [])
        if not self._space.d:
            self._watch.say("nothing", "the space has nothing to search: every value in it is a constant.")
        return self._optimizer

    def _name(self) -> str:
        """The metric's name in results."""
        return self._metric or DEFAULT_METRIC

    # The loop

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """A configuration with everything resolved, or `FINISHED` when a finite space is used up."""
        optimizer = self._ready()
        if self._forgotten:
            raise SettingError(
                "param_space",
                "holds objects, and after a restart Tune has forgotten them: trials would get placeholders.",
                "Pass it again: Tuner.restore(path, trainable=..., param_space=...).",
            )
        if trial_id in optimizer.observations:  # asked again for the same trial: the same answer
            return dict(optimizer.space.config(optimizer.observations.trials[trial_id].point))
        began = time.perf_counter()
        suggestion = optimizer.ask(trial_id)
        self._thinking += time.perf_counter() - began
        if suggestion is None:
            tried = optimizer.observations.n_used
            of = f"{len(optimizer.observations)} of {self._budget} trials: " if self._budget is not None else ""
            self._watch.say(
                "used up", "%sall %d configurations have been tried; the search ends. Widen the space for more.", of, tried
            )
            return str(Searcher.FINISHED)
        return dict(suggestion.config)

    @_never_raises
    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Stores a report by its t."""
        trial = self._known(trial_id, result)
        value = measured(result, self._name())
        t = time_of(result, self._time_attr)
        if t is None and (self._time_attr != TRAINING_ITERATION or self._ready().observations.max_t is not None):
            self._watch.say(
                "time_attr",
                "no %r is in the results of trials, only %s. Their reports are counted instead; give the time_attr of the "
                "scheduler.",
                self._time_attr,
                reported(result, ()),
            )
        if trial is not None and value is not MISSING:
            self._ready().report(trial_id, value, max(trial.reports, default=0) + 1 if t is None else t)

    @_never_raises
    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Ends a trial: with its last value, with what it had reported before, or in error."""
        trial = self._known(trial_id, result)
        if trial is None:
            return
        optimizer = self._ready()
        value = MISSING if result is None else measured(result, self._name())
        if error:
            optimizer.fail(trial_id)
        elif value is MISSING:
            optimizer.end(trial_id, by_itself=result is not None)
            if result is not None:
                self._watch.say(
                    "metric",
                    "a trial ended without the metric %r, it reported %s. Report the metric with tune.report, or give its name.",
                    self._metric,
                    reported(result, {*AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG}),
                )
        else:
            optimizer.tell(trial_id, value, time_of(result or {}, self._time_attr), (result or {}).get(TIME_TOTAL_S))
            if trial.status is Status.INVALID:
                self._watch.say(
                    "invalid", "a trial ended with %s, no finite number; it counts as a failed configuration.", _said(value)
                )
        self._watch.lengths(optimizer.observations, self._time_attr)
        self._log(trial)

    @_never_raises
    def on_pause(self, trial_id: str) -> None:
        """A paused trial is still running for us; trials are not all complete from now on. HyperBandForBOHB calls this."""
        optimizer = self._ready()
        if optimizer.observations.max_t is None:
            self._watch.say("pause", "a scheduler pauses trials; the longest is taken to be complete. Better give its max_t.")
            optimizer.expect_curves()

    def on_unpause(self, trial_id: str) -> None:
        """See `on_pause`."""

    def _known(self, trial_id: str, result: dict[str, Any] | None) -> Trial | None:
        """The trial of an id; one never suggested is rebuilt from the configuration in its result, if that fits."""
        optimizer = self._ready()
        config = config_of(result or {})
        if trial_id not in optimizer.observations:
            if config is None:
                logger.debug("raytree: ignoring news of the unknown trial %s", trial_id)
                return None
            try:
                found = optimizer.recovered(config, str((result or {}).get(EXPERIMENT_TAG, "")))
                optimizer.adopt(trial_id, found, provisional=True)
            except ConfigurationError as error:
                self._watch.say("foreign", "ignoring trial %s, which is not from this space (%s)", trial_id, error)
                return None
        trial = optimizer.observations.trials[trial_id]
        if config is not None:
            self._learn(trial, config)
        return trial

    def _learn(self, trial: Trial, config: Mapping[str, Any]) -> None:
        """Takes what Tune hides from the configuration that a trial got."""
        optimizer = self._ready()
        if optimizer.given_space.hides and self._hidden.learn(trial.id, optimizer.space.config(trial.point), config):
            self._hidden.tell(optimizer)
            if self._hidden.exchanged:
                self._watch.say(
                    "exchanged",
                    "the objects in param_space are not those of the saved search (%s): results change hands. "
                    "Restore with the same objects, in the same order.",
                    ", ".join(self._hidden.exchanged),
                )
            place = find_domain({key: value for key, value in config.items() if not isinstance(value, (list, tuple))}, "config")
            if place is not None:
                self._watch.say(
                    "unresolved",
                    "the trainable gets a domain, not a value, at %s: Tune hides such containers from searchers. "
                    "Put domains into plain dicts, lists or tuples.",
                    place,
                )

    # Points evaluated elsewhere

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """An evaluation made elsewhere, in the user's sign. Kept until the space is known.

        Raises:
            ConfigurationError: if the parameters are not in the space.
        """
        self._accept(Evaluation(parameters, value, error, intermediate_values))

    def add_evaluated_trials(
        self,
        trials_or_analysis: Any,
        metric: str | None = None,
        *,
        defaults: Mapping[str, Any] | None = None,
        drop: Collection[str] = (),
    ) -> None:
        """What an earlier run evaluated, from an earlier version of the space too. All of it is added, or nothing.

        Trials that are known already are passed over, and those that had not ended. Kept until the space is known.

        Args:
            trials_or_analysis: trials, a `ResultGrid`, an `ExperimentAnalysis`, or an experiment directory you trust, as a path
                or a URI such as ``s3://bucket/run``.
            metric: the metric of that run, if it had another name there.
            defaults: values of parameters that have appeared since, by their place in a configuration.
            drop: places of parameters that have vanished since.

        Raises:
            ConfigurationError: at the first parameter that is neither in the space nor in `defaults` or `drop`.
        """
        self._accept(History(read_history(trials_or_analysis), metric, defaults, drop))

    def _accept(self, entry: Evaluation | History) -> None:
        """Takes what was evaluated elsewhere, or keeps it until the space is known."""
        if self._space is None or self._mode is None:
            self._waiting.given.append(entry)
        else:
            self._ready()
            self._take(entry)

    def _take(self, entry: Evaluation | History) -> None:
        optimizer = self._ready()
        if isinstance(entry, Evaluation):
            add_evaluation(optimizer, entry)
        else:
            add_history(optimizer, entry, self._name(), self._time_attr, self._hidden, self._watch)

    # Answers

    def recommend(self) -> Recommendation | None:
        """The configuration to use, with its expected metric; None before there is any value."""
        found = None if self._optimizer is None else self._optimizer.recommend()
        return None if found is None else found._replace(config=self._hidden.shown(found.config, found.trial_id))

    def explain(self) -> Explanation:
        """What the search has learnt: `.table`, and text when printed.

        A row per branch that was tried, in the order of the recommendation; see `raytree.report.words.COLUMNS` for the columns.
        """
        optimizer = self._ready()
        found = words.explain(optimizer, source_of(self))
        own = (
            optimizer.explain()
        )  # what a method says of its leaves, seeds or lengths; weights of decisions say less than the table
        notes = self._hidden.in_text("\n".join(part for part in (found.notes, own.notes if own.edges is None else "") if part))
        if optimizer.failures:
            notes = f"{notes}\n{optimizer.failures} proposals broke down; random configurations took their place".strip()
        return replace(found, notes=notes)

    def report(self, path: str | Path = "report.html", experiment: str | Path | None = None) -> Path:
        """Writes one HTML page with everything there is to see, and returns where it is.

        Args:
            path: of the page.
            experiment: the folder that Tune wrote (`results.experiment_path`), for times and nodes.
        """
        return write_page(view_of(self._ready(), source_of(self, experiment)), path)

    def view(self, details: bool = True) -> View:
        """Everything there is to see of the search, as plain data; `raytree.report.figures` draws it."""
        return view_of(self._ready(), source_of(self), details)

    def __repr__(self) -> str:
        """What it is, what it has, and what leads."""
        if self._optimizer is None:
            return f"{type(self).__name__}(not started)"
        seen = self._optimizer.observations
        best = seen.best()
        leads = "" if best is None else f", best {self._metric} {best.value:.6g} @ #{best.number + 1}"
        return f"{type(self).__name__}({len(seen)} trials, {len(self._optimizer.pending)} running{leads})"

    def _repr_html_(self) -> str:
        return searcher_html(repr(self), None if self._optimizer is None else self.view(details=False))

    def observations(self) -> pandas.DataFrame:
        """One row per trial, in order of suggestion; columns of the configuration are named as Tune names them."""
        optimizer = self._ready()
        return trial_table(optimizer.observations, lambda trial: self._got(trial))

    def _got(self, trial: Trial) -> Any:
        """The configuration of a trial as its trainable got it."""
        return self._hidden.shown(self._ready().space.config(trial.point), trial.id)

    @classmethod
    def from_experiment(cls, directory: str | Path, *, unpickle: bool = True, **settings: Any) -> Self:
        """The searcher of an experiment: after `Tuner.restore` the user holds none.

        Args:
            directory: the folder that Tune wrote, as a path or a URI such as ``s3://bucket/run``.
            unpickle: whether objects in the space (classes, estimators, arrays), which Tune hides from searchers, are
                unpickled from what Tune stored there. Say False for a folder you do not trust: only the searcher's JSON is
                read then, and answers show the names of objects.
            settings: of the searcher; those given here take the place of the saved ones.

        Raises:
            SettingError: if no searcher was saved there, or if it had another metric or mode.
            StateError: if the saved state cannot be used.
        """
        searcher = cls(**settings)
        given = {name: value for name, value in searcher._settings.items() if name in settings}
        searcher._restore_newest(directory, given)
        searcher._time_attr = settings.get("time_attr") or searcher._time_attr
        optimizer = searcher._optimizer
        if unpickle and optimizer is not None and optimizer.given_space.hides:
            for trial in read_experiment(directory).trials:
                if trial.trial_id in optimizer.observations:
                    searcher._learn(optimizer.observations.trials[trial.trial_id], trial.config)
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
        started = self._space is not None and self._mode is not None
        optimizer = self._ready().state() if started else None
        waiting = None if started else self._waiting.state(self._watch)
        found = Snapshot(
            type(self).__name__, self._metric, self._mode, self._time_attr, self._max_concurrent, self._own_space,
            self._hidden.state(), optimizer, waiting,
        )  # fmt: skip
        snapshot.write(found, path, through, self._watch)

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Tune's own snapshot, with a note of who has written it. Never raises: that would end the run."""
        directory = Path(checkpoint_dir)
        try:
            self._save(directory / self.CKPT_FILE_TMPL.format(session_str), driver.beside(directory))
            self._signed_at = driver.sign(directory, session_str, self._signed_at, self._thinking)
        except Exception as error:  # noqa: BLE001
            self._watch.say("save", "the search could not be saved (%s: %s); it goes on.", type(error).__name__, error)

    def restore(self, checkpoint_path: str) -> None:
        """Takes up a saved search: metric, mode, budget and, if the searcher has none, the space included.

        Raises:
            StateError: if the file is damaged, foreign, newer, or of another searcher or space; nothing is changed then.
        """
        self._restore(snapshot.read(Path(checkpoint_path), type(self).__name__), checkpoint_path, {})

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Takes up the search of an experiment directory, from the newest snapshot that is whole.

        Raises:
            StateError: as `restore` does, and if another driver is at work there.
        """
        driver.refuse_second(Path(checkpoint_dir))
        self._restore_newest(checkpoint_dir, {})

    def _restore_newest(self, place: str | Path, settings: dict[str, Any]) -> None:
        """`restore_from_dir` from a path or a URI, with some settings other than the saved ones; looking disturbs no driver."""
        saved, where = snapshot.read_from(place, self.CKPT_FILE_TMPL.format("*"), type(self).__name__)
        self._restore(saved, where, settings)

    def _restore(self, saved: Snapshot, where: str, settings: dict[str, Any]) -> None:
        """`restore`, with some settings other than the saved ones."""
        for name, own, theirs in (("metric", self._metric, saved.metric), ("mode", self._mode, saved.mode)):
            if own is not None and theirs is not None and own != theirs:
                raise StateError(where, f"has the {name} {theirs!r}, the searcher {own!r}.", "Give the same, or none.")
        optimizer = None
        if saved.optimizer is not None:
            state = saved.optimizer
            if settings and isinstance(state.get("settings"), dict):
                state = {**state, "settings": {**state["settings"], **settings}}
            optimizer = self.optimizer_class.from_state(state, self._space, **self._settings)
            if optimizer.observations.mode != saved.mode:
                raise StateError(where, "contradicts itself.", "Use another snapshot.")
        try:
            hidden = Hidden.from_state(saved.hidden or [], self._hidden)
        except (TypeError, ValueError) as error:
            raise StateError(where, f"malformed ({error}).", "Use another snapshot.") from None
        if saved.waiting is not None:
            try:
                waiting = Waiting.from_state(saved.waiting)
                self._check(waiting)
            except (RaytreeError, TypeError, ValueError, KeyError) as error:
                raise StateError(where, f"its points do not fit ({error}).", "Use another snapshot.") from None
            self._waiting = waiting
        self._metric, self._mode = saved.metric or self._metric, saved.mode or self._mode
        self._time_attr, self._max_concurrent = saved.time_attr or TRAINING_ITERATION, saved.max_concurrent
        self._own_space = self._own_space or bool(saved.own_space)
        self._optimizer, self._hidden, self._in_use = optimizer, hidden, False
        if optimizer is not None:
            self._space, self._budget = optimizer.given_space, optimizer.budget
            self._forgotten = not self._announced and self._space.hides
            hidden.tell(optimizer)

    # Talk

    def _log(self, trial: Trial) -> None:
        if self._verbose:
            print(progress.line_of(self, trial), flush=True)
        if not logger.isEnabledFor(logging.INFO):
            return
        optimizer = self._ready()
        got = flatten(self._got(trial))
        named = [f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={name_of(value)}" for key, value in got.items()]
        best = optimizer.observations.best()
        ending = f"{self._metric} {trial.value:.6g}" if trial.value is not None else str(trial.status)
        record = f" (best {best.value:.6g} @ #{best.number + 1})" if best is not None else ""
        logger.info("#%d %s -> %s%s", trial.number + 1, " ".join(named), ending, record)


def _said(value: Any) -> str:
    """A metric as a message shows it: text in quotes, so that it cannot be taken for a number."""
    return repr(value) if isinstance(value, str) and len(value) < 80 else name_of(value)
