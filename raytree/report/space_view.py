"""The parameters of a space and the names of its paths, in the words of a configuration: keys, not places."""

from __future__ import annotations

from raytree.report.view import Parameter
from raytree.space import Categorical, Float, Integer, Normal, Path, Space
from raytree.space.naming import name_of
from raytree.space.template import Branch, Guard, Leaf, Listing, Mapping, Node


def keys_of(space: Space) -> list[str]:
    """For each parameter where its value stands in a configuration, as Tune writes it: ``model/kernel/gamma``."""
    found = ["value"] * space.d

    def walk(node: Node, place: str) -> None:
        if isinstance(node, Leaf):
            found[node.parameter] = place or "value"
        elif isinstance(node, Branch):
            found[node.parameter] = place or "value"
            for option in node.options:
                walk(option, place)
        elif isinstance(node, Guard):
            walk(node.node, place)
        elif isinstance(node, Mapping):
            for key, item in node.items:
                walk(item, f"{place}/{key}" if place else str(key))
        elif isinstance(node, Listing):
            for k, item in enumerate(node.items):
                walk(item, f"{place}[{k}]")

    walk(space.template, "")
    return found


def parameters_of(space: Space) -> list[Parameter]:
    """The parameters, as a page shows them."""
    return [_parameter(space, i, key) for i, key in enumerate(keys_of(space))]


def _parameter(space: Space, i: int, key: str) -> Parameter:
    name, domain, _ = space.parameters[i]
    decision, shared = i in space.cells, i in space.shared
    if isinstance(domain, Categorical):
        labels = list(space.cells[i].labels) if decision else [name_of(choice, space.objects) for choice in domain.choices]
        text = "{" + ", ".join(labels[:8]) + (", ...}" if len(labels) > 8 else "}")
        return Parameter(name, key, "category", False, None, None, labels, decision, shared, text)
    assert isinstance(domain, (Float, Integer, Normal))
    kind = "int" if isinstance(domain, Integer) else "float"
    log = bool(getattr(domain, "log", False))
    low, high = float(domain.code(0.0)), float(domain.code(1.0))
    return Parameter(name, key, kind, log, low, high, [], decision, shared, domain.describe())


def cells_of(space: Space, keys: list[str], path: Path) -> list[tuple[int, str, str]]:
    """(decision, its short name, name of the cell) of a path, parents before children."""
    cell_of = space.cell_of(path)
    found = []
    for j in space.order:
        if j in cell_of:
            found.append((j, keys[j].rsplit("/", 1)[-1], space.cells[j].labels[cell_of[j]]))
    return found


def label_of(cells: list[tuple[int, str, str]]) -> str:
    """A short name of a path."""
    return " · ".join(f"{name}={label}" for _, name, label in cells) or "all"
