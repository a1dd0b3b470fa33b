"""State files that somebody wants to hurt us with: a valid one with one place changed, under a checksum that fits."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from raytree import state as document

NASTY: list[Any] = [
    None, True, -1, 0, 10**400, 2**63, 1e308, -1e308, 5e-324, "", "x" * 5_000, "__import__('os')", "\ud800", [], {}, [[]],
    [None] * 3, {"a": {}}, [1e308] * 50, "NaN", "auto", -0.0,
]  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def places(value: Any, above: tuple = ()) -> Iterator[tuple]:
    """Where something stands inside a JSON value."""
    yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*above, key))


def changed(payload: dict, rng: np.random.Generator) -> dict:
    """The payload with something nasty in, or gone from, one place or two."""
    out = copy.deepcopy(payload)
    for _ in range(int(rng.integers(1, 3))):
        where = [place for place in places(out) if place]
        *above, last = where[int(rng.integers(len(where)))]
        target = out
        for key in above:
            target = target[key]
        if rng.random() < 0.15:
            del target[last]
        elif rng.random() < 0.1:
            target[last] = nested(int(rng.integers(10, 300)))
        else:
            target[last] = copy.deepcopy(NASTY[int(rng.integers(len(NASTY)))])
    return out


def files(text: str, rng: np.random.Generator, count: int) -> Iterator[bytes]:
    """Hostile versions of a state file: changed inside with a checksum that fits, cut, flipped, or something else altogether."""
    payload = json.loads(text)["payload"]
    content = text.encode()
    for k in range(count):
        kind = k % 10
        if kind < 7:
            try:
                yield document.write(changed(payload, rng)).encode()
            except (ValueError, UnicodeEncodeError):
                continue
        elif kind == 7:
            yield content[: int(rng.integers(len(content)))]
        elif kind == 8:
            flipped = bytearray(content)
            flipped[int(rng.integers(len(flipped)))] ^= 1 << int(rng.integers(8))
            yield bytes(flipped)
        else:
            yield [b"", b"\x80\x04\x95", b"{}", b"null", b"[" * 5000, rng.bytes(200), b'{"format": "raytree"}'][k // 10 % 7]
