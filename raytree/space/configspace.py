"""Spaces to and from ConfigSpace, an optional dependency (`pip install raytree[configspace]`).

ConfigSpace is flat: nested parameters keep their names (`model[0].C`), branches become categories named by their labels, and
conditions say which branch a parameter is in. Stepped domains, which ConfigSpace has no word for, become ordinals and are
recognised on the way back by their `meta`. Forbidden clauses are refused: nothing here could keep them.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from raytree.errors import SpaceError, UnsupportedDomainError
from raytree.space.conditions import Clause, Conditional, Test
from raytree.space.parameters import Categorical, Domain, Float, Integer, Normal
from raytree.space.tree import Space

logger = logging.getLogger("raytree")

_META = "raytree"
_MAX_ORDINAL = 10_000


def _library() -> Any:
    try:
        import ConfigSpace
    except ImportError:
        raise SpaceError("ConfigSpace", "is not installed.", "pip install raytree[configspace]") from None
    return ConfigSpace


def from_configspace(source: Any) -> Space:
    """The `Space` of a ConfigurationSpace.

    Raises:
        SpaceError: for forbidden clauses and for distributions that have no counterpart, by name.
    """
    library = _library()
    if source.forbidden_clauses:
        raise SpaceError(
            str(source.forbidden_clauses[0]), "forbidden clauses cannot be kept.", "Remove them, or report a bad value there."
        )
    structure: dict[str, Any] = {}
    for parameter in source.values():
        structure[parameter.name] = _domain(library, parameter)
    clauses: dict[str, list[tuple[Test, ...]]] = {}
    for condition in source.conditions:
        name = condition.child.name if hasattr(condition, "child") else condition.components[0].child.name
        lowered = _clauses(library, condition)
        known = clauses.get(name)
        clauses[name] = lowered if known is None else [a + b for a in known for b in lowered]
    for name, alternatives in clauses.items():
        structure[name] = Conditional(tuple(alternatives), structure[name])
    return Space(structure)


def default_configuration(source: Any) -> dict[str, Any]:
    """ConfigSpace's default configuration as a dict of the active keys, to be given as a point to evaluate."""
    space = from_configspace(source)
    defaults = dict(source.get_default_configuration())
    configuration: dict[str, Any] = space.config(space.point({key: _plain(value) for key, value in defaults.items()}))
    return configuration


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _domain(library: Any, parameter: Any) -> Any:
    stored = (parameter.meta or {}).get(_META)
    if isinstance(parameter, library.UniformFloatHyperparameter):
        low, high = float(parameter.lower), float(parameter.upper)
        if stored and math.isclose(low, stored["lower"], abs_tol=1e-9) and math.isclose(high, stored["upper"], abs_tol=1e-9):
            low, high = stored["lower"], stored["upper"]
        return Float(low, high, bool(parameter.log))
    if isinstance(parameter, library.UniformIntegerHyperparameter):
        return Integer(int(parameter.lower), int(parameter.upper), bool(parameter.log))
    if isinstance(parameter, library.OrdinalHyperparameter):
        values = [_plain(value) for value in parameter.sequence]
        if stored:
            kinds: dict[str, Any] = {"Float": Float, "Integer": Integer, "Normal": Normal}
            return kinds[stored["kind"]](**{key: value for key, value in stored.items() if key != "kind"})
        return Categorical(values, ordered=True)
    if isinstance(parameter, library.CategoricalHyperparameter):
        weights = getattr(parameter, "probabilities", None)
        if weights is not None and max(weights) - min(weights) > 1e-9:
            logger.warning("raytree: %s has weighted categories; raytree takes them as equally likely", parameter.name)
        return Categorical([_plain(value) for value in parameter.choices])
    if isinstance(parameter, library.Constant):
        return _plain(parameter.value)
    raise UnsupportedDomainError(
        parameter.name, f"raytree does not know {type(parameter).__name__}.", "Use a uniform, categorical or ordinal one."
    )


def _clauses(library: Any, condition: Any) -> list[tuple[Test, ...]]:
    """A condition as alternatives of tests that must all hold."""
    if isinstance(condition, library.AndConjunction):
        result: list[tuple[Test, ...]] = [()]
        for part in condition.components:
            result = [a + b for a in result for b in _clauses(library, part)]
        return result
    if isinstance(condition, library.OrConjunction):
        return [clause for part in condition.components for clause in _clauses(library, part)]
    operators = {
        library.EqualsCondition: "eq", library.NotEqualsCondition: "ne", library.InCondition: "isin",
        library.LessThanCondition: "lt", library.GreaterThanCondition: "gt",
    }  # fmt: skip
    operator = operators.get(type(condition))
    if operator is None:
        raise SpaceError(str(condition), f"raytree does not know {type(condition).__name__}.", "")
    value = [_plain(v) for v in condition.values] if operator == "isin" else _plain(condition.value)
    return [(Test(condition.parent.name, operator, value),)]


def to_configspace(space: Space, name: str | None = None) -> Any:
    """A ConfigurationSpace with the parameters of a space under their names; see `named_values` for configurations."""
    library = _library()
    target = library.ConfigurationSpace(name=name)
    made = [_hyperparameter(library, space, i) for i in range(space.d)]
    target.add(made)
    for i, parameter in enumerate(space.parameters):
        alternatives = [_conjunction(library, space, made, i, clause) for clause in parameter.condition if clause]
        if len(alternatives) == 1:
            target.add(alternatives[0])
        elif alternatives:
            target.add(library.OrConjunction(*alternatives))
    return target


def _hyperparameter(library: Any, space: Space, i: int) -> Any:
    name, domain, _ = space.parameters[i]
    if isinstance(domain, Categorical):
        values = list(domain.choices)
        if i in space.cells and not all(isinstance(v, (str, int, float)) for v in values):
            values = list(space.cells[i].labels)
        elif not all(isinstance(v, (str, int, float)) for v in values) or len(set(map(str, values))) < len(values):
            values = [f"#{k}" for k in range(len(values))]
        kind = library.OrdinalHyperparameter if domain.ordered else library.CategoricalHyperparameter
        return kind(name, values)
    assert isinstance(domain, (Float, Integer, Normal))
    meta = {_META: {"kind": type(domain).__name__, **{key: getattr(domain, key) for key in domain.__dataclass_fields__}}}
    if isinstance(domain, Integer) and domain.step == 1:
        return library.UniformIntegerHyperparameter(name, domain.lower, domain.upper, log=domain.log)
    if isinstance(domain, Float) and domain.step is None:  # ConfigSpace rounds bounds; the meta keeps them
        return library.UniformFloatHyperparameter(name, domain.lower, domain.upper, log=domain.log, meta=meta)
    if math.isinf(domain.size) or domain.size > _MAX_ORDINAL:
        raise UnsupportedDomainError(name, f"ConfigSpace has no {domain.describe()}.", "Use a bounded domain.")
    return library.OrdinalHyperparameter(name, list(domain.codes()), meta=meta)


def _conjunction(library: Any, space: Space, made: list[Any], child: int, clause: Clause) -> Any:
    parts = [_membership(library, space, made, child, j, sorted(cells)) for j, cells in clause]
    return parts[0] if len(parts) == 1 else library.AndConjunction(*parts)


def _membership(library: Any, space: Space, made: list[Any], child: int, j: int, chosen: list[int]) -> Any:
    """The condition that decision j is in one of the chosen cells."""
    domain, cells, parent = space.parameters[j].domain, space.cells[j], made[j]
    if hasattr(parent, "choices") or hasattr(parent, "sequence"):
        every = list(parent.choices if hasattr(parent, "choices") else parent.sequence)
        if isinstance(domain, Categorical):
            values = [every[k] for k in chosen]
        else:
            values = [v for v in every if cells.index(domain.accept(_plain(v))) in chosen]
        if len(values) == 1:
            return library.EqualsCondition(made[child], parent, values[0])
        return library.InCondition(made[child], parent, values)
    intervals = []
    for k in chosen:
        parts = []
        if k > 0:
            parts.append(_above(library, made[child], parent, domain, *cells.cuts[k - 1]))
        if k < len(cells) - 1:
            parts.append(_below(library, made[child], parent, domain, *cells.cuts[k]))
        intervals.append(parts[0] if len(parts) == 1 else library.AndConjunction(*parts))
    return intervals[0] if len(intervals) == 1 else library.OrConjunction(*intervals)


def _above(library: Any, child: Any, parent: Any, domain: Domain, cut: float, after: bool) -> Any:
    if isinstance(domain, Integer):
        return library.GreaterThanCondition(child, parent, math.floor(cut))
    strict = library.GreaterThanCondition(child, parent, cut)
    return strict if after else library.OrConjunction(strict, library.EqualsCondition(child, parent, cut))


def _below(library: Any, child: Any, parent: Any, domain: Domain, cut: float, after: bool) -> Any:
    if isinstance(domain, Integer):
        return library.LessThanCondition(child, parent, math.ceil(cut))
    strict = library.LessThanCondition(child, parent, cut)
    return library.OrConjunction(strict, library.EqualsCondition(child, parent, cut)) if after else strict


def named_values(space: Space, config: Any) -> dict[str, Any]:
    """A configuration of a space as ConfigSpace's flat values, for a space that `to_configspace` made."""
    library = _library()
    point = space.point(config)
    values: dict[str, Any] = {}
    for i, code in enumerate(point):
        if code is None:
            continue
        domain, made = space.parameters[i].domain, _hyperparameter(library, space, i)
        if isinstance(domain, Categorical):
            values[made.name] = list(made.choices if hasattr(made, "choices") else made.sequence)[int(code)]
        else:
            values[made.name] = code
    return values
