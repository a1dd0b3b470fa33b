"""The tree of a space with the effort in it: every decision and cell, tried or not, as nodes.

Below the first node stand the cells of the first decision that is alive there, below each of them those of the next one, and
so on: sibling decisions come one after the other. Cells that were never tried are there too; where they are many, one node
stands for all of them. Very bushy trees keep the nodes with most trials, and "others".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from raytree.report.view import Branch, Node
from raytree.space import Space
from raytree.space.conditions import satisfied

MOST_CELLS = 24
"""Cells of one decision below one node; the others are one node."""
MOST_NODES = 600


@dataclass
class _Growing:
    """A node before its numbers are known."""

    parent: int
    depth: int
    decision: str
    label: str
    cell_of: dict[int, int]
    branches: list[int] = field(default_factory=list)
    untried: int = 0


def nodes_of(
    space: Space, names: Sequence[str], cells: Sequence[dict[int, int]], branches: Sequence[Branch], sign: float
) -> list[Node]:
    """The nodes, parents before children.

    Args:
        space: the space.
        names: short names of all parameters.
        cells: for each branch the cell of each of its decisions.
        branches: the branches.
        sign: 1 where low values are good.
    """
    order = [j for j in space.order if j in space.cells]
    grown = [_Growing(-1, 0, "", "all", {}, list(range(len(branches))))]
    waiting = [(0, 0)]
    while waiting and len(grown) < MOST_NODES:
        at, step = waiting.pop(0)
        node = grown[at]
        while step < len(order) and not satisfied(space.parameters[order[step]].condition, node.cell_of):
            step += 1
        if step == len(order) or (node.untried and node.depth):
            continue
        j = order[step]
        for child in _children(space, names[j], j, at, node, cells, branches):
            grown.append(child)
            if child.branches:
                waiting.append((len(grown) - 1, step + 1))
    return [_finished(node, branches, sign) for node in grown]


def _children(
    space: Space, name: str, j: int, at: int, node: _Growing, cells: Sequence[dict[int, int]], branches: Sequence[Branch]
) -> list[_Growing]:
    labels = space.cells[j].labels
    groups: dict[int, list[int]] = {}
    for b in node.branches:
        if j in cells[b]:
            groups.setdefault(cells[b][j], []).append(b)
    effort = {cell: sum(branches[b].trials for b in group) for cell, group in groups.items()}
    shown = sorted(groups, key=lambda cell: (-effort[cell], cell))[:MOST_CELLS]
    children = [
        _Growing(at, node.depth + 1, name, labels[cell], {**node.cell_of, j: cell}, groups[cell]) for cell in sorted(shown)
    ]
    rest = [b for cell, group in groups.items() if cell not in shown for b in group]
    if rest:
        children.append(_Growing(at, node.depth + 1, name, f"{len(groups) - len(shown)} others", dict(node.cell_of), rest, 0))
    never = [cell for cell in range(len(labels)) if cell not in groups]
    if len(never) <= max(2, MOST_CELLS - len(shown)):
        children += [_Growing(at, node.depth + 1, name, labels[cell], {**node.cell_of, j: cell}, [], 1) for cell in never]
    elif never:
        children.append(_Growing(at, node.depth + 1, name, f"{len(never)} never tried", {}, [], len(never)))
    return children


def _finished(node: _Growing, branches: Sequence[Branch], sign: float) -> Node:
    inside = [branches[b] for b in node.branches]
    best = min((b.best for b in inside if b.best is not None), key=lambda value: sign * value, default=None)
    leading = min((b for b in inside if b.expected is not None), key=lambda b: sign * (b.expected or 0.0), default=None)
    chances = [b.chance for b in inside if b.chance is not None]
    return Node(
        node.parent, node.depth, node.decision, node.label, node.branches,
        sum(b.trials for b in inside), sum(b.failed for b in inside), sum(b.running for b in inside), node.untried,
        best, None if leading is None else leading.expected, None if leading is None else leading.sd,
        max(chances, default=None),
    )  # fmt: skip
