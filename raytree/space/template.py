"""The shape of a configuration: where each parameter's value goes, and how to read values back out of one.

A template is the user's nested structure with every domain replaced by a reference to a parameter:

    Mapping {"scaler": Leaf(0),
             "model": Branch(1, [Mapping {"kind": Fixed("svm"), "C": Leaf(2)},
                                 Mapping {"kind": Fixed("gnb")}])}

`render` turns codes into a configuration; `Reader` does the opposite, finding the branch a configuration is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raytree.errors import ConfigurationError, MissingKeyError, OutOfDomainError, UnknownKeyError
from raytree.space.conditions import Condition, satisfied
from raytree.space.parameters import Code, Domain, same

Point = tuple[Code | None, ...]
"""One configuration as codes, a place per parameter; None where the parameter is inactive."""


@dataclass(frozen=True)
class Fixed:
    value: Any


@dataclass(frozen=True)
class Leaf:
    parameter: int


@dataclass(frozen=True)
class Branch:
    """A decision whose options are structures of their own."""

    parameter: int
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Mapping:
    items: tuple[tuple[Any, Node], ...]


@dataclass(frozen=True)
class Listing:
    items: tuple[Node, ...]
    as_tuple: bool


@dataclass(frozen=True)
class Guard:
    """A key that is present only where a condition holds; `text` says so to a reader."""

    condition: Condition
    node: Node
    text: str


Node = Fixed | Leaf | Branch | Mapping | Listing | Guard


def fresh(value: Any) -> Any:
    """A copy of the containers in `value`; the objects inside are shared."""
    if type(value) is dict:
        return {key: fresh(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(fresh(item) for item in value)
    return value


def render(node: Node, point: Point, domains: Sequence[Domain], cell_of: dict[int, int]) -> Any:
    """The configuration of a point; `cell_of` gives the cell of each alive decision."""
    if isinstance(node, Fixed):
        return fresh(node.value)
    if isinstance(node, Leaf):
        return fresh(domains[node.parameter].render(_alive(point, node.parameter)))
    if isinstance(node, Branch):
        return render(node.options[int(_alive(point, node.parameter))], point, domains, cell_of)
    if isinstance(node, Guard):
        return render(node.node, point, domains, cell_of)
    if isinstance(node, Mapping):
        return {
            key: render(item, point, domains, cell_of)
            for key, item in node.items
            if not isinstance(item, Guard) or satisfied(item.condition, cell_of)
        }
    values = [render(item, point, domains, cell_of) for item in node.items]
    return tuple(values) if node.as_tuple else values


def _alive(point: Point, parameter: int) -> Code:
    code = point[parameter]
    assert code is not None, f"parameter {parameter} is read while inactive"
    return code


class _OtherBranch(OutOfDomainError):
    """A constant or the kind of a container is not as in this branch: the configuration is in another one."""


@dataclass(frozen=True)
class Reading:
    """What a configuration holds: codes by parameter, and (place, condition, present) of every guarded key."""

    codes: dict[int, Code]
    guards: tuple[tuple[str, Condition, bool], ...] = ()

    def __or__(self, other: Reading) -> Reading:
        return Reading(self.codes | other.codes, self.guards + other.guards)


NOTHING = Reading({})


class Reader:
    """Reads codes out of configurations.

    Args:
        node: the template.
        names: a name per parameter, for messages.
        domains: a domain per parameter.
    """

    def __init__(self, node: Node, names: Sequence[str], domains: Sequence[Domain]) -> None:
        self.node, self.names, self.domains = node, names, domains

    def read(self, config: Any) -> Reading:
        """What `config` holds; raises `ConfigurationError` where it does not fit.

        Constants may be left out where that leaves no doubt. Whether guarded keys are rightly present or absent is the
        caller's question.
        """
        try:
            return self._read(self.node, config, "", strict=True)
        except ConfigurationError as error:
            try:
                return self._read(self.node, config, "", strict=False)
            except ConfigurationError:
                raise error from None

    def _read(self, node: Node, value: Any, where: str, strict: bool) -> Reading:
        if isinstance(node, Guard):
            return self._read(node.node, value, where, strict)
        if isinstance(node, Fixed):
            if not same(node.value, value) and not _alike(node.value, value):
                raise _OtherBranch(where, f"is the constant {node.value!r} in the space, got {value!r}.")
            return NOTHING
        if isinstance(node, Leaf):
            try:
                return Reading({node.parameter: self.domains[node.parameter].accept(value)})
            except ValueError as error:
                raise OutOfDomainError(where or self.names[node.parameter], f"{error}.") from None
        if isinstance(node, Branch):
            return self._branch(node, value, where, strict)
        if isinstance(node, Mapping):
            return self._mapping(node, value, where, strict)
        if not isinstance(value, (list, tuple)) or len(value) != len(node.items):
            raise _OtherBranch(where, f"expected a sequence of {len(node.items)} values, got {value!r}.")
        found = NOTHING
        for k, (item, entry) in enumerate(zip(node.items, value, strict=True)):
            found |= self._read(item, entry, f"{where}[{k}]", strict)
        return found

    def _mapping(self, node: Mapping, value: Any, where: str, strict: bool) -> Reading:
        if not isinstance(value, dict):
            raise _OtherBranch(where or "configuration", f"expected a dict, got {value!r}.")
        for key, item in node.items:  # constants first: they tell the branches apart
            if isinstance(item, Fixed) and key in value:
                self._read(item, value[key], _join(where, key), strict)
        known = {key for key, _ in node.items}
        for key in value:
            if key not in known:
                allowed = ", ".join(str(k) for k, _ in node.items)
                raise UnknownKeyError(_join(where, key), "is not in the space here.", f"Known keys: {allowed or 'none'}.")
        found = NOTHING
        for key, item in node.items:
            if isinstance(item, Guard):
                found |= Reading({}, ((_join(where, key), item.condition, key in value),))
            if key in value:
                found |= self._read(item, value[key], _join(where, key), strict)
            elif not isinstance(item, Guard) and (strict or not _constant(item)):
                raise MissingKeyError(_join(where, key), "is missing.", "Give every key that is active in this branch.")
        return found

    def _branch(self, node: Branch, value: Any, where: str, strict: bool) -> Reading:
        errors: list[ConfigurationError] = []
        for k, option in enumerate(node.options):
            try:
                return Reading({node.parameter: k}) | self._read(option, value, where, strict)
            except ConfigurationError as error:
                errors.append(error)
        near = [
            error
            for error, option in zip(errors, node.options, strict=True)
            if not isinstance(error, _OtherBranch) and not (isinstance(option, Leaf) and isinstance(value, (dict, list, tuple)))
        ]
        if len(near) == 1:  # one branch fits but for this
            raise near[0]
        reasons = "; ".join(f"branch {k}: {error}" for k, error in enumerate(errors[:6]))
        raise OutOfDomainError(where, f"{value!r} fits none of the branches ({reasons}).")


def _constant(node: Node) -> bool:
    if isinstance(node, (Mapping, Listing)):
        items = [item for _, item in node.items] if isinstance(node, Mapping) else node.items
        return all(_constant(item) for item in items)
    return isinstance(node, Fixed)


def _alike(a: Any, b: Any) -> bool:
    """Equal across the changes that JSON and Tune make: numbers of another type, lists for tuples."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) or _alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float) and a != a and b != b:
        return True
    numeric = (int, float)
    return isinstance(a, numeric) and isinstance(b, numeric) and isinstance(a, bool) == isinstance(b, bool) and a == b


def _join(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)
