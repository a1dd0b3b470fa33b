"""Each picture of the page as a plotly figure, for notebooks and papers (`pip install raytree[report]`).

    from raytree.report import figures
    figures.slices(searcher, given={"model": "svm"}).show()

Every function takes a searcher, an optimizer or a `View`; `given` keeps the branches in which decisions have these cells,
by key (`"model"`, `"model/kernel"`) or the last part of it, so that conditional parameters are shown given a branch.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from raytree.errors import SettingError
from raytree.optimizer import Optimizer
from raytree.report.build import view_of
from raytree.report.view import Slice, View

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Given = Mapping[str, Any] | None
PALETTE = ("#2f6db3", "#cf7420", "#2f8f5f", "#b0416f", "#7254b0", "#86672f", "#1f8fa3", "#bb4438", "#87923a", "#66717e")
RAMP = ("#eaeef1", "#c3d9dc", "#86babd", "#3f8f95", "#0c565f")
"""From the worst to the best value."""
BAND, LINE = "rgba(13,108,116,.16)", "#0d6c74"


@cache
def _plotly() -> Any:
    try:
        import plotly.graph_objects
        import plotly.subplots
    except ImportError:
        raise SettingError("plotly", "is not installed.", "pip install raytree[report]") from None
    return plotly


def as_view(source: Any, details: bool = True) -> View:
    """The View of a searcher or an optimizer, or the View itself."""
    if isinstance(source, View):
        return source
    if isinstance(source, Optimizer):
        return view_of(source, details=details)
    looked = getattr(source, "view", None)
    if callable(looked):
        found = looked(details)
        if isinstance(found, View):
            return found
    raise SettingError("source", f"expected a searcher, an optimizer or a View, got {type(source).__name__}.")


def chosen(view: View, given: Given) -> list[int]:
    """The branches in which decisions have the given cells.

    Raises:
        SettingError: if there is no such decision, or no such branch was tried.
    """
    found = list(range(len(view.branches)))
    for key, wanted in (given or {}).items():
        names = {p.key for p in view.parameters if p.decision}
        if not any(key in (name, name.rsplit("/", 1)[-1]) for name in names):
            raise SettingError(
                f"given[{key!r}]", "is no decision of this space.", f"Decisions: {', '.join(sorted(names)) or 'none'}."
            )
        found = [b for b in found if _has(view, b, key, str(wanted))]
    if given and not found:
        tried = sorted({b.label for b in view.branches})
        raise SettingError("given", f"no branch with {dict(given)} was tried.", f"Tried: {'; '.join(tried[:12])}.")
    return found


def _has(view: View, branch: int, key: str, wanted: str) -> bool:
    return any(
        label == wanted and key in (view.parameters[j].key, view.parameters[j].key.rsplit("/", 1)[-1])
        for j, label in view.branches[branch].cells
    )


def _layout(figure: Any, title: str, **more: Any) -> Any:
    figure.update_layout(title=title, template="plotly_white", margin={"t": 60, "r": 20}, font={"size": 13}, **more)
    return figure


def tree(source: Any, given: Given = None) -> Figure:
    """The tree of the space: length by trials, colour by the best value; hover for what the model expects."""
    view = as_view(source, details=False)
    keep, go = set(chosen(view, given)), _plotly().graph_objects
    nodes = [(k, n) for k, n in enumerate(view.nodes) if n.trials and (k == 0 or keep & set(n.branches))]
    shown = {k for k, _ in nodes}
    size = {k: sum(view.branches[b].trials for b in n.branches if b in keep) for k, n in nodes}
    bests = [n.best for _, n in nodes]
    scale = list(RAMP) if view.mode == "max" else list(reversed(RAMP))
    words = []
    for k, n in nodes:
        lines = [f"{size[k]} trials, {n.failed} failed", f"best {view.metric} {_number(n.best)}"]
        if n.expected is not None:
            lines.append(f"the model expects {_number(n.expected)} ± {_number(n.sd)}")
        words.append("<br>".join(lines))
    figure = go.Figure(
        go.Icicle(
            ids=[str(k) for k, _ in nodes], labels=["all" if k == 0 else _escaped(f"{n.decision}={n.label}") for k, n in nodes],
            parents=["" if n.parent < 0 or n.parent not in shown else str(n.parent) for _, n in nodes],
            values=[size[k] for k, _ in nodes], branchvalues="total",
            text=words, hovertemplate="%{label}<br>%{text}<extra></extra>", textinfo="label+value", tiling={"orientation": "h"},
            marker={"colors": bests, "colorscale": scale, "colorbar": {"title": f"best {_escaped(view.metric)}"}},
        )
    )  # fmt: skip
    return _layout(figure, "Trials and best values by branch")


def history(source: Any, given: Given = None) -> Figure:
    """Best value so far, with all trials and what the model now expects of the leader."""
    view = as_view(source, details=False)
    keep, go = chosen(view, given), _plotly().graph_objects
    figure = go.Figure()
    finished = [k for k, v in enumerate(view.trials.value) if v is not None and view.trials.branch[k] in keep]
    if view.trace.trial and not given:
        x = [k + 1 for k in view.trace.trial]
        x, ends = [*x, len(view.trials)], (view.trace.low, view.trace.high, view.trace.mean)
        low, high, mean = ([*values, values[-1]] for values in ends)
        step = {"shape": "hv", "color": LINE}
        figure.add_scatter(x=x, y=high, line={**step, "width": 0}, showlegend=False, hoverinfo="skip")
        figure.add_scatter(
            x=x, y=low, line={**step, "width": 0}, fill="tonexty", fillcolor=BAND, showlegend=False, hoverinfo="skip"
        )
        figure.add_scatter(x=x, y=mean, line={**step, "dash": "dash"}, name="expected of the leader")
    for b in keep[:10]:
        own = [k for k in finished if view.trials.branch[k] == b]
        figure.add_scatter(
            x=[k + 1 for k in own], y=[view.trials.value[k] for k in own], mode="markers", name=_escaped(view.branches[b].label),
            marker={"color": PALETTE[min(b, 9)], "size": 6}, text=[_config(view, k) for k in own],
        )  # fmt: skip
    best, x, y = math.inf, [], []
    for k in finished:
        if view.trials.status[k] == "finished" and view.sign * (view.trials.value[k] or 0.0) < best:
            best = view.sign * (view.trials.value[k] or 0.0)
            x.append(k + 1)
            y.append(view.trials.value[k])
    figure.add_scatter(
        x=[*x, len(view.trials)], y=[*y, y[-1]] if y else [], line={"shape": "hv", "color": "#17212b"}, name="best so far"
    )
    return _layout(figure, "Best so far", xaxis_title="trial", yaxis_title=_escaped(view.metric))


def effort(source: Any, given: Given = None) -> Figure:
    """The share of trials by branch, over time."""
    view = as_view(source, details=False)
    go, n = _plotly().graph_objects, len(view.trials)
    half = max(3, n // 40)
    at = np.unique(np.linspace(0, max(0, n - 1), min(n, 240)).astype(int)) if n else np.empty(0, int)
    branch = np.array(view.trials.branch, dtype=int)
    figure = go.Figure()
    for b in chosen(view, given):
        share = [float(np.mean(branch[max(0, k - half) : k + half + 1] == b)) for k in at]
        figure.add_scatter(
            x=at + 1,
            y=share,
            stackgroup="one",
            name=_escaped(view.branches[b].label),
            line={"width": 0},
            fillcolor=PALETTE[min(b, 9)],
        )
    return _layout(figure, "Share of trials by branch", xaxis_title="trial", yaxis={"tickformat": ".0%", "range": [0, 1]})


def slices(source: Any, given: Given = None) -> Figure:
    """What the model expects along every parameter of the leading branch (that is `given`), with its trials."""
    view = as_view(source)
    plotly, b = _plotly(), _leading(view, given)
    found = [s for s in view.slices if s.branch == b]
    columns = min(3, max(1, len(found)))
    names = [view.parameters[s.parameter].key for s in found]
    rows = max(1, math.ceil(len(found) / columns))
    figure = plotly.subplots.make_subplots(rows=rows, cols=columns, subplot_titles=[_escaped(name) for name in names])
    for k, s in enumerate(found):
        _add_slice(figure, view, s, k // columns + 1, k % columns + 1)
    return _layout(figure, f"What the model expects: {_escaped(view.branches[b].label)}", showlegend=False, height=300 * rows)


def _add_slice(figure: Any, view: View, s: Slice, row: int, column: int) -> None:
    p = view.parameters[s.parameter]
    place = view.branches[s.branch].active.index(s.parameter)
    own = [k for k, v in enumerate(view.trials.value) if v is not None and view.trials.branch[k] == s.branch]
    at = [view.trials.values[k][place] for k in own]
    x: list[Any] = [p.labels[int(v)] for v in s.x] if p.labels else s.x
    points: list[Any] = [p.labels[int(v or 0)] for v in at] if p.labels else at
    here = {"row": row, "col": column}
    mode = "markers" if p.labels else "lines"
    if p.labels:
        error = {
            "type": "data",
            "symmetric": False,
            "array": np.subtract(s.high, s.mean),
            "arrayminus": np.subtract(s.mean, s.low),
        }
        figure.add_scatter(x=x, y=s.mean, mode=mode, marker={"color": LINE, "size": 9}, error_y=error, name="expected", **here)
    else:
        figure.add_scatter(x=x, y=s.high, line={"width": 0}, hoverinfo="skip", mode=mode, **here)
        figure.add_scatter(x=x, y=s.low, line={"width": 0}, fill="tonexty", fillcolor=BAND, hoverinfo="skip", mode=mode, **here)
        figure.add_scatter(x=x, y=s.mean, line={"color": LINE}, mode=mode, name="expected", **here)
    values = [view.trials.value[k] for k in own]
    figure.add_scatter(
        x=points, y=values, mode="markers", marker={"color": "#17212b", "opacity": 0.5, "size": 5},
        text=[_config(view, k) for k in own], name="trials", **here,
    )  # fmt: skip
    if p.log:
        figure.update_xaxes(type="log", **here)


def contour(source: Any, across: str, up: str, given: Given = None) -> Figure:
    """What the model expects over two parameters, by key, of the leading branch (that is `given`).

    Raises:
        SettingError: if the branch has no such pair.
    """
    view = as_view(source)
    go, b = _plotly().graph_objects, _leading(view, given)
    for c in view.contours:
        names = [(view.parameters[i].key, view.parameters[i].key.rsplit("/", 1)[-1]) for i in (c.across, c.up)]
        turned = across in names[1] and up in names[0]
        if c.branch != b or not (turned or (across in names[0] and up in names[1])):
            continue
        levels = np.frombuffer(base64.b64decode(c.levels), dtype=np.uint8).reshape(len(c.y), len(c.x)) / 255.0
        z = c.low + levels * (c.high - c.low)
        first, second = (c.up, c.across) if turned else (c.across, c.up)
        x, y, z = (c.y, c.x, z.T) if turned else (c.x, c.y, z)
        scale = list(RAMP) if view.mode == "max" else list(reversed(RAMP))
        figure = go.Figure(
            go.Contour(
                x=_ticks(view, first, x),
                y=_ticks(view, second, y),
                z=z,
                colorscale=scale,
                colorbar={"title": _escaped(view.metric)},
            )
        )
        places = [view.branches[b].active.index(i) for i in (first, second)]
        own = [k for k, v in enumerate(view.trials.value) if v is not None and view.trials.branch[k] == b]
        at = [[view.trials.values[k][place] for k in own] for place in places]
        figure.add_scatter(
            x=_ticks(view, first, at[0]), y=_ticks(view, second, at[1]), mode="markers", marker={"color": "#17212b", "size": 5},
            text=[_config(view, k) for k in own],
        )  # fmt: skip
        if view.parameters[first].log:
            figure.update_xaxes(type="log")
        if view.parameters[second].log:
            figure.update_yaxes(type="log")
        title = f"What the model expects: {_escaped(view.branches[b].label)}"
        axes = {"xaxis_title": _escaped(view.parameters[first].key), "yaxis_title": _escaped(view.parameters[second].key)}
        return _layout(figure, title, **axes)
    keys = sorted({view.parameters[i].key for c in view.contours if c.branch == b for i in (c.across, c.up)})
    label = view.branches[b].label
    raise SettingError(
        "contour", f"the branch {label} has no pair {across}, {up}.", f"It has {', '.join(keys) or 'no pair at all'}."
    )


def _ticks(view: View, parameter: int, values: Any) -> list[Any]:
    labels = view.parameters[parameter].labels
    return [labels[int(v)] for v in values] if labels else list(values)


def importance(source: Any, given: Given = None) -> Figure:
    """Shares of the variance of what the model expects: over the whole space, or over the leading branch that is `given`."""
    view = as_view(source)
    go, b = _plotly().graph_objects, _leading(view, given) if given else None
    found = sorted((s for s in view.importance if s.branch == b), key=lambda s: s.total)
    names = [_escaped(view.parameters[s.parameter].name if b is None else view.parameters[s.parameter].key) for s in found]
    figure = go.Figure()
    figure.add_bar(y=names, x=[s.total for s in found], orientation="h", name="together with others", marker={"color": "#bfd9db"})
    figure.add_bar(y=names, x=[s.alone for s in found], orientation="h", name="alone", marker={"color": LINE})
    where = "the whole space" if b is None else _escaped(view.branches[b].label)
    return _layout(figure, f"Which parameters matter: {where}", barmode="overlay", xaxis={"tickformat": ".0%", "range": [0, 1]})


def left_out(source: Any, given: Given = None) -> Figure:
    """Every trial predicted from the others, against its value."""
    view = as_view(source)
    go, figure = _plotly().graph_objects, _plotly().graph_objects.Figure()
    for b in chosen(view, given)[:10]:
        own = [f for f in view.fits if view.trials.branch[f.trial] == b]
        mean = np.array([f.mean for f in own])
        error = {
            "type": "data",
            "symmetric": False,
            "array": [f.high - f.mean for f in own],
            "arrayminus": [f.mean - f.low for f in own],
        }
        figure.add_scatter(
            x=[view.trials.value[f.trial] for f in own], y=mean, mode="markers", error_y={**error, "thickness": 1},
            marker={"color": PALETTE[min(b, 9)]}, name=_escaped(view.branches[b].label),
            text=[_config(view, f.trial) for f in own],
        )  # fmt: skip
    values = [v for v in view.trials.value if v is not None]
    if values:
        line = [min(values), max(values)]
        figure.add_trace(go.Scatter(x=line, y=line, mode="lines", line={"dash": "dash", "color": "#66717e"}, showlegend=False))
    name = _escaped(view.metric)
    return _layout(
        figure, "Can the model be trusted?", xaxis_title=f"{name} as it was", yaxis_title=f"{name} as expected, not told of it"
    )


def curves(source: Any, given: Given = None) -> Figure:
    """Learning curves; those that were stopped are faint."""
    view = as_view(source, details=False)
    keep, figure = set(chosen(view, given)), _plotly().graph_objects.Figure()
    for c in view.curves:
        b = view.trials.branch[c.trial]
        if b in keep:
            faint = 0.3 if view.trials.status[c.trial] == "stopped" else 0.9
            figure.add_scatter(
                x=c.t,
                y=c.value,
                mode="lines",
                opacity=faint,
                line={"color": PALETTE[min(b, 9)]},
                showlegend=False,
                name=str(c.trial + 1),
            )
    for t, count in view.rungs:
        figure.add_vline(x=t, line_dash="dot", line_color="#66717e", annotation_text=f"{count} stopped")
    return _layout(figure, "Learning curves", xaxis_title=_escaped(view.time_attr), yaxis_title=_escaped(view.metric))


FIGURES: dict[str, Callable[..., Any]] = {
    "tree": tree, "history": history, "effort": effort, "curves": curves, "slices": slices, "importance": importance,
    "left_out": left_out,
}  # fmt: skip
"""The figures that need nothing but a search."""


def _leading(view: View, given: Given) -> int:
    """The best branch of those that are given which has slices."""
    keep = chosen(view, given)
    detailed = {s.branch for s in view.slices} | {s.branch for s in view.importance if s.branch is not None}
    found = next((b for b in keep if b in detailed), None)
    if found is None:
        raise SettingError("figures", "there is no model of such a branch yet.", "Wait for trials with values.")
    return found


def _config(view: View, trial: int) -> str:
    config = view.config_of(trial)
    shown = (f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}" for key, value in config.items())
    return f"trial {trial + 1}<br>" + "<br>".join(map(_escaped, shown))


def _escaped(text: str) -> str:
    """Plotly reads a little HTML in its texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
