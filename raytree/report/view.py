"""View: everything that the page, the figures and the command line show, as frozen data that fits into JSON.

A View is made once (`build.view_of`) and holds no optimizer, no arrays and no objects of the user's: numbers, text, lists.
Numbers that do not exist are None. Trials, parameters and branches are referred to by their places in their lists.

A *branch* is a path of the space that was tried. Branches are in the order of the recommendation: the one with the best
expected value among its evaluated configurations first, those without a value last.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

Number = float | None


@dataclass(frozen=True)
class Parameter:
    """One searched value.

    Args:
        name: its place in the space, unique: ``model[0].C``.
        key: where it stands in a configuration: ``model/C``; two branches may use one key.
        kind: "float", "int" or "category".
        log: whether its axis is logarithmic.
        low, high: bounds, of numbers.
        labels: of categories.
        decision: whether other parameters depend on it.
        shared: whether it is alive on more than one path.
        text: its domain in a few characters.
    """

    name: str
    key: str
    kind: str
    log: bool
    low: Number
    high: Number
    labels: list[str]
    decision: bool
    shared: bool
    text: str


@dataclass(frozen=True)
class Branch:
    """A path that was tried.

    Args:
        label: ``model=svm · kernel=rbf``.
        cells: (decision, name of the cell) pairs.
        active: the parameters that are alive.
        free: those of them that can still vary.
        trials, finished, failed, running, stopped: counts; stopped ones have a value and are among the finished.
        best: the best value of a finished trial.
        mean: the average of their values.
        leader: the trial whose configuration has the best expected value.
        expected, sd: that value and its standard deviation.
        reachable, reachable_sd: the best value expected anywhere on the branch, tried or not.
        chance: to improve: that the most promising configuration found is clearly better than the recommendation, by more than
            two of its standard deviations.
    """

    label: str
    cells: list[tuple[int, str]]
    active: list[int]
    free: list[int]
    trials: int
    finished: int
    failed: int
    running: int
    stopped: int
    best: Number = None
    mean: Number = None
    leader: int | None = None
    expected: Number = None
    sd: Number = None
    reachable: Number = None
    reachable_sd: Number = None
    chance: Number = None


@dataclass(frozen=True)
class Node:
    """A part of the tree: a decision's cell below the cells above it; the first one is everything.

    Args:
        parent: its place in the list; -1 for the first.
        depth: 0 for the first.
        decision: name of the decision; "" for the first.
        label: name of the cell.
        branches: those below it.
        untried: how many cells stand for it that were never tried: 0, 1, or several in one node.
    """

    parent: int
    depth: int
    decision: str
    label: str
    branches: list[int]
    trials: int
    failed: int
    running: int
    untried: int = 0
    best: Number = None
    expected: Number = None
    sd: Number = None
    chance: Number = None


@dataclass(frozen=True)
class Trials:
    """All trials, in order of suggestion; a list per column.

    `values` holds a trial's active parameters in the order of its branch's `active`; categories by their number.
    """

    id: list[str] = field(default_factory=list)
    branch: list[int] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    value: list[Number] = field(default_factory=list)
    t: list[Number] = field(default_factory=list)
    seconds: list[Number] = field(default_factory=list)
    started: list[Number] = field(default_factory=list)
    node: list[str | None] = field(default_factory=list)
    values: list[list[Number]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True)
class Choice:
    """The recommendation.

    Args:
        trial: which configuration it is.
        code: it as Python, active keys only.
        config: it as JSON, as far as JSON goes.
        value, sd: what to expect; no sd without a model.
        best: the best single trial, and its value.
        why: one sentence on how it differs from the best single trial.
    """

    trial: int
    code: str
    config: Any
    value: float
    sd: Number
    best: int
    best_value: float
    why: str


@dataclass(frozen=True)
class Trace:
    """The best so far, by number of trials: expected value of the configuration that leads, and its 95% band."""

    trial: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Slice:
    """What the model expects along one parameter of a branch, all others as in the branch's leader: mean and 95% band."""

    branch: int
    parameter: int
    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class Contour:
    """What the model expects over two parameters of a branch, all others as in its leader.

    Args:
        levels: base64 of len(x) * len(y) bytes, x running fastest: 0 for `low`, 255 for `high`.
    """

    branch: int
    across: int
    up: int
    x: list[float]
    y: list[float]
    low: float
    high: float
    levels: str


@dataclass(frozen=True)
class Share:
    """How much of the variance a parameter explains: alone, and together with others; in a branch, or in the whole space."""

    parameter: int
    alone: float
    total: float
    branch: int | None = None


@dataclass(frozen=True)
class Fit:
    """A trial that the model was not told of, what it expected there (95% band), and how many deviations it was wrong by."""

    trial: int
    mean: float
    low: float
    high: float
    z: float


@dataclass(frozen=True)
class Curve:
    """What a trial reported on its way."""

    trial: int
    t: list[float]
    value: list[float]


@dataclass(frozen=True)
class Check:
    """A health check in words: "good", "note" or "warning"; what was found, and what to do."""

    level: str
    title: str
    text: str
    branch: int | None = None


@dataclass(frozen=True)
class Seeds:
    """BOSH: values by configuration and seed. `cells` are (configuration, seed, value)."""

    key: str
    seeds: list[str]
    configurations: list[str]
    mean: list[float]
    sd: list[float]
    cells: list[tuple[int, int, float]]
    shares: dict[str, float]


@dataclass(frozen=True)
class Part:
    """HTBO: a leaf of the partition."""

    rules: list[str]
    points: int
    mean: float
    lengths: dict[str, float]


@dataclass(frozen=True)
class Pool:
    """A finite pool: how many are left, and the most promising of them."""

    left: int
    configurations: list[str]
    mean: list[float]
    sd: list[float]


@dataclass(frozen=True)
class View:
    """See the top of this file."""

    title: str
    method: str
    metric: str
    mode: str
    made: str
    running: bool
    drawing: str
    paths: int
    parameters: list[Parameter]
    branches: list[Branch]
    nodes: list[Node]
    trials: Trials
    choice: Choice | None = None
    trace: Trace = field(default_factory=Trace)
    slices: list[Slice] = field(default_factory=list)
    contours: list[Contour] = field(default_factory=list)
    importance: list[Share] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    noise: Number = None
    curves: list[Curve] = field(default_factory=list)
    rungs: list[tuple[float, int]] = field(default_factory=list)
    time_attr: str = "t"
    checks: list[Check] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    seeds: Seeds | None = None
    partition: list[Part] = field(default_factory=list)
    pool: Pool | None = None
    settings: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    restore: str = ""
    thinking: Number = None

    @property
    def sign(self) -> float:
        """1 where low values are good, -1 where high ones are."""
        return 1.0 if self.mode == "min" else -1.0

    def to_json(self) -> str:
        """One line of JSON without NaN and infinities."""
        return json.dumps(tidy(asdict(self)), ensure_ascii=False, separators=(",", ":"), allow_nan=False)

    def config_of(self, trial: int) -> dict[str, Any]:
        """The searched values of a trial by key, categories by their labels."""
        branch = self.branches[self.trials.branch[trial]]
        found: dict[str, Any] = {}
        for i, value in zip(branch.active, self.trials.values[trial], strict=True):
            parameter = self.parameters[i]
            if value is not None:
                whole = parameter.kind == "int"
                found[parameter.key] = parameter.labels[int(value)] if parameter.labels else int(value) if whole else value
        return found


DIGITS = 6
"""Significant digits of numbers in a page."""


def tidy(value: Any) -> Any:
    """A value for JSON: floats with few digits, None for what is no finite number, tuples as lists."""
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return None
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, dict):
        return {str(key): tidy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(item) for item in value]
    return value
