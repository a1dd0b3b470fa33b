"""What an earlier Tune run left: its trials, and the states of its searcher, in a folder or on a remote file system.

Reading the trials of a folder unpickles what Tune stored there: only do it with folders you trust.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyarrow import ArrowException
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from ray.tune import ExperimentAnalysis, ResultGrid
from ray.tune.experiment import Trial
from ray.tune.result import AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, EXPR_RESULT_FILE, TRAINING_ITERATION, TRIAL_ID

from raytree.errors import SettingError
from raytree.space.flat import flatten
from raytree.space.naming import name_of

_WRITTEN = "Give the folder that Tune wrote: storage_path/name of the run."


MOST_RESULTS = 10_000
"""Of one trial that are read, the last ones."""


class Past(NamedTuple):
    """One trial of an earlier run: its id, configuration, last results, and whether it failed."""

    id: str | None
    config: dict[str, Any]
    results: dict[str, Any]
    failed: bool


def read_history(source: Any) -> list[Past]:
    """The trials of an earlier run that came to an end, in their order.

    Args:
        source: trials, a `ResultGrid`, an `ExperimentAnalysis`, or the place of an experiment: a path or a URI.

    Raises:
        SettingError: if `source` is nothing that holds trials.
    """
    if isinstance(source, (str, Path)):
        source = read_experiment(source)
    if isinstance(source, ResultGrid):
        pasts = [Past((r.metrics or {}).get(TRIAL_ID), r.config or {}, r.metrics or {}, r.error is not None) for r in source]
        return [past for past in pasts if past.config and (past.failed or past.results.get(DONE))]
    if isinstance(source, ExperimentAnalysis):
        source = source.trials
    trials = [source] if isinstance(source, Trial) else list(source) if isinstance(source, Iterable) else None
    if trials is None or not all(isinstance(trial, Trial) for trial in trials):
        raise SettingError(
            "add_evaluated_trials", f"expected trials, a ResultGrid, an ExperimentAnalysis or a folder, got {name_of(source)}."
        )
    ended = [trial for trial in trials if trial.status in (Trial.TERMINATED, Trial.ERROR)]
    return [Past(t.trial_id, t.config, t.last_result or {}, t.status == Trial.ERROR) for t in ended]


def read_experiment(place: str | Path) -> ExperimentAnalysis:
    """The analysis of an experiment at a path or a URI.

    Raises:
        SettingError: if there is none.
    """
    files, folder = _open(place)
    try:
        return ExperimentAnalysis(folder, storage_filesystem=files)
    except (ValueError, OSError, ArrowException):
        raise SettingError(str(place), "is not an experiment directory.", _WRITTEN) from None


@dataclass(frozen=True)
class Told:
    """A trial as its folder tells of it, over or not: configuration, status, last result, and all results on the way."""

    id: str
    config: dict[str, Any]
    status: str
    last: dict[str, Any]
    history: tuple[dict[str, Any], ...]

    @property
    def metrics(self) -> list[str]:
        """The numbers that the trainable itself reported."""
        known = {*AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG}
        return [
            str(k) for k, v in self.last.items() if isinstance(v, (int, float)) and k not in known and not isinstance(v, bool)
        ]

    def reports(self, metric: str) -> list[tuple[float, Any]]:
        """(t, value) of every result that has the metric."""
        found = []
        for k, result in enumerate(self.history or ((self.last,) if self.last else ()), start=1):
            flat = flatten(result)
            if metric in flat:
                t = flat.get(TRAINING_ITERATION)
                found.append((float(t) if isinstance(t, (int, float)) else float(k), flat[metric]))
        return found


def read_told(place: str | Path) -> list[Told]:
    """Every trial of an experiment, those that are running included, in their order.

    Raises:
        SettingError: if there is no experiment.
    """
    files, folder = _open(place)
    trials = read_experiment(place).trials
    return [Told(t.trial_id, t.config, t.status, t.last_result or {}, _results(files, folder, t)) for t in trials]


def _results(files: FileSystem, folder: str, trial: Trial) -> tuple[dict[str, Any], ...]:
    """What a trial reported, one result a line in its folder; nothing where that cannot be read, or is unfinished."""
    name = trial.storage.trial_dir_name if trial.storage is not None else ""
    found = []
    try:
        with files.open_input_stream(f"{folder}/{name}/{EXPR_RESULT_FILE}") as stream:
            for line in bytes(stream.readall()).splitlines()[-MOST_RESULTS:]:
                found.append(json.loads(line))
    except (OSError, ValueError, ArrowException):  # a line that is being written
        pass
    return tuple(result for result in found if isinstance(result, dict))


def read_newest(place: str | Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files of a folder, at a path or a URI, whose name is a pattern with one star, the last first.

    Raises:
        SettingError: if there is none.
    """
    before, after = pattern.split("*")
    files, folder = _open(place)
    found = [info.path for info in files.get_file_info(FileSelector(folder)) if info.type is FileType.File]
    names = [path for path in found if Path(path).name.startswith(before) and path.endswith(after)]
    if not names:
        raise SettingError(str(place), f"has no {pattern} in it: no raytree searcher was saved there.", _WRITTEN)
    for path in sorted(names, reverse=True):
        with files.open_input_stream(path) as stream:
            yield path, bytes(stream.readall())


def _open(place: str | Path) -> tuple[FileSystem, str]:
    """The file system of a folder, and its path there."""
    try:
        if "://" in str(place):
            files, folder = FileSystem.from_uri(str(place))
        else:
            files, folder = LocalFileSystem(), str(Path(place).expanduser().absolute())
        there = files.get_file_info(folder).type is FileType.Directory
    except (ValueError, OSError, ArrowException) as error:
        raise SettingError(str(place), f"cannot be opened ({error}).", _WRITTEN) from None
    if not there:
        raise SettingError(str(place), "is not a directory.", _WRITTEN)
    return files, folder
