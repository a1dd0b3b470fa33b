"""Ray Tune domains to raytree domains. All knowledge of `ray.tune.search.sample` lives here.

The structure (dicts, lists, tuples, constants, Tune's placeholders for objects) is left as it is: `Space` understands it.
Tune's own rules are kept: an integer upper bound is exclusive unless quantised by more than 1, quantised values are
multiples of q, a quantised float is the nearest multiple to a (log-)uniform one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from math import ceil, floor, isclose
from typing import Any

from ray.tune.search import sample as tune

from raytree.errors import BoundsError, SpaceError, SpaceTooLargeError, UnsupportedDomainError
from raytree.space import Categorical, Conditional, Constant, Float, Integer, Normal, Space
from raytree.space.build import MAX_DEPTH
from raytree.space.configspace import from_configspace
from raytree.space.parameters import DOMAINS


def to_space(structure: Any) -> Space:
    """The `Space` of a nested Tune space or a ConfigurationSpace; raises `SpaceError` where it cannot be searched."""
    if type(structure).__module__.split(".")[0] == "ConfigSpace":
        return from_configspace(structure)
    return structure if isinstance(structure, Space) else Space(convert(structure))


def convert(value: Any, where: str = "", above: tuple[int, ...] = ()) -> Any:
    """`value` with every Tune domain replaced; `where` and `above` are its path and the containers around it."""
    if id(value) in above:
        raise SpaceError(where, "the structure contains itself.", "Copy the part that repeats.")
    if len(above) > MAX_DEPTH:
        raise SpaceTooLargeError(where, f"nested more than {MAX_DEPTH} deep.", "Flatten the space.")
    inside = (*above, id(value))
    if isinstance(value, dict):
        if set(value) == {"grid_search"}:
            raise UnsupportedDomainError(
                where, "tune.grid_search lists values for a grid; a searcher chooses them.", "Use tune.choice([...])."
            )
        return {key: convert(item, f"{where}.{key}" if where else str(key), inside) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(convert(item, f"{where}[{k}]", inside) for k, item in enumerate(value))
    if isinstance(value, (Float, Integer, Normal, Conditional, Constant)):  # raytree's own
        return value
    if isinstance(value, Categorical):  # raytree's own, which may hold Tune domains
        return Categorical([convert(item, f"{where}[{k}]", inside) for k, item in enumerate(value.choices)], value.ordered)
    if not isinstance(value, tune.Domain):
        place = find_domain(value, where)
        if place is not None:
            raise UnsupportedDomainError(
                place,
                f"a domain inside a {type(value).__name__} is never resolved.",
                "Put domains into a plain dict, list or tuple, and make the other container from them in the trainable.",
            )
        return value
    try:
        return _domain(value, where, inside)
    except BoundsError as error:
        raise BoundsError(where, f"{error.where}: {error.problem}", error.remedy) from None


def find_domain(value: Any, where: str, depth: int = 0) -> str | None:
    """The place of a domain in a container that is none of Tune's: a set, a named tuple, a dataclass, a subclass of list."""
    if isinstance(value, (tune.Domain, *DOMAINS)):
        return where
    inside: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inside = ((f"{where}.{key}", item) for key, item in value.items())
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        inside = ((f"{where}.{name}", item) for name, item in zip(value._fields, value, strict=False))
    elif isinstance(value, (list, tuple)):
        inside = ((f"{where}[{k}]", item) for k, item in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        inside = ((where, item) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        inside = ((f"{where}.{field.name}", getattr(value, field.name, None)) for field in fields(value))
    if depth > MAX_DEPTH:
        return None
    found = (find_domain(item, place, depth + 1) for place, item in inside)
    return next((place for place in found if place is not None), None)


def _domain(domain: tune.Domain, where: str, inside: tuple[int, ...]) -> Any:
    if isinstance(domain, tune.Function):
        raise UnsupportedDomainError(
            where,
            "tune.sample_from is a function; Bayesian search needs a domain.",
            "Use tune.uniform, tune.randint, tune.choice, ... or a constant.",
        )
    sampler = domain.get_sampler()
    q = None
    if isinstance(sampler, tune.Quantized):
        q, sampler = sampler.q, sampler.get_sampler() or domain.default_sampler_cls()
        if isinstance(q, bool) or not isinstance(q, (int, float)) or not q > 0:
            raise BoundsError(where, f"the quantisation q must be positive, got {q!r}.", "")
    log = isinstance(sampler, tune.LogUniform)
    if isinstance(domain, tune.Categorical):
        if isinstance(sampler, tune.Grid):
            raise UnsupportedDomainError(where, "a grid sampler lists values; a searcher chooses them.", "Use tune.choice.")
        return Categorical([convert(item, f"{where}[{k}]", inside) for k, item in enumerate(domain.categories)])
    if isinstance(domain, tune.Float) and isinstance(sampler, tune.Normal):
        return Normal(sampler.mean, sampler.sd, q)
    if isinstance(domain, tune.Float) and isinstance(sampler, (tune.Uniform, tune.LogUniform)):
        if q is None:
            return Float(domain.lower, domain.upper, log)
        low, high = _index(domain.lower, q, ceil), _index(domain.upper, q, floor)
        return Float(low * q, high * q, log, q)
    if isinstance(domain, tune.Integer) and isinstance(sampler, (tune.Uniform, tune.LogUniform)):
        if q is None or q == 1:
            return Integer(domain.lower, domain.upper - 1, log)
        low, high = _index(domain.lower, q, ceil), _index(domain.upper, q, floor)
        return Integer(low * q, high * q, log, q)
    kind = f"{type(domain).__name__} with {type(sampler).__name__}"
    raise UnsupportedDomainError(where, f"raytree does not know the domain {kind}.", "Use one of the tune.* functions.")


def _index(bound: float, q: float, inwards: Any) -> int:
    """The multiple of q at a bound, or the next one inside."""
    scaled = bound / q
    return round(scaled) if isclose(scaled, round(scaled)) else inwards(scaled)
