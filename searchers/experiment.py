"""An experiment to look at: a folder that Tune wrote, or a searcher at hand, as a `View`.

A folder of one of our searchers holds its state. From any other searcher's folder the trials are read, and told to a
`TreeOptimizer` of the space you give. Folders may still be written to; what is whole in them is shown.

Reading trials unpickles what Tune stored: say `trusted=False` for a folder from a stranger, and only our JSON is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ray
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.result import NODE_IP, TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION

from raytree import state as document
from raytree.errors import ConfigurationError, DamagedStateError, SettingError
from raytree.optimizer import Optimizer
from raytree.optimizers.tree import TreeOptimizer
from raytree.report import Source, View, view_of
from raytree.searchers import driver
from raytree.searchers.arguments import space_of
from raytree.searchers.history import Told, read_newest, read_told

if TYPE_CHECKING:
    from raytree.searchers.base import RaytreeSearcher

logger = logging.getLogger("raytree")

OVER = (TuneTrial.TERMINATED, TuneTrial.ERROR)
RECENT = 60.0
"""Seconds after which a folder that is not written to belongs to a run that is over, where no driver has left a note."""
OURS = ("TreeSearcher", "CondKernelSearcher", "HTBOSearcher", "BOSHSearcher", "RandomSearcher")


class Opened(NamedTuple):
    """A search to look at, and what is known of it besides."""

    optimizer: Optimizer
    source: Source

    def view(self, details: bool = True) -> View:
        """Everything there is to see."""
        return view_of(self.optimizer, self.source, details)


def open_experiment(
    place: str | Path, *, space: Any = None, metric: str | None = None, mode: str | None = None, trusted: bool = True
) -> Opened:
    """The search of an experiment directory.

    Args:
        place: a path, or a URI such as ``s3://bucket/run``.
        space: the search space: needed for searchers that are not raytree's, and for spaces that hold objects.
        metric: the metric, where the folder does not say.
        mode: "min" or "max", the same.
        trusted: whether pickles in the folder may be read.

    Raises:
        SettingError: if there is no experiment, or something must be given; the message says what.
    """
    told = read_told(place) if trusted else []
    ours = _payload(place)
    if ours is not None:
        opened = _our_own(place, ours, space, trusted)
    elif not trusted:
        raise SettingError(
            str(place), "has no state of a raytree searcher, and its pickles are not to be read.", "Trust the folder."
        )
    else:
        opened = _somebody_elses(place, told, space, metric, mode)
    at_work, thinking = _driver(place)
    unfinished = any(trial.status not in OVER for trial in told) if told else bool(opened.optimizer.pending)
    return opened._replace(source=_with_results(opened.source, told, at_work and unfinished, thinking))


def source_of(searcher: RaytreeSearcher, experiment: str | Path | None = None) -> Source:
    """What a View is told of a searcher at hand, and of its experiment if that is given: when and where trials ran."""
    optimizer = searcher._ready()
    title = Path(str(experiment)).name if experiment is not None else type(searcher).__name__
    source = Source(
        title=title, method=type(searcher).__name__, metric=searcher._metric or "value", config=searcher._got,
        time_attr=searcher._time_attr, running=bool(optimizer.pending), thinking=searcher._thinking or None,
        versions={"Ray": ray.__version__},
    )  # fmt: skip
    if experiment is None:
        return source
    source = replace(source, restore=_restoring(str(experiment), type(searcher).__name__))
    return _with_results(source, read_told(experiment), source.running, source.thinking)


def _payload(place: str | Path) -> dict[str, Any] | None:
    """What the newest whole snapshot of one of our searchers holds; None if there is none."""
    try:
        for path, content in read_newest(place, "searcher-state-*.json"):
            try:
                found: dict[str, Any] = document.read(content, path)
            except DamagedStateError:
                continue
            return found if found.get("searcher") in OURS else None
    except SettingError as error:
        if "no raytree searcher" not in str(error):
            raise
    return None


def _our_own(place: str | Path, payload: dict[str, Any], space: Any, trusted: bool) -> Opened:
    import raytree.searchers

    kind = getattr(raytree.searchers, str(payload["searcher"]))
    searcher: RaytreeSearcher = kind.from_experiment(place, unpickle=trusted, **({} if space is None else {"space": space}))
    if searcher._optimizer is None:
        raise SettingError(str(place), "the search has not begun: no trial was suggested.", "Wait for the first one.")
    source = source_of(searcher)
    restore = _restoring(str(place), kind.__name__)
    return Opened(searcher._optimizer, replace(source, title=_name(place), restore=restore, running=False))


def _somebody_elses(place: str | Path, told: list[Told], space: Any, metric: str | None, mode: str | None) -> Opened:
    if space is None:
        raise SettingError(
            str(place),
            "was not searched by raytree, so its space is not known.",
            "Give it: --space my_module:space, or space=...",
        )
    if metric is None or mode not in ("min", "max"):
        names = sorted({name for trial in told for name in trial.metrics})
        shown = ", ".join(names[:12]) or "nothing"
        raise SettingError(
            "metric and mode",
            f"are not stored in the folder. Trials report {shown}.",
            "Give both: --metric NAME --mode min, or max.",
        )
    lengths = {len(trial.reports(metric)) for trial in told}
    optimizer = TreeOptimizer(space_of(space), mode=mode, seed=0, max_t="auto" if len(lengths) > 1 else None)
    foreign = 0
    for trial in told:
        try:
            config = optimizer.recovered(trial.config)
        except ConfigurationError as error:
            foreign += 1
            logger.warning("raytree: trial %s is not from this space and is left out (%s)", trial.id, error)
            continue
        optimizer.adopt(trial.id, config)
        for t, value in trial.reports(metric):
            optimizer.report(trial.id, value, t)
        if trial.status == TuneTrial.ERROR:
            optimizer.fail(trial.id)
        elif trial.status == TuneTrial.TERMINATED:
            optimizer.end(trial.id, by_itself=True)
    if told and foreign == len(told):
        raise SettingError("space", "none of the trials is from it.", "Give the space that was searched.")
    restore = f'from ray import tune\n\ntuner = tune.Tuner.restore("{place}", trainable=...)'
    source = Source(
        title=_name(place), method="another searcher", metric=metric, time_attr=TRAINING_ITERATION, restore=restore,
        versions={"Ray": ray.__version__},
    )  # fmt: skip
    return Opened(optimizer, source)


def _with_results(source: Source, told: list[Told], running: bool, thinking: float | None) -> Source:
    """A source with when, how long and where trials ran."""
    seconds, started, node = dict(source.seconds), dict(source.started), dict(source.node)
    for trial in told:
        spent, at, where = (trial.last.get(key) for key in (TIME_TOTAL_S, TIMESTAMP, NODE_IP))
        if isinstance(spent, (int, float)):
            seconds[trial.id] = float(spent)
            if isinstance(at, (int, float)):
                started[trial.id] = float(at) - float(spent)
        if isinstance(where, str):
            node[trial.id] = where
    return replace(source, seconds=seconds, started=started, node=node, running=running, thinking=thinking or source.thinking)


def _driver(place: str | Path) -> tuple[bool, float | None]:
    """Whether a driver is at work on a folder, and how long it took for its suggestions, if that is known."""
    folder = Path(str(place)).expanduser()
    if not folder.is_dir():
        return False, None
    at_work, thinking = driver.at_work(folder)
    if thinking is None:  # not one of ours
        written = max((path.stat().st_mtime for path in folder.glob("experiment_state-*.json")), default=0.0)
        at_work = time.time() - written < RECENT
    return at_work, thinking


def _name(place: str | Path) -> str:
    return Path(str(place).rstrip("/")).name or str(place)


def _restoring(place: str, searcher: str) -> str:
    lines: Iterator[str] = iter(
        (
            "from ray import tune",
            f"from raytree.searchers import {searcher}",
            "",
            f"tuner = tune.Tuner.restore({place!r}, trainable=...)  # goes on",
            f"searcher = {searcher}.from_experiment({place!r})  # to ask it",
        )
    )
    return "\n".join(lines)
