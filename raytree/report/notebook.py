"""What notebooks show: small pieces of HTML in the colours of the notebook. Everything from users is escaped."""

from __future__ import annotations

from html import escape

from raytree.report.text import number
from raytree.report.view import View

_CELL = "padding:.15rem .6rem;text-align:left;white-space:nowrap"


def searcher_html(title: str, view: View | None) -> str:
    """A searcher: what it has, the branches, the recommendation."""
    head = f"<p><b>{escape(title)}</b></p>"
    if view is None or not len(view.trials):
        return head
    names = ["branch", "trials", "failed", "best", "expected", "chance to improve"]
    rows = []
    for b in view.branches[:12]:
        expected = "" if b.expected is None else f"{number(b.expected)} ± {number(b.sd, 2)}"
        chance = "" if b.chance is None else f"{b.chance:.0%}"
        width = 100.0 * b.trials / len(view.trials)
        style = f"background:#0d6c74;height:.5rem;border-radius:3px;width:{width:.0f}px;display:inline-block"
        bar = f'<div style="{style}"></div> {b.trials}'
        cells = [escape(b.label), bar, str(b.failed or ""), number(b.best), expected, chance]
        rows.append("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>")
    heads = "".join(f'<th style="{_CELL}">{name}</th>' for name in names)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    code = "" if view.choice is None else f"<pre>{escape(view.choice.code)}</pre>"
    return head + table + code
