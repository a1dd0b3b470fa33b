"""What a search has learnt, as a table and as text."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from raytree.space import Path
from raytree.space.flat import flatten
from raytree.store import Observations, Status, Trial

if TYPE_CHECKING:
    import pandas


class Notes(NamedTuple):
    """What a model says in general: a text, and a table of the decisions if it has one."""

    text: str = ""
    edges: pandas.DataFrame | None = None


@dataclass(frozen=True)
class Explanation:
    """A table (one row per path, best first) with a readable `str`; `notes` follow it. `edges`: what the method says of them."""

    table: pandas.DataFrame
    title: str = ""
    notes: str = ""
    edges: pandas.DataFrame | None = None

    def __str__(self) -> str:
        body = self.table.to_string(index=False, float_format=lambda value: f"{value:.4g}", na_rep="")
        return "\n".join(part for part in (self.title, body, self.notes) if part)

    def _repr_html_(self) -> str:
        body = self.table.to_html(index=False, float_format=lambda value: f"{value:.4g}", na_rep="", border=0)
        notes = f"<pre>{html.escape(self.notes)}</pre>" if self.notes else ""
        return f"<p><b>{html.escape(self.title)}</b></p>{body}{notes}"


def path_table(observations: Observations) -> pandas.DataFrame:
    """Per visited path: trials, failed ones, best and mean value in the user's units, share of the trials."""
    import pandas

    groups: dict[Path, list[Any]] = {}
    for trial in observations:
        groups.setdefault(trial.path, []).append(trial)
    records: list[dict[str, Any]] = []
    for path, trials in groups.items():
        values = [trial.value for trial in trials if trial.status is Status.FINISHED]
        pick = min if observations.mode == "min" else max
        records.append(
            {
                "path": observations.space.path_label(path),
                "trials": len(trials),
                "failed": sum(trial.status in (Status.INVALID, Status.ERRORED) for trial in trials),
                "best": pick(values) if values else None,
                "mean": sum(values) / len(values) if values else None,
                "share": len(trials) / max(1, len(observations)),
            }
        )
    columns = ["path", "trials", "failed", "best", "mean", "share"]
    table = pandas.DataFrame(records, columns=columns).astype({"best": float, "mean": float, "share": float})
    return table.sort_values("best", ascending=observations.mode == "min", kind="stable", ignore_index=True)


def trial_table(observations: Observations, shown: Callable[[Trial], Any] | None = None) -> pandas.DataFrame:
    """One row per trial in order of suggestion: id, status, value, t, path, then its configuration.

    Columns of the configuration are named as in Tune's tables: ``config/model/kernel/gamma``.

    Args:
        observations: the trials.
        shown: the configuration of a trial as its trainable got it; as it was suggested if left out.
    """
    import pandas

    space = observations.space
    records = []
    for trial, outcome in zip(observations, observations.outcomes(), strict=True):
        record = {"trial_id": trial.id, "status": outcome, "value": trial.value, "t": trial.t}
        config = space.config(trial.point) if shown is None else shown(trial)
        records.append({**record, "path": space.path_label(trial.path), **flatten(config, "config")})
    first = ["trial_id", "status", "value", "t", "path"]
    rest = dict.fromkeys(column for record in records for column in record if column not in first)
    return pandas.DataFrame(records, columns=[*first, *rest])
