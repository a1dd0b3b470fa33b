"""The point of a trial that nobody here suggested, from the configuration in its result.

Tune starts errored trials again under new ids; all that is known of such a trial is what it reports. There its
configuration is flat (see `flat`), holds constants that are none of the space's business, and holds objects where the space
has placeholders. So only searched values are compared, and constants where they tell branches apart.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass, replace
from typing import Any

from raytree.errors import ConfigurationError, MissingKeyError, OutOfDomainError
from raytree.space.alike import Match, match
from raytree.space.conditions import satisfied
from raytree.space.flat import flatten
from raytree.space.naming import name_of
from raytree.space.parameters import Code, Domain
from raytree.space.template import Branch, Fixed, Guard, Leaf, Listing, Mapping, MismatchError, Node, Point, category_of
from raytree.space.tree import Space

_ABSENT = object()


@dataclass(frozen=True)
class _Found:
    """Codes by parameter, how many keys of the configuration they explain, how many of the branch's constants it lacks, and
    whether that is certain."""

    codes: dict[int, Code]
    explained: int
    certain: bool = True
    lacking: int = 0

    def __or__(self, other: _Found) -> _Found:
        explained, lacking = self.explained + other.explained, self.lacking + other.lacking
        return _Found(self.codes | other.codes, explained, self.certain and other.certain, lacking)

    @property
    def fit(self) -> tuple[int, int]:
        """How well the configuration fits."""
        return self.explained, -self.lacking


_NOTHING = _Found({}, 0)


def recover(space: Space, config: Dict[str, Any], hint: str = "") -> Point:
    """The point of a configuration, whatever else is in it.

    Args:
        space: the search space.
        config: nested, or flat as in Tune's results.
        hint: a text that names the placeholders of the configuration by their hashes, such as Tune's experiment tag.

    Raises:
        ConfigurationError: where a searched value is missing, is outside its domain, or fits several branches alike.
    """
    found = _Search(space, hint).node(space.template, flatten(config), "", False).codes
    point: list[Code | None] = [None] * space.d
    cell_of: dict[int, int] = {}
    for i in space.order:
        name, _, condition = space.parameters[i]
        if not satisfied(condition, cell_of):
            continue
        if i not in found:
            raise MissingKeyError(name, "is missing although it is active.", "Give it a value.")
        point[i] = found[i]
        if i in space.cells:
            cell_of[i] = space.cells[i].index(found[i])
    return tuple(point)


class _Search:
    def __init__(self, space: Space, hint: str) -> None:
        self.space, self.hint = space, hint if "_ph_" in hint else ""
        self.domains = [parameter.domain for parameter in space.parameters]

    def node(self, node: Node, flat: dict[str, Any], at: str, inside: bool) -> _Found:
        """What is found at a key of a flat configuration; `inside` a branch, constants must fit."""
        if isinstance(node, Guard):
            try:
                return self.node(node.node, flat, at, inside)
            except ConfigurationError:
                return _NOTHING  # inactive, or wrong: the conditions tell
        if isinstance(node, Mapping):
            found = _NOTHING
            for key, item in node.items:
                found |= self.node(item, flat, f"{at}/{key}" if at else str(key), inside)
            return found
        if isinstance(node, Branch):
            return self._branch(node, flat, at)
        value = _value(flat, at)
        if isinstance(node, Fixed):
            return self._constant(node, value, at) if inside else _NOTHING
        if isinstance(node, Leaf):
            return self._leaf(node, value, at)
        return self._listing(node, value, at, inside)

    def _constant(self, node: Fixed, value: Any, at: str) -> _Found:
        if value is _ABSENT:
            return _Found({}, 0, lacking=0 if _is_empty(node.value) else 1)
        fit = self._match(node.value, value)
        if fit is Match.NO:
            raise MismatchError(at, "is another constant in this branch.")
        return _Found({}, _size(value), fit is Match.YES)

    def _match(self, wanted: Any, value: Any) -> Match:
        """How well a value fits one of the space; dicts are compared flat."""
        if isinstance(wanted, dict) and isinstance(value, dict):
            wanted, value = flatten(wanted), flatten(value)
        return match(wanted, value, self.space.objects, self.hint)

    def _leaf(self, node: Leaf, value: Any, at: str) -> _Found:
        domain = self.domains[node.parameter]
        dicts = [k for k, choice in enumerate(getattr(domain, "choices", ())) if isinstance(choice, dict)]
        if value is _ABSENT:
            if not any(_is_empty(domain.render(k)) for k in dicts):
                raise MissingKeyError(at, "is missing.", "")
            value = {}
        if isinstance(value, dict):
            fits = [k for k in dicts if self._match(domain.render(k), value) is Match.YES]
            code: Code | None = fits[0] if fits else None
        else:
            code = self._code(domain, value)
        if code is None:
            raise OutOfDomainError(at, f"{name_of(value)} is not in {domain.describe()}.")
        return _Found({node.parameter: code}, _size(value))

    def _code(self, domain: Domain, value: Any) -> Code | None:
        try:
            return domain.accept(value)
        except ValueError:
            return category_of(domain, value, self.space.objects, self.hint)

    def _listing(self, node: Listing, value: Any, at: str, inside: bool) -> _Found:
        if not isinstance(value, (list, tuple)) or len(value) != len(node.items):
            if inside or any(not isinstance(item, Fixed) for item in node.items):
                raise MismatchError(at, f"is no sequence of {len(node.items)} values.")
            return _NOTHING
        found = _NOTHING
        for k, (item, entry) in enumerate(zip(node.items, value, strict=True)):
            found |= self.node(item, flatten(entry, str(k)), str(k), inside)
        return replace(found, explained=1)

    def _branch(self, node: Branch, flat: dict[str, Any], at: str) -> _Found:
        """The option that explains most of what is there and lacks least; of equals the first, unless each may be it."""
        fits: list[tuple[int, _Found]] = []
        there = sum(key == at or key.startswith(f"{at}/") for key in flat)
        for k, option in enumerate(node.options):
            if isinstance(option, Fixed) and not there and not _is_empty(option.value):
                continue
            try:
                fits.append((k, self.node(option, flat, at, True)))
            except ConfigurationError:
                continue
        best = max((found.fit for _, found in fits), default=(0, 0))
        leading = [(k, found) for k, found in fits if found.fit == best]
        certain = [(k, found) for k, found in leading if found.certain]
        if not fits or (there and not best[0]):
            raise OutOfDomainError(at, "fits none of the branches.")
        if not certain and len(leading) > 1:
            raise OutOfDomainError(at, "fits several branches, which differ by objects that no trial has shown yet.")
        k, found = (certain or leading)[0]
        return replace(found, codes={node.parameter: k, **found.codes})


def _value(flat: dict[str, Any], at: str) -> Any:
    """What stands at a key: a value, a flat dict of what stands below it, or `_ABSENT`."""
    if at in flat:
        return flat[at]
    below = {key[len(at) + 1 :]: value for key, value in flat.items() if key.startswith(f"{at}/")}
    return below or _ABSENT


def _is_empty(value: Any) -> bool:
    """Whether a value vanishes from a flat configuration."""
    return isinstance(value, dict) and not flatten(value)


def _size(value: Any) -> int:
    """How many flat keys a value takes."""
    return len(flatten(value)) if isinstance(value, dict) else 1
