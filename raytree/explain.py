"""What a search has learnt, as a table and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raytree.observations import Observations, Status
from raytree.space import Categorical, Path

if TYPE_CHECKING:
    import pandas


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


def path_table(observations: Observations) -> pandas.DataFrame:
    """Per visited path: trials, failed ones, best and mean value in the user's units, share of the trials."""
    import pandas

    groups: dict[Path, list] = {}
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


def trial_table(observations: Observations) -> pandas.DataFrame:
    """One row per trial in order of suggestion: id, status, value, t, path, then every parameter under its name."""
    import pandas

    space = observations.space
    branching = [i for i in space.decisions if isinstance(space.parameters[i].domain, Categorical)]
    records = []
    for trial in observations:
        record: dict[str, Any] = {
            "trial_id": trial.id,
            "status": str(trial.status),
            "value": trial.value,
            "t": trial.t,
            "path": space.path_label(trial.path),
        }
        for i, (parameter, code) in enumerate(zip(space.parameters, trial.point, strict=True)):
            if code is None:
                record[parameter.name] = None
            elif i in branching:  # the branch itself is spread over the other columns
                record[parameter.name] = space.cells[i].labels[int(code)]
            else:
                record[parameter.name] = parameter.domain.render(code)
        records.append(record)
    columns = ["trial_id", "status", "value", "t", "path", *(p.name for p in space.parameters)]
    return pandas.DataFrame(records, columns=columns)
