"""`explain()` in words: what a search has learnt, branch by branch, in the user's sign and units."""

from __future__ import annotations

from raytree.explain import Explanation
from raytree.optimizer import Optimizer
from raytree.report.build import Source, view_of
from raytree.report.view import View

COLUMNS = {
    "branch": "the choices that make it",
    "trials": "how many were started there",
    "failed": "of them without a usable value",
    "best": "best value of one trial",
    "expected": "what the model expects of the branch's leader, luck left out",
    "sd": "standard deviation of that",
    "expected_best": "best value that the model expects anywhere on the branch, tried or not",
    "chance_to_improve": "that the most promising untried configuration is clearly better than the recommendation",
    "share": "of all trials",
}
"""The columns of `explain().table` and what they mean; branches are in the order of the recommendation."""


def explain(optimizer: Optimizer, source: Source = Source()) -> Explanation:  # noqa: B008  frozen
    """What a search has learnt; see `COLUMNS`. Leaves no trace in it."""
    return explained(view_of(optimizer, source, details=False))


def explained(view: View) -> Explanation:
    """The explanation of a View."""
    import pandas

    total = max(1, len(view.trials))
    records = [
        {
            "branch": b.label, "trials": b.trials, "failed": b.failed, "best": b.best, "expected": b.expected, "sd": b.sd,
            "expected_best": b.reachable, "chance_to_improve": b.chance, "share": b.trials / total,
        }
        for b in view.branches
    ]  # fmt: skip
    table = pandas.DataFrame(records, columns=list(COLUMNS))
    floats = [name for name in COLUMNS if name not in ("branch", "trials", "failed")]
    table = table.astype(dict.fromkeys(floats, float))
    better = "lower" if view.mode == "min" else "higher"
    title = f"{view.method}, {len(view.trials)} trials, {view.metric}: {better} is better; the branch of the recommendation first"
    notes = "\n".join(f"{check.title}: {check.text}" for check in view.checks if check.level != "good")
    return Explanation(table, title=title, notes=notes)
