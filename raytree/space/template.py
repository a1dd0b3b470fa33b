"""The shape of a configuration: where each parameter's value goes, and how to read values back out of one.

A template is the user's nested structure with every domain replaced by a reference to a parameter:

    Mapping {"scaler": Leaf(0),
             "model": Branch(1, [Mapping {"kind": Fixed("svm"), "C": Leaf(2)},
                                 Mapping {"kind": Fixed("gnb")}])}

`render` turns codes into a configuration; `Reader` does the opposite, finding the branch a configuration is in. What
Tune hides behind placeholders is compared with the objects that are known, and else taken on trust.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from raytree.errors import ConfigurationError, MissingKeyError, OutOfDomainError, UnknownKeyError
from raytree.space.alike import Match, match
from raytree.space.conditions import Condition, satisfied
from raytree.space.naming import Seen, holds_hidden, name_of
from raytree.space.parameters import Categorical, Code, Domain, same

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


def constants(node: Node, domains: Sequence[Domain]) -> Iterator[Any]:
    """Every constant and category in a template."""
    if isinstance(node, Fixed):
        yield node.value
    elif isinstance(node, Leaf):
        yield from getattr(domains[node.parameter], "choices", ())
    else:
        inside = (
            [node.node] if isinstance(node, Guard)
            else node.options if isinstance(node, Branch)
            else [item for _, item in node.items] if isinstance(node, Mapping)
            else node.items
        )  # fmt: skip
        for item in inside:
            yield from constants(item, domains)


def _alive(point: Point, parameter: int) -> Code:
    code = point[parameter]
    assert code is not None, f"parameter {parameter} is read while inactive"
    return code


HIDING = "Tune hides the objects of a param_space from searchers; one that was given space=... instead knows them."


class MismatchError(OutOfDomainError):
    """A constant or the kind of a container is not as in this branch: the configuration is in another one."""


@dataclass(frozen=True)
class Reading:
    """What a configuration holds: codes by parameter, and (place, condition, present) of every guarded key."""

    codes: dict[int, Code]
    guards: tuple[tuple[str, Condition, bool], ...] = ()

    def __or__(self, other: Reading) -> Reading:
        return Reading(self.codes | other.codes, self.guards + other.guards)


NOTHING = Reading({})

Needs = str | Sequence[Code]
"""What a configuration must hold: "everything", the "parameters" (constants may be missing), or nothing; then a code for
each parameter says which branch is meant where several fit."""


class Reader:
    """Reads codes out of configurations.

    Args:
        node: the template.
        names: a name per parameter, for messages.
        domains: a domain per parameter.
        objects: what Tune's placeholders stand for, by hash, as far as that is known.
    """

    def __init__(self, node: Node, names: Sequence[str], domains: Sequence[Domain], objects: dict[str, Seen]) -> None:
        self.node, self.names, self.domains, self.objects = node, names, domains, objects

    def read(self, config: Any) -> Reading:
        """What `config` holds; raises `ConfigurationError` where it does not fit.

        Constants may be left out where that leaves no doubt. Whether guarded keys are rightly present or absent is the
        caller's question.
        """
        try:
            return self._read(self.node, config, "", "everything")
        except ConfigurationError as error:
            try:
                return self._read(self.node, config, "", "parameters")
            except ConfigurationError:
                raise error from None

    def partial(self, config: Any, preferred: Sequence[Code]) -> Reading:
        """What `config` holds, which may lack anything; of several branches that fit, the preferred one is meant."""
        return self._read(self.node, config, "", preferred)

    def _read(self, node: Node, value: Any, where: str, needs: Needs) -> Reading:
        if isinstance(node, Guard):
            return self._read(node.node, value, where, needs)
        if isinstance(node, Fixed):
            if not same(node.value, value) and match(node.value, value, self.objects) is Match.NO:
                raise MismatchError(where, f"is the constant {name_of(node.value)} in the space, got {name_of(value)}.")
            return NOTHING
        if isinstance(node, Leaf):
            domain = self.domains[node.parameter]
            try:
                return Reading({node.parameter: domain.accept(value)})
            except ValueError as error:
                code = category_of(domain, value, self.objects)
                if code is None:
                    unseen = isinstance(domain, Categorical) and any(holds_hidden(choice) for choice in domain.choices)
                    raise OutOfDomainError(where or self.names[node.parameter], f"{error}.", HIDING if unseen else "") from None
                return Reading({node.parameter: code})
        if isinstance(node, Branch):
            return self._branch(node, value, where, needs)
        if isinstance(node, Mapping):
            return self._mapping(node, value, where, needs)
        if not isinstance(value, (list, tuple)) or len(value) != len(node.items):
            raise MismatchError(where, f"expected a sequence of {len(node.items)} values, got {name_of(value)}.")
        found = NOTHING
        for k, (item, entry) in enumerate(zip(node.items, value, strict=True)):
            found |= self._read(item, entry, f"{where}[{k}]", needs)
        return found

    def _mapping(self, node: Mapping, value: Any, where: str, needs: Needs) -> Reading:
        if not isinstance(value, dict):
            raise MismatchError(where or "configuration", f"expected a dict, got {name_of(value)}.")
        value = _renamed(value, [key for key, _ in node.items])
        for key, item in node.items:  # constants first: they tell the branches apart
            if isinstance(item, Fixed) and key in value:
                self._read(item, value[key], _join(where, key), needs)
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
                found |= self._read(item, value[key], _join(where, key), needs)
            elif not isinstance(item, Guard) and self._needed(item, needs):
                raise MissingKeyError(_join(where, key), "is missing.", "Give every key that is active in this branch.")
        return found

    def _needed(self, item: Node, needs: Needs) -> bool:
        return needs == "everything" or (needs == "parameters" and not _constant(item))

    def _branch(self, node: Branch, value: Any, where: str, needs: Needs) -> Reading:
        errors: dict[int, ConfigurationError] = {}
        first = None if isinstance(needs, str) else needs[node.parameter]
        for k, option in sorted(enumerate(node.options), key=lambda pair: pair[0] != first):
            try:
                return Reading({node.parameter: k}) | self._read(option, value, where, needs)
            except ConfigurationError as error:
                errors[k] = error
        near = [
            errors[k]
            for k, option in enumerate(node.options)
            if not isinstance(errors[k], MismatchError)
            and not (isinstance(option, Leaf) and isinstance(value, (dict, list, tuple)))
        ]
        if len(near) == 1:  # one branch fits but for this
            raise near[0]
        reasons = "; ".join(f"branch {k}: {error}" for k, error in sorted(errors.items())[:6])
        raise OutOfDomainError(where, f"{name_of(value)} fits none of the branches ({reasons}).")


def category_of(domain: Domain, value: Any, objects: dict[str, Seen], hint: str = "") -> int | None:
    """The code of a category that is hidden behind a placeholder; None if it is none, or in doubt."""
    if not isinstance(domain, Categorical):
        return None
    fits = [match(choice, value, objects, hint) for choice in domain.choices]
    best = max(fits)
    return fits.index(best) if best is Match.YES or (best is Match.MAYBE and fits.count(best) == 1) else None


def _constant(node: Node) -> bool:
    if isinstance(node, (Mapping, Listing)):
        items = [item for _, item in node.items] if isinstance(node, Mapping) else node.items
        return all(_constant(item) for item in items)
    return isinstance(node, Fixed)


def _renamed(config: dict[Any, Any], keys: Sequence[Any]) -> dict[Any, Any]:
    """A dict with the given keys where it has their text instead: JSON knows no other keys."""
    texts = {str(key): key for key in keys if not isinstance(key, str) and key not in config and str(key) in config}
    return {texts.get(key, key): value for key, value in config.items()} if texts else config


def _join(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)
