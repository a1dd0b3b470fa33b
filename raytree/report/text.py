"""A View as text: for terminals, with colours where there is one, and for pipes."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from raytree.report.view import Node, View

Paint = Callable[[str, str], str]
"""From a text and the name of a style to the text in that style."""

STYLES = {"bold": "1", "soft": "2", "good": "32", "note": "33", "warning": "31", "accent": "36"}
BAR = 24
"""Characters of the longest bar."""
MOST_LINES = 60
"""Lines of a tree; the parts with most trials."""


def plain(text: str, style: str) -> str:
    """The text as it is."""
    return text


def ansi(text: str, style: str) -> str:
    """The text in colour."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def safe(text: str) -> str:
    """A text without what a terminal would obey: names may come from strangers."""
    return "".join(c if c.isprintable() else "?" for c in text)


def number(value: float | None, digits: int = 4) -> str:
    """A number in few characters; a dash for None."""
    return "-" if value is None else f"{value:.{digits}g}"


def seconds(value: float | None) -> str:
    """A duration in the unit that fits."""
    if value is None:
        return "-"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def summary(view: View, paint: Paint = plain) -> str:
    """Everything in short: title, recommendation, tree, checks, what to do next."""
    parts = [title(view, paint), tree(view, paint), recommendation(view, paint), checks(view, paint)]
    if view.advice:
        parts.append("\n".join([paint("What to do next", "bold"), *(f"  - {safe(line)}" for line in view.advice)]))
    return "\n\n".join(part for part in parts if part)


def title(view: View, paint: Paint = plain) -> str:
    """One or two lines on what this is."""
    better = "lower" if view.mode == "min" else "higher"
    counts = {word: view.trials.status.count(word) for word in ("running", "stopped")}
    counts["failed"] = view.trials.status.count("errored") + view.trials.status.count("invalid")
    said = [f"{len(view.trials)} trials", *(f"{count} {word}" for word, count in counts.items() if count)]
    state = ", still running" if view.running else ""
    return (
        f"{paint(safe(view.title), 'bold')}  {safe(view.method)}, {safe(view.metric)}: {better} is better{state}\n"
        + ", ".join(said)
    )


def tree(view: View, paint: Paint = plain) -> str:
    """The tree of the space with trials, best values and what the model expects."""
    nodes = _kept(view)
    below: dict[int, list[int]] = {}
    for k in nodes:
        below.setdefault(view.nodes[k].parent, []).append(k)
    rows: list[tuple[str, Node]] = []

    def walk(k: int, indent: str, mark: str) -> None:
        node = view.nodes[k]
        name = "all" if k == 0 else safe(f"{node.decision}={node.label}" if node.untried < 2 else node.label)
        rows.append((f"{indent}{mark}{name}", node))
        inner = indent + ("" if k == 0 else "   " if mark.startswith("└") else "│  ")
        for child in below.get(k, []):
            walk(child, inner, "└─ " if child == below[k][-1] else "├─ ")

    walk(0, "", "")
    width = min(60, max(len(name) for name, _ in rows)) + 2
    most = max(1, view.nodes[0].trials)
    head = f"{'branch':<{width}}{'trials':>7}  {'best':>10}  {'expected':>20}  {'chance':>7}"
    return "\n".join([paint(head, "soft"), *(_line(name, node, width, most, paint) for name, node in rows)])


def _line(name: str, node: Node, width: int, most: int, paint: Paint) -> str:
    if node.untried:
        return f"{name:<{width}}{paint('never tried' if node.untried == 1 else '', 'soft')}".rstrip()
    expected = "" if node.expected is None else f"{number(node.expected)} ± {number(node.sd, 2)}"
    chance = "" if node.chance is None else f"{node.chance:.0%}"
    bar = paint("█" * max(1, round(BAR * node.trials / most)), "accent")
    failed = paint(f"  {node.failed} failed", "warning") if node.failed else ""
    return f"{name:<{width}}{node.trials:>7}  {number(node.best):>10}  {expected:>20}  {chance:>7}  {bar}{failed}"


def _kept(view: View) -> list[int]:
    """The nodes that are shown, with all of their parents, in order."""
    ranked = sorted(range(len(view.nodes)), key=lambda k: (view.nodes[k].depth > 0, -view.nodes[k].trials, k))
    kept: set[int] = set()
    for k in ranked:
        trail = [k]
        while view.nodes[trail[-1]].parent >= 0:
            trail.append(view.nodes[trail[-1]].parent)
        if len(kept | set(trail)) <= MOST_LINES:
            kept |= set(trail)
    return sorted(kept)


def recommendation(view: View, paint: Paint = plain) -> str:
    """What to use, and what to expect of it."""
    if view.choice is None:
        return "No trial has a value yet."
    choice = view.choice
    around = "" if choice.sd is None else f" ± {number(choice.sd, 2)}"
    lines = [paint("Recommendation", "bold"), *(f"  {safe(line)}" for line in choice.code.splitlines())]
    name = f"trial {choice.trial + 1}, {safe(view.trials.id[choice.trial])}"
    lines.append(f"  expected {safe(view.metric)}: {number(choice.value, 5)}{around} ({name})")
    return "\n".join([*lines, f"  {safe(choice.why)}"])


def checks(view: View, paint: Paint = plain) -> str:
    """The health checks."""
    lines = [f"  {paint(f'{check.level:<8}', check.level)} {check.title}: {safe(check.text)}" for check in view.checks]
    return "\n".join([paint("Health", "bold"), *lines])


def trial_rows(view: View) -> tuple[list[str], list[list[str]]]:
    """The names of columns and a row per trial, active parameters only."""
    keys = list(dict.fromkeys(parameter.key for parameter in view.parameters))
    names = [
        "number",
        "trial_id",
        "branch",
        "status",
        view.metric,
        view.time_attr,
        "seconds",
        "node",
        *(f"config/{key}" for key in keys),
    ]
    rows = []
    for k, trial_id in enumerate(view.trials.id):
        config = view.config_of(k)
        told = [view.trials.value[k], view.trials.t[k], view.trials.seconds[k]]
        cells = [str(k + 1), trial_id, view.branches[view.trials.branch[k]].label, view.trials.status[k]]
        cells += ["" if value is None else repr(value) for value in told] + [view.trials.node[k] or ""]
        rows.append(cells + [str(config[key]) if key in config else "" for key in keys])
    return names, rows


def trials_csv(view: View) -> str:
    """The trials as CSV; texts that a spreadsheet would calculate begin with a quote."""
    names, rows = trial_rows(view)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _cell(text: str) -> str:
    if text[:1] in ("=", "+", "@", "\t", "\r"):
        return f"'{text}"
    if text[:1] == "-":
        try:
            float(text)
        except ValueError:
            return f"'{text}"
    return text


def trials_text(view: View, paint: Paint = plain, last: int | None = None) -> str:
    """The trials as lines, the last ones if there are many."""
    lines = []
    for k in range(len(view.trials))[-(last or len(view.trials)) :] if len(view.trials) else ():
        status, value = view.trials.status[k], view.trials.value[k]
        style = "warning" if status in ("errored", "invalid") else "note" if status == "running" else "soft"
        said = number(value, 6) if value is not None else ""
        config = " ".join(f"{key}={_short(v)}" for key, v in view.config_of(k).items())
        lines.append(f"{k + 1:>5}  {safe(view.trials.id[k]):<14}  {paint(f'{status:<8}', style)}  {said:>11}  {safe(config)}")
    return "\n".join([paint(f"{'#':>5}  {'id':<14}  {'status':<8}  {safe(view.metric):>11}  configuration", "soft"), *lines])


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
