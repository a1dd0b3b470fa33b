"""Domains: what one parameter may be, and its map to and from the unit interval.

Every domain knows three forms of a value:

- *raw*: what the user's function receives (`0.1`, `"relu"`, `{"kind": "gnb"}`);
- *code*: a plain number, `float` or `int`; a category's code is its position, so any object can be a category;
- *unit*: a float in [0, 1] such that a uniform unit has the distribution Ray Tune would sample from.

Discrete domains own an interval of units for each code; `unit(code)` is the canonical point inside it and `snap` moves
any unit to the canonical one. `None` stands for "inactive" elsewhere and is never a code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from raytree.errors import BoundsError
from raytree.lazy import special
from raytree.space.alike import alike
from raytree.space.naming import name_of

Array = NDArray[np.float64]
Code = int | float

MAX_LEVELS = 2**53  # beyond, a float64 unit cannot tell neighbouring integers apart
_TAIL = 4.0  # a normal domain is searched within this many standard deviations
_GRID_TOLERANCE = 1e-9  # relative to the step: how far from its grid a value given by hand may be


@runtime_checkable
class Domain(Protocol):
    """What the space needs from a domain. Codes are scalars, units are arrays of any shape."""

    @property
    def size(self) -> float:
        """Number of different values; infinite for continuous domains."""

    def accept(self, raw: Any) -> Code:
        """The code of a raw value; raises `ValueError` with the reason when it is outside the domain."""

    def render(self, code: Code) -> Any:
        """The raw value of a code."""

    def unit(self, code: Code) -> float:
        """The canonical unit of a code."""

    def code(self, unit: float) -> Code:
        """The code whose interval holds `unit`."""

    def snap(self, units: Array) -> Array:
        """The canonical unit of each unit; the identity for continuous domains."""

    def codes(self) -> Iterator[Code]:
        """Every code of a finite domain, equal categories once."""

    def describe(self) -> str:
        """A few characters for drawings and messages."""


def _number(raw: Any, what: str) -> float:
    if isinstance(raw, (bool, np.bool_)) or not isinstance(raw, (int, float, np.integer, np.floating)):
        raise ValueError(f"expected {what}, got {raw!r}")
    if not math.isfinite(raw):
        raise ValueError(f"expected a finite number, got {raw!r}")
    return float(raw)


def _require_numbers(where: str, *bounds: Any) -> None:
    for bound in bounds:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating))):
            raise BoundsError(where, f"bounds and steps must be numbers, got {bound!r}.", "")


def _settle(domain: Any, kind: type, *names: str) -> None:
    """Plain Python numbers in place of numpy's, so that equal domains are equal and can be stored."""
    for name in names:
        value = getattr(domain, name)
        object.__setattr__(domain, name, None if value is None else kind(value))


def tidy(value: float, step: float) -> float:
    """A multiple of a step without the last digits that multiplying leaves behind (0.30000000000000004 becomes 0.3)."""
    beyond = math.ceil(math.log10(abs(value) / step)) if value else 0  # digits before those of the step
    return float(f"{value:.{min(17, 12 + max(0, beyond))}g}")


def _show(value: float) -> str:
    return f"{value:g}"


@dataclass(frozen=True)
class Float:
    """A real number in [lower, upper], on a log scale or on a grid `lower, lower + step, ...` if asked.

    On a grid, a value is the nearest grid point to a (log-)uniform one, as Tune's quantised floats are: the two ends own
    half an interval.

    Args:
        lower: the least value.
        upper: the largest value, included.
        log: whether the logarithm is searched evenly; `lower` must then be above 0.
        step: the distance of two values; any value if None.
    """

    lower: float
    upper: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _require_numbers("float", self.lower, self.upper, self.step)
        _settle(self, float, "lower", "upper", "step")
        where = self.describe()
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise BoundsError(where, "both bounds must be finite.", "For an unbounded value use a normal domain.")
        if self.lower > self.upper:
            raise BoundsError(where, "the lower bound is above the upper one.", "Swap them.")
        if not math.isfinite(self.upper - self.lower):
            raise BoundsError(where, "the range overflows a float.", "Use a log scale or narrower bounds.")
        if self.log and self.lower <= 0:
            raise BoundsError(where, "a log scale needs a lower bound above 0.", "Use a small positive bound.")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0):
            raise BoundsError(where, f"the step must be positive, got {self.step}.", "Give the distance of two values.")
        if self.step is not None and (self.upper - self.lower) / self.step >= MAX_LEVELS:
            raise BoundsError(where, "the step is too small for the range.", "Leave the step out.")

    @cached_property
    def size(self) -> float:
        if self.lower == self.upper:
            return 1
        return self._last + 1 if self.step is not None else math.inf

    @cached_property
    def _last(self) -> int:
        assert self.step is not None
        return math.floor((self.upper - self.lower) / self.step + _GRID_TOLERANCE)

    @cached_property
    def _top(self) -> float:
        """The largest value: the upper bound, or the last grid point below it."""
        return self.upper if self.step is None else min(self.upper, self._level(self._last))

    def _level(self, k: int) -> float:
        assert self.step is not None
        return tidy(self.lower + k * self.step, self.step)

    def accept(self, raw: Any) -> float:
        value = _number(raw, "a number")
        if not self.lower <= value <= self.upper:
            raise ValueError(f"{value!r} is outside {self.describe()}")
        if self.step is None:
            return value
        k = round((value - self.lower) / self.step)
        if abs(self.lower + k * self.step - value) > _GRID_TOLERANCE * max(self.step, abs(value)) or k > self._last:
            raise ValueError(f"{value!r} is not on the grid {self.describe()}")
        return self._level(k)

    def render(self, code: Code) -> float:
        return float(code)

    def unit(self, code: Code) -> float:
        return float(self._forward(np.float64(code)))

    def code(self, unit: float) -> float:
        value = min(max(float(self._backward(np.float64(unit))), self.lower), self._top)
        if self.step is None:
            return value
        return self._level(round((value - self.lower) / self.step))

    def snap(self, units: Array) -> Array:
        if self.step is None:
            return np.clip(units, 0.0, 1.0)
        k = np.clip(np.rint((self._backward(units) - self.lower) / self.step), 0, self._last)
        return np.asarray(self._forward(self.lower + k * self.step))

    def _forward(self, value: Any) -> Any:
        if self._top == self.lower:
            return 0.5 + 0.0 * value
        if self.log:
            u = (np.log(value) - math.log(self.lower)) / (math.log(self._top) - math.log(self.lower))
        else:
            u = (value - self.lower) / (self._top - self.lower)
        return np.clip(u, 0.0, 1.0)

    def _backward(self, unit: Any) -> Any:
        if self.log:
            low, high = math.log(self.lower), math.log(self._top)
            value = np.exp(low + unit * (high - low))
        else:
            value = self.lower + unit * (self._top - self.lower)
        # The ends are exact: an optimum on the boundary is reached, not approached.
        return np.where(unit <= 0, self.lower, np.where(unit >= 1, self._top, value))

    def codes(self) -> Iterator[float]:
        return (self._level(k) for k in range(self._last + 1))

    def describe(self) -> str:
        kind = "log" if self.log else ""
        return f"{kind}[{_show(self.lower)}, {_show(self.upper)}]" + (f" step {_show(self.step)}" if self.step else "")


@dataclass(frozen=True)
class Integer:
    """An integer in {lower, lower + step, ..., upper}, both ends included; `log` favours small ones as Tune does.

    Tune draws a log-uniform integer as the floor of a log-uniform real below upper + 1 (in multiples of the step), so a
    value k owns a share proportional to log((k + step) / k).

    Args:
        lower: the least value.
        upper: the largest value, included.
        log: whether small values are favoured; `lower` must then be at least 1.
        step: the distance of two values.
    """

    lower: int
    upper: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        where = self.describe()
        for bound in (self.lower, self.upper, self.step):
            if isinstance(bound, bool) or not isinstance(bound, (int, np.integer)):
                raise BoundsError(where, f"integer bounds and step must be integers, got {bound!r}.", "Use Float.")
        _settle(self, int, "lower", "upper", "step")
        if self.step < 1:
            raise BoundsError(where, f"the step must be at least 1, got {self.step}.", "")
        if self.lower > self.upper:
            raise BoundsError(where, "there is no integer in this range.", "Mind that Tune's upper bound is exclusive.")
        if self.log and self.lower < 1:
            raise BoundsError(where, "a log scale needs a lower bound of at least 1.", "")
        if (self.upper - self.lower) // self.step >= MAX_LEVELS:
            raise BoundsError(where, "more values than a float can tell apart.", "Use Float, or a larger step.")

    @cached_property
    def size(self) -> float:
        return (self.upper - self.lower) // self.step + 1

    def accept(self, raw: Any) -> int:
        value = _number(raw, "an integer")
        if value != math.floor(value):
            raise ValueError(f"expected an integer, got {raw!r}")
        whole = int(raw)
        if not self.lower <= whole <= self.upper or (whole - self.lower) % self.step:
            raise ValueError(f"{whole} is not in {self.describe()}")
        return whole

    def render(self, code: Code) -> int:
        return int(code)

    def unit(self, code: Code) -> float:
        k = (int(code) - self.lower) // self.step
        return float((self._edge(k) + self._edge(k + 1)) / 2)

    def code(self, unit: float) -> int:
        return int(self.lower + int(self._index(np.float64(unit))) * self.step)

    def snap(self, units: Array) -> Array:
        k = self._index(units)
        return np.asarray((self._edge(k) + self._edge(k + 1)) / 2)

    def _edge(self, k: Any) -> Any:
        """The unit at which the interval of the k-th value begins."""
        if not self.log:
            return k / self.size
        first = self.lower / self.step
        return np.log((first + k) / first) / math.log((first + self.size) / first)

    def _index(self, unit: Any) -> Any:
        if self.log:
            first = self.lower / self.step
            k = np.floor(first * np.exp(unit * math.log((first + self.size) / first)) - first + 1e-9)
        else:
            k = np.floor(unit * self.size)
        return np.clip(k, 0, self.size - 1)

    def codes(self) -> Iterator[int]:
        return iter(range(self.lower, self.upper + 1, self.step))

    def describe(self) -> str:
        kind = "log int" if self.log else "int"
        return f"{kind}[{self.lower}, {self.upper}]" + (f" step {self.step}" if self.step != 1 else "")


@dataclass(frozen=True)
class Normal:
    """A real number with a normal prior, searched through its quantiles within four standard deviations of the mean.

    Values further out are accepted when the user gives them, and sit on the edge of the unit interval.

    Args:
        mean: the middle.
        sd: the standard deviation.
        step: the distance of two values; any value if None.
    """

    mean: float = 0.0
    sd: float = 1.0
    step: float | None = None

    def __post_init__(self) -> None:
        _require_numbers("normal", self.mean, self.sd, self.step)
        _settle(self, float, "mean", "sd", "step")
        where = self.describe()
        if not (math.isfinite(self.mean) and math.isfinite(self.sd) and self.sd > 0):
            raise BoundsError(where, "mean and sd must be finite and sd positive.", "")
        if self.step is not None and not (math.isfinite(self.step) and self.step > 0):
            raise BoundsError(where, f"the step must be positive, got {self.step}.", "")

    @cached_property
    def size(self) -> float:
        if self.step is None:
            return math.inf
        low, high = self.code(0.0), self.code(1.0)
        return round((high - low) / self.step) + 1

    def accept(self, raw: Any) -> float:
        value = _number(raw, "a number")
        if self.step is None:
            return value
        snapped = tidy(round(value / self.step) * self.step, self.step)
        if abs(snapped - value) > _GRID_TOLERANCE * max(self.step, abs(value)):
            raise ValueError(f"{value!r} is not a multiple of {self.step}")
        return snapped

    def render(self, code: Code) -> float:
        return float(code)

    def unit(self, code: Code) -> float:
        return float(special.ndtr(np.clip((code - self.mean) / self.sd, -_TAIL, _TAIL)))

    def code(self, unit: float) -> float:
        value = float(self.mean + self.sd * np.clip(special.ndtri(unit), -_TAIL, _TAIL))
        return value if self.step is None else tidy(round(value / self.step) * self.step, self.step)

    def snap(self, units: Array) -> Array:
        edge = float(special.ndtr(_TAIL))
        if self.step is None:
            return np.clip(units, 1 - edge, edge)
        values = self.mean + self.sd * np.clip(special.ndtri(units), -_TAIL, _TAIL)
        grid = np.rint(values / self.step) * self.step
        return np.asarray(special.ndtr(np.clip((grid - self.mean) / self.sd, -_TAIL, _TAIL)))

    def codes(self) -> Iterator[float]:
        assert self.step is not None
        first, step = self.code(0.0), self.step
        return (tidy(first + k * step, step) for k in range(int(self.size)))

    def describe(self) -> str:
        return f"normal({_show(self.mean)}, {_show(self.sd)})" + (f" step {_show(self.step)}" if self.step else "")


def same(a: Any, b: Any) -> bool:
    """Whether two raw values are the same value of the same kind, all the way down (`1`, `1.0` and `True` differ)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a is b or _equal(a, b)


def _equal(a: Any, b: Any) -> bool:
    """`a == b` as a plain bool, for objects whose equality may be an array or may raise."""
    try:
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return type(a) is type(b) and np.array_equal(a, b)
        return bool(np.all(a == b))
    except Exception:  # noqa: BLE001  a foreign __eq__ may raise anything; such objects are equal only if identical
        return False


@dataclass(frozen=True)
class Categorical:
    """One of a sequence of choices of any kind; a choice may itself contain domains, which makes this a decision.

    Args:
        choices: what to choose from; at least one.
        ordered: whether neighbours in the sequence are alike, as "small", "medium", "large" are.
    """

    choices: Sequence[Any]
    ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(self.choices))
        if not self.choices:
            raise BoundsError("categorical", "there is nothing to choose from.", "Give at least one category.")

    @cached_property
    def first(self) -> tuple[int, ...]:
        """For each choice, the position of the first choice equal to it: two equal categories are one value."""
        seen: list[int] = []
        by_key: dict[tuple[type, Any], int] = {}
        for k, choice in enumerate(self.choices):
            try:
                key = (type(choice), choice)
                seen.append(by_key.setdefault(key, k))
            except TypeError:  # unhashable: compare with each
                seen.append(next((j for j in seen if same(self.choices[j], choice)), k))
        return tuple(seen)

    @cached_property
    def size(self) -> float:
        return len(set(self.first))

    def accept(self, raw: Any) -> int:
        # 1 means 1 where both 1 and True are choices, and 1.0 where only 1.0 is; a list is a tuple after JSON
        for test in (same, _equal, alike):
            for k, choice in enumerate(self.choices):
                if test(choice, raw):
                    return k
        raise ValueError(f"{name_of(raw)} is not one of {self.describe()}")

    def render(self, code: Code) -> Any:
        return self.choices[int(code)]

    def unit(self, code: Code) -> float:
        return (int(code) + 0.5) / len(self.choices)

    def code(self, unit: float) -> int:
        return int(min(max(math.floor(unit * len(self.choices)), 0), len(self.choices) - 1))

    def snap(self, units: Array) -> Array:
        n = len(self.choices)
        return (np.clip(np.floor(units * n), 0, n - 1) + 0.5) / n

    def codes(self) -> Iterator[int]:
        return iter(sorted(set(self.first)))

    def describe(self) -> str:
        shown = ", ".join(name_of(choice) for choice in self.choices[:8])
        return "{" + shown + (", ..." if len(self.choices) > 8 else "") + "}"


@dataclass(frozen=True)
class Constant:
    """A value that is never searched, whatever it contains.

    Args:
        value: what configurations hold.
    """

    value: Any


DOMAINS = (Float, Integer, Normal, Categorical)
