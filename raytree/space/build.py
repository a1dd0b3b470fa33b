"""From a nested structure to the parts of a `Space`: names, domains, conditions, decisions, cells, template.

Two passes. The first walks the structure and collects parameters, each with the branches and guards above it. The second
knows every test on every parent, cuts the decisions into cells, lowers the conditions and sorts parents before children.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from raytree.errors import SpaceError, SpaceTooLargeError
from raytree.space import template as shape
from raytree.space.conditions import ALWAYS, Cells, Condition, Conditional, Test, both, cells_of, holds
from raytree.space.naming import branch_names, hidden
from raytree.space.parameters import DOMAINS, Categorical, Constant, Domain
from raytree.space.when import as_conditional

MAX_DEPTH = 64
MAX_PARAMETERS = 10_000


class Built(NamedTuple):
    template: shape.Node
    names: list[str]
    domains: list[Domain]
    conditions: list[Condition]
    cells: dict[int, Cells]  # by decision
    order: list[int]  # parameters, parents before children


@dataclass
class _Draft:
    """A parameter as the first pass leaves it: what must hold above it, innermost branch and guards."""

    name: str
    domain: Domain
    branch: tuple[int, int] | None
    guards: tuple[Conditional, ...]
    labels: tuple[str, ...] | None = None


@dataclass
class _Walk:
    drafts: list[_Draft] = field(default_factory=list)
    stack: list[int] = field(default_factory=list)

    def node(self, value: Any, where: str, branch: tuple[int, int] | None, guards: tuple[Conditional, ...]) -> Any:
        """The template of `value`, with raw `Conditional`s where guards will be."""
        if len(self.stack) > MAX_DEPTH:
            raise SpaceTooLargeError(where, f"nested more than {MAX_DEPTH} deep.", "Flatten the space.")
        if id(value) in self.stack:
            raise SpaceError(where, "the structure contains itself.", "Copy the part that repeats.")
        self.stack.append(id(value))
        try:
            return self._node(value, where, branch, guards)
        finally:
            self.stack.pop()

    def _node(self, value: Any, where: str, branch: tuple[int, int] | None, guards: tuple[Conditional, ...]) -> Any:
        if isinstance(value, Constant):
            return shape.Fixed(value.value)
        if as_conditional(value) is not None:
            raise SpaceError(where, "a condition may only guard the value of a dict key.", "Put it under a key.")
        if isinstance(value, Categorical):
            return self._categorical(value, where, branch, guards)
        if isinstance(value, DOMAINS):
            if value.size == 1:
                return shape.Fixed(value.render(value.code(0.5)))
            return shape.Leaf(self._add(where, value, branch, guards))
        if isinstance(value, dict):
            items: list[tuple[Any, Any, Conditional | None]] = []
            for key, item in value.items():
                place = f"{where}.{key}" if where else str(key)
                guard = as_conditional(item)
                if guard is not None:
                    then = self.node(guard.then, place, branch, (*guards, guard))
                    items.append((key, shape.Guard(ALWAYS, then, str(guard)), guard))
                else:
                    items.append((key, self.node(item, place, branch, guards), None))
            return _Mapping(items, branch)
        if type(value) in (list, tuple) and hidden(value) is None:
            nodes = [self.node(item, f"{where}[{k}]", branch, guards) for k, item in enumerate(value)]
            return _Listing(nodes, isinstance(value, tuple))
        return shape.Fixed(value)

    def _categorical(self, value: Categorical, where: str, branch: Any, guards: tuple[Conditional, ...]) -> Any:
        if not any(searchable(choice) for choice in value.choices):
            if value.size == 1:
                return shape.Fixed(value.choices[0])
            return shape.Leaf(self._add(where, value, branch, guards, branch_names(value.choices)))
        if len(value.choices) == 1:
            return self.node(value.choices[0], where, branch, guards)
        labels = branch_names(value.choices)
        index = self._add(where, value, branch, guards, labels)
        options = [self.node(choice, f"{where}[{k}]", (index, k), guards) for k, choice in enumerate(value.choices)]
        return _Branch(index, options)

    def _add(
        self, name: str, domain: Domain, branch: Any, guards: tuple[Conditional, ...], labels: tuple[str, ...] | None = None
    ) -> int:
        if len(self.drafts) >= MAX_PARAMETERS:
            raise SpaceTooLargeError(name, f"more than {MAX_PARAMETERS:,} parameters.", "Search a part of the space.")
        self.drafts.append(_Draft(name or "value", domain, branch, guards, labels))
        return len(self.drafts) - 1


@dataclass
class _Mapping:
    items: list[tuple[Any, Any, Conditional | None]]
    branch: tuple[int, int] | None


@dataclass
class _Listing:
    items: list[Any]
    as_tuple: bool


@dataclass
class _Branch:
    index: int
    options: list[Any]


def searchable(value: Any) -> bool:
    """Whether a structure contains anything to search."""
    if isinstance(value, (Constant, str)):
        return False
    if isinstance(value, DOMAINS) or as_conditional(value) is not None:
        return True
    if isinstance(value, dict):
        return any(searchable(item) for item in value.values())
    return type(value) in (list, tuple) and any(searchable(item) for item in value)


def build(structure: Any) -> Built:
    """The parts of a space; raises `SpaceError` at the first thing that cannot be searched."""
    walk = _Walk()
    try:
        raw = walk.node(structure, "", None, ())
    except RecursionError:  # reached only where the interpreter's own limit is below ours
        raise SpaceTooLargeError("space", "nested too deeply.", "Flatten the space.") from None
    drafts = walk.drafts
    by_name: dict[str, int] = {}
    for i, draft in enumerate(drafts):
        if by_name.setdefault(draft.name, i) != i:
            raise SpaceError(draft.name, "two places of the space have this name.", "Rename a key that contains '.' or '['.")
    tests: dict[int, list[Test]] = {}
    for guard in _guards(raw):
        for clause in guard.any_of:
            for test in clause:
                if test.parent not in by_name:
                    raise SpaceError(str(guard), f"there is no parameter called {test.parent!r}.", _known(by_name))
                tests.setdefault(by_name[test.parent], []).append(test)
    deciding = {draft.branch[0] for draft in drafts if draft.branch} | set(tests) | _branches(raw)
    cells = {j: cells_of(drafts[j].domain, drafts[j].name, tests.get(j, ()), drafts[j].labels) for j in sorted(deciding)}

    def lower(guard: Conditional) -> Condition:
        clauses: Condition = ()
        for clause in guard.any_of:
            condition = ALWAYS
            for test in clause:
                j = by_name[test.parent]
                condition = both(condition, (((j, holds(test, cells[j], test.parent)),),))
            clauses += condition
        return clauses

    def condition_of(branch: tuple[int, int] | None, above: tuple[Conditional, ...]) -> Condition:
        condition = ALWAYS if branch is None else (((branch[0], frozenset({branch[1]})),),)
        for guard in above:
            condition = both(condition, lower(guard))
        return condition

    conditions = []
    for draft in drafts:
        condition = condition_of(draft.branch, draft.guards)
        if not condition:
            raise SpaceError(draft.name, "its conditions can never hold.", "Correct or remove the condition.")
        conditions.append(condition)
    order = _parents_first([draft.name for draft in drafts], conditions)
    return Built(_finish(raw, lower), [d.name for d in drafts], [d.domain for d in drafts], conditions, cells, order)


def _known(by_name: dict[str, int]) -> str:
    return "Known parameters: " + ", ".join(list(by_name)[:12]) + "."


def _finish(raw: Any, lower: Any) -> shape.Node:
    """The template with lowered guards."""
    if isinstance(raw, _Mapping):
        items: list[tuple[Any, shape.Node]] = []
        for key, node, guard in raw.items:
            if guard is not None:
                items.append((key, shape.Guard(lower(guard), _finish(node.node, lower), node.text)))
            else:
                items.append((key, _finish(node, lower)))
        return shape.Mapping(tuple(items))
    if isinstance(raw, _Listing):
        return shape.Listing(tuple(_finish(item, lower) for item in raw.items), raw.as_tuple)
    if isinstance(raw, _Branch):
        return shape.Branch(raw.index, tuple(_finish(option, lower) for option in raw.options))
    finished: shape.Node = raw
    return finished


def _guards(raw: Any) -> list[Conditional]:
    """Every guard in the structure."""
    if isinstance(raw, _Mapping):
        found = [guard for _, _, guard in raw.items if guard is not None]
        return found + [g for _, node, _ in raw.items for g in _guards(getattr(node, "node", node))]
    children = raw.items if isinstance(raw, _Listing) else raw.options if isinstance(raw, _Branch) else ()
    return [guard for child in children for guard in _guards(child)]


def _branches(raw: Any) -> set[int]:
    if isinstance(raw, _Mapping):
        return {j for _, node, _ in raw.items for j in _branches(getattr(node, "node", node))}
    if isinstance(raw, _Listing):
        return {j for item in raw.items for j in _branches(item)}
    if isinstance(raw, _Branch):
        return {raw.index} | {j for option in raw.options for j in _branches(option)}
    return set()


def _parents_first(names: list[str], conditions: list[Condition]) -> list[int]:
    """Parameters in declared order, but each after its parents; raises on a cycle."""
    order: list[int] = []
    done: set[int] = set()
    parents = [sorted({j for clause in condition for j, _ in clause}) for condition in conditions]
    for start in range(len(names)):
        stack = [(start, iter(parents[start]))]
        trail = {start}
        while stack:
            i, rest = stack[-1]
            if i in done:
                stack.pop()
                trail.discard(i)
                continue
            following = next((j for j in rest if j not in done), None)
            if following is None:
                order.append(i)
                done.add(i)
                stack.pop()
                trail.discard(i)
            elif following in trail:
                loop = " -> ".join(names[k] for k, _ in stack) + f" -> {names[following]}"
                raise SpaceError(names[i], f"conditions form a cycle: {loop}.", "Remove one of them.")
            else:
                trail.add(following)
                stack.append((following, iter(parents[following])))
    return order
