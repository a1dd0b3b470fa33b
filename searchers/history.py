"""What an earlier Tune run evaluated: from trials, a `ResultGrid`, an `ExperimentAnalysis` or an experiment directory.

Reading a directory unpickles what Tune stored there: only do it with directories you trust.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ray.tune import ExperimentAnalysis, ResultGrid
from ray.tune.experiment import Trial

from raytree.errors import SettingError


class Past(NamedTuple):
    """One trial of an earlier run: its configuration, last results, and whether it failed."""

    config: dict
    results: dict
    failed: bool


def read_history(source: Any) -> list[Past]:
    """The trials of an earlier run that have something to say, in their order.

    Raises:
        SettingError: if `source` is nothing that holds trials.
    """
    if isinstance(source, (str, Path)):
        folder = Path(source).expanduser()
        if not folder.is_dir():
            raise SettingError(str(source), "is not an experiment directory.", "Give the folder that Tune wrote.")
        source = ExperimentAnalysis(str(folder))
    if isinstance(source, ResultGrid):
        pasts = (Past(result.config or {}, result.metrics or {}, result.error is not None) for result in source)
        return [past for past in pasts if past.config and (past.results or past.failed)]
    if isinstance(source, ExperimentAnalysis):
        source = source.trials
    trials = [source] if isinstance(source, Trial) else list(source) if isinstance(source, Iterable) else None
    if trials is None or not all(isinstance(trial, Trial) for trial in trials):
        raise SettingError("trials", f"expected trials, a ResultGrid, an ExperimentAnalysis or a directory, got {source!r}.")
    pasts = (Past(trial.config, trial.last_result or {}, trial.status == Trial.ERROR) for trial in trials)
    return [past for past in pasts if past.results or past.failed]
