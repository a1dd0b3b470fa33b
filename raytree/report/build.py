"""From an optimizer to a View: asks the model everything that will be shown, once."""

from __future__ import annotations

import importlib
import platform
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from raytree.gp.linalg import Array
from raytree.optimizer import Optimizer
from raytree.report import health
from raytree.report.belief import Belief, believe
from raytree.report.importance import everywhere, on_branch
from raytree.report.landscape import contours, reachable, slices
from raytree.report.python_code import code_of, plain_of
from raytree.report.space_view import cells_of, label_of, parameters_of
from raytree.report.tree import nodes_of
from raytree.report.view import Branch, Choice, Contour, Curve, Fit, Part, Pool, Seeds, Share, Slice, Trace, Trials, View
from raytree.space import Path
from raytree.space.naming import name_of
from raytree.store import Status, Trial

MOST_DETAILED = 16
"""Branches with slices, contours and shares of their own."""
MOST_CURVES = 400
"""Learning curves that are drawn: the best hundred, and an even selection of the others."""
MOST_REPORTS = 32
"""Points of one curve."""
CLEARLY = 2.0
"""Clearly better than the recommendation is what is better by so many of its standard deviations."""
MOST_CONFIGURATIONS = 40
"""Rows of the table of seeds."""


@dataclass(frozen=True)
class Source:
    """What a View is told besides the optimizer.

    Args:
        title: of the page: the name of the experiment.
        method: the name of the searcher.
        metric: the name of the metric.
        config: the configuration of a trial as its trainable got it.
        seconds, started, node: by trial id: how long it took, when it started (seconds since 1970), and where it ran.
        time_attr: what counts the progress of a trial.
        running: whether the experiment may still be running.
        restore: code that takes it up again.
        versions: of what was used besides raytree.
        thinking: seconds that the searcher took for its suggestions.
    """

    title: str = "Search"
    method: str = ""
    metric: str = "value"
    config: Callable[[Trial], Any] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    started: Mapping[str, float] = field(default_factory=dict)
    node: Mapping[str, str] = field(default_factory=dict)
    time_attr: str = "t"
    running: bool = False
    restore: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    thinking: float | None = None


def view_of(optimizer: Optimizer, source: Source = Source(), details: bool = True) -> View:
    """Everything there is to see of a search; leaves no trace in it.

    Args:
        optimizer: the search.
        source: what else is known.
        details: whether slices, contours, importance and left-out predictions are wanted; without them it is quick.
    """
    seen, space = optimizer.observations, optimizer.given_space
    trials = list(seen)
    belief = believe(optimizer)
    parameters = parameters_of(space)
    keys = [parameter.key for parameter in parameters]
    width = len(space.decisions)
    groups: dict[Path, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(trial.path[:width], []).append(trial)
    outcome = dict(zip((trial.number for trial in trials), seen.outcomes(), strict=True))
    recommended = optimizer.recommend() if belief is None else belief.recommend(optimizer)
    goal = None if recommended is None else recommended.value - seen.sign * CLEARLY * (recommended.sd or 0.0)
    drafts = [_branch(optimizer, belief, keys, path, inside, outcome, goal) for path, inside in groups.items()]
    order = sorted(range(len(drafts)), key=lambda k: _rank(drafts[k], seen.sign))
    paths, branches = [list(groups)[k] for k in order], [drafts[k] for k in order]
    place = {path: k for k, path in enumerate(paths)}
    names = [key.rsplit("/", 1)[-1] for key in keys]
    curves, rungs = _curves(trials, seen.sign, outcome)
    view = View(
        title=source.title,
        method=source.method or type(optimizer).__name__,
        metric=source.metric,
        mode=seen.mode,
        made=datetime.now().astimezone().isoformat(timespec="seconds"),
        running=source.running,
        drawing=str(space),
        paths=space.n_paths,
        parameters=parameters,
        branches=branches,
        nodes=nodes_of(space, names, [space.cell_of(path) for path in paths], branches, seen.sign),
        trials=_trials(trials, outcome, place, width, branches, source),
        trace=Trace() if belief is None else _trace(belief, seen.complete(), seen.sign),
        noise=None if belief is None else belief.noise,
        curves=curves,
        rungs=rungs,
        time_attr=source.time_attr,
        settings={name: name_of(value) for name, value in optimizer.settings().items()},
        versions={
            "raytree": importlib.import_module("raytree").__version__,
            "Python": platform.python_version(),
            "numpy": np.__version__,
            **source.versions,
        },
        restore=source.restore,
        thinking=source.thinking,
    )
    if recommended is not None:
        view = replace(view, choice=_choice(view, optimizer, recommended, source))
    if belief is not None and details:
        view = replace(view, **_detailed(belief, view, paths, groups, optimizer, source))
    view = replace(view, checks=health.checks(view, optimizer.failures))
    return replace(view, advice=health.advice(view))


def _rank(branch: Branch, sign: float) -> tuple[float, float, str]:
    """Branches in the order of the recommendation."""
    expected = branch.expected if branch.expected is not None else branch.best
    best = np.inf if branch.best is None else sign * branch.best
    return (np.inf if expected is None else sign * expected, best, branch.label)


def _branch(
    optimizer: Optimizer,
    belief: Belief | None,
    keys: list[str],
    path: Path,
    inside: list[Trial],
    outcome: dict[int, str],
    goal: float | None,
) -> Branch:
    space, sign = optimizer.given_space, optimizer.observations.sign
    cells = cells_of(space, keys, path)
    kinds = Counter(outcome[trial.number] for trial in inside)
    finished = [trial for trial in inside if trial.status is Status.FINISHED and trial.value is not None]
    values = [trial.value for trial in finished if trial.value is not None]
    branch = Branch(
        label_of(cells), [(j, label) for j, _, label in cells],
        np.flatnonzero(space.active(path)).tolist(), list(space.free(path)),
        len(inside), len(finished), kinds["errored"] + kinds["invalid"], kinds["running"], kinds["stopped"],
        min(values, key=lambda value: sign * value, default=None), float(np.mean(values)) if values else None,
    )  # fmt: skip
    if belief is None or not finished:
        return branch
    complete = {trial.number for trial in optimizer.observations.complete()}
    finished = [trial for trial in finished if trial.number in complete] or finished  # what was never seen at its end is a guess
    outlook = belief.at(finished)
    lead = int(np.argmin(sign * outlook.mean))
    rows = np.unique(np.array([belief.row(trial) for trial in finished]), axis=0)
    assert goal is not None
    best, best_sd, chance = reachable(belief, path, rows, goal)
    return replace(
        branch, leader=finished[lead].number, expected=float(outlook.mean[lead]), sd=float(outlook.sd[lead]),
        reachable=best, reachable_sd=best_sd, chance=chance,
    )  # fmt: skip


def _trials(
    trials: Sequence[Trial],
    outcome: dict[int, str],
    place: dict[Path, int],
    width: int,
    branches: Sequence[Branch],
    source: Source,
) -> Trials:
    branch = [place[trial.path[:width]] for trial in trials]
    values = [
        [None if (code := trial.point[i]) is None else float(code) for i in branches[b].active]
        for trial, b in zip(trials, branch, strict=True)
    ]
    seconds = [source.seconds.get(trial.id, trial.cost) for trial in trials]
    return Trials(
        [trial.id for trial in trials], branch, [outcome[trial.number] for trial in trials], [trial.value for trial in trials],
        [trial.t for trial in trials], seconds, [source.started.get(trial.id) for trial in trials],
        [source.node.get(trial.id) for trial in trials], values,
    )  # fmt: skip


def _trace(belief: Belief, trials: Sequence[Trial], sign: float) -> Trace:
    """The configuration with the best expected value among the first trials, by what is known now."""
    finished = [trial for trial in trials if trial.status is Status.FINISHED and trial.value is not None]
    if not finished:
        return Trace()
    outlook = belief.at(finished)
    leads: list[int] = []
    for k in range(len(finished)):
        if not leads or sign * outlook.mean[k] < sign * outlook.mean[leads[-1]]:
            leads.append(k)
    at = [finished[k].number for k in leads]
    return Trace(at, outlook.mean[leads].tolist(), outlook.low[leads].tolist(), outlook.high[leads].tolist())


def _choice(view: View, optimizer: Optimizer, recommended: Any, source: Source) -> Choice:
    seen = optimizer.observations
    trial, best = seen.trials[recommended.trial_id], seen.best()
    assert best is not None
    assert best.value is not None
    config = recommended.config
    if source.config is not None:
        got = source.config(trial)
        config = {key: got[key] for key in config if key in got} if isinstance(config, dict) and isinstance(got, dict) else got
    branch = view.branches[view.trials.branch[trial.number]]
    own = best.value if trial.value is None else trial.value
    why = health.why_not_best(seen.sign, branch.label, own, recommended.value, recommended.sd, best.value, trial is best)
    return Choice(
        trial.number,
        f"config = {code_of(config)}",
        plain_of(config),
        recommended.value,
        recommended.sd,
        best.number,
        best.value,
        why,
    )


def _curves(trials: Sequence[Trial], sign: float, outcome: dict[int, str]) -> tuple[list[Curve], list[tuple[float, int]]]:
    """Learning curves of trials with several reports, and at which t how many were stopped."""
    known: list[Curve] = []
    for trial in trials:
        points = sorted((t, value) for t, value in trial.reports.items() if value is not None)
        if len(points) > 1:
            chosen = [points[k] for k in np.unique(np.linspace(0, len(points) - 1, MOST_REPORTS).astype(int))]
            known.append(Curve(trial.number, [t for t, _ in chosen], [value for _, value in chosen]))
    if not known:
        return [], []
    ends = Counter(trial.t for trial in trials if outcome[trial.number] == "stopped" and trial.t is not None)
    rungs = sorted((float(t), count) for t, count in ends.items() if count >= 2)
    if len(known) > MOST_CURVES:
        ranked = sorted(range(len(known)), key=lambda k: sign * known[k].value[-1])
        rest = sorted(ranked[100:])
        spread = np.unique(np.linspace(0, len(rest) - 1, MOST_CURVES - 100).astype(int)).tolist()
        known = [known[k] for k in sorted([*ranked[:100], *(rest[k] for k in spread)])]
    return known, rungs


def _detailed(
    belief: Belief, view: View, paths: list[Path], groups: dict[Path, list[Trial]], optimizer: Optimizer, source: Source
) -> dict[str, Any]:
    """What takes most of the time: slices, contours, shares, left-out predictions, and what single methods know."""
    found_slices: list[Slice] = []
    found_contours: list[Contour] = []
    importance = [Share(i, alone, total) for i, alone, total in everywhere(belief)]
    trials = list(optimizer.observations)
    for b, path in enumerate(paths[:MOST_DETAILED]):
        leader = view.branches[b].leader
        if leader is None:
            continue
        row: Array = belief.row(trials[leader])
        shares = on_branch(belief, path)
        importance += [Share(i, alone, total, b) for i, alone, total in shares]
        found_slices += slices(belief, b, path, row)
        ranked = [i for i, _, _ in sorted(shares, key=lambda share: -share[2])]
        found_contours += contours(belief, b, path, row, ranked)
    fits = [Fit(f.trial.number, f.mean, f.low, f.high, f.z) for f in belief.left_out()]
    return {
        "slices": found_slices,
        "contours": found_contours,
        "importance": importance,
        "fits": fits,
        "seeds": _seeds(belief, optimizer),
        "partition": [Part(list(leaf.rules), leaf.points, leaf.mean, leaf.lengths) for leaf in belief.partition()],
        "pool": _pool(belief),
    }


def _pool(belief: Belief) -> Pool | None:
    found = belief.pool()
    if found is None:
        return None
    left, promising = found
    configs, means, sds = ([entry[k] for entry in promising] for k in range(3))
    return Pool(left, [code_of(config) for config in configs], means, sds)


def _seeds(belief: Belief, optimizer: Optimizer) -> Seeds | None:
    """BOSH: values by configuration and seed, the best expected ones first."""
    key = belief.seed_key
    if key is None:
        return None
    space = optimizer.given_space
    groups: dict[bytes, list[Trial]] = {}
    for trial in optimizer.observations:
        if trial.value is not None:
            groups.setdefault(np.round(belief.row(trial), 9).tobytes(), []).append(trial)
    firsts = [group[0] for group in groups.values()]
    if not firsts:
        return None
    outlook = belief.at(firsts)
    order = np.argsort(optimizer.observations.sign * outlook.mean, kind="stable")[:MOST_CONFIGURATIONS].tolist()
    cells, names = [], dict[str, int]()
    for place, k in enumerate(order):
        for trial in list(groups.values())[k]:
            seed = name_of(optimizer.space.config(trial.point)[key])
            number = names.setdefault(seed, len(names))
            assert trial.value is not None
            cells.append((place, number, trial.value))
    shown = [code_of(space.config(firsts[k].point[: space.d])) for k in order]
    return Seeds(
        key, list(names), shown, outlook.mean[order].tolist(), outlook.sd[order].tolist(), cells, belief.shares_of_variance()
    )
