"""A space drawn as a tree of text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from raytree.space.naming import hidden, name_of
from raytree.space.template import Branch, Fixed, Guard, Leaf, Listing, Mapping, Node

if TYPE_CHECKING:
    from raytree.space.tree import Space

Entry = tuple[str, list["Entry"]]
"""A line and the entries below it."""


def draw(space: Space) -> str:
    """The tree with types, bounds, conditions and the number of paths."""
    paths = f"{space.n_paths:,} path" + ("s" if space.n_paths != 1 else "")
    head = f"{paths}, {space.d} parameters" + (f", {len(space.decisions)} of them decisions" if space.decisions else "")
    return "\n".join([head, *_lines(_children(space, space.template), "")])


def draw_html(space: Space) -> str:
    """The same as nested lists of HTML, branches open; everything is escaped."""
    first = draw(space).splitlines()[0]
    return f"<div><b>{escape(first)}</b>{_html(_children(space, space.template))}</div>"


def _html(entries: list[Entry]) -> str:
    items = [
        f"<li><details open><summary>{escape(text)}</summary>{_html(below)}</details></li>"
        if below
        else f"<li>{escape(text)}</li>"
        for text, below in entries
    ]
    return f'<ul style="list-style:none;padding-left:1.1em;margin:0">{"".join(items)}</ul>' if items else ""


def _lines(entries: list[Entry], indent: str) -> list[str]:
    lines = []
    for k, (text, below) in enumerate(entries):
        last = k == len(entries) - 1
        lines.append(f"{indent}{'└─' if last else '├─'} {text}")
        lines += _lines(below, indent + ("   " if last else "│  "))
    return lines


def _children(space: Space, node: Node) -> list[Entry]:
    if isinstance(node, Mapping):
        return [_entry(space, str(key), item) for key, item in node.items]
    if isinstance(node, Listing):
        return [_entry(space, f"[{k}]", item) for k, item in enumerate(node.items)]
    return [_entry(space, "value", node)]


def _entry(space: Space, name: str, node: Node) -> Entry:
    if isinstance(node, Guard):
        text, below = _entry(space, name, node.node)
        return f"{text}  if {node.text}", below
    if isinstance(node, Fixed):
        return f"{name} = {_brief(node.value)}", []
    if isinstance(node, Leaf):
        return f"{name}  {space.parameters[node.parameter].domain.describe()}", []
    if isinstance(node, Branch):
        labels = space.cells[node.parameter].labels
        return name, [_option(space, label, option) for label, option in zip(labels, node.options, strict=True)]
    return name, _children(space, node)


def _option(space: Space, label: str, node: Node) -> Entry:
    if isinstance(node, Leaf):
        return space.parameters[node.parameter].domain.describe(), []
    if isinstance(node, Fixed):
        return _brief(node.value), []
    return _entry(space, label, node) if isinstance(node, Branch) else (label, _children(space, node))


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return name_of(value) if " at 0x" in text or hidden(value) else text if len(text) <= 40 else text[:37] + "..."
