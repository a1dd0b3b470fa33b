"""What Tune hides from a searcher: the objects and functions behind its placeholders, learnt from results.

A trial reports the configuration that it got, objects and all. So the first trial that holds an object shows what its
placeholder stands for, for all of them; what a `tune.sample_from` gave is known trial by trial.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from raytree.optimizer import Optimizer
from raytree.space.flat import flatten
from raytree.space.naming import HIDDEN_FUNCTION, Seen, hidden, name_of, revealed

_IN_TEXT = re.compile(r"\('__(?:ref|fn)_ph', '([0-9a-f]+)'\)")


class Hidden:
    """The objects by their placeholders' hashes, and by trial what its functions gave."""

    def __init__(self) -> None:
        self.objects: dict[str, Seen] = {}
        self._sampled: dict[str, dict[str, Seen]] = {}
        self.exchanged: list[str] = []
        """What a restored search knew by name and signature, and is another object now."""

    def learn(self, trial_id: str, suggested: Any, got: Mapping[str, Any]) -> bool:
        """Compares a suggested configuration with what the trial got, nested or flat; returns whether an object is new."""
        news = False
        for placeholder, value in _pairs(flatten(suggested), flatten(got)):
            key = hidden(placeholder)
            assert key is not None
            if placeholder[0] == HIDDEN_FUNCTION:
                self._sampled.setdefault(trial_id, {})[key] = Seen.of(value)
            elif key not in self.objects or self.objects[key].value is None:
                seen, before = Seen.of(value), self.objects.get(key)
                if before is not None and before.signature != seen.signature:
                    self.exchanged.append(f"{before.name} is now {seen.name}")
                self.objects[key] = seen
                news = True
        return news

    def tell(self, optimizer: Optimizer) -> None:
        """Lets the spaces of an optimizer name its objects."""
        for space in (optimizer.space, optimizer.given_space):
            space.reveal(self.objects)

    def shown(self, config: Any, trial_id: str) -> Any:
        """A configuration as its trial got it."""
        return revealed(config, {**self.objects, **self._sampled.get(trial_id, {})})

    def in_text(self, text: str) -> str:
        """A text with names in the place of placeholders."""
        return _IN_TEXT.sub(lambda found: name_of(("__ref_ph", found[1]), self.objects), text)

    def state(self) -> list[list[str]]:
        """What objects are recognised by, for a file: hash, name and signature of each."""
        return [[key, seen.name, seen.signature] for key, seen in self.objects.items()]

    @classmethod
    def from_state(cls, state: Any, known: Hidden) -> Hidden:
        """The inverse of `state`, with the objects that are at hand; raises `ValueError` for anything else."""
        made = cls()
        for key, name, signature in state:
            if not all(isinstance(part, str) for part in (key, name, signature)):
                raise ValueError("expected names and signatures")
            made.objects[key] = known.objects.get(key, Seen(name, signature))
        return made


def _pairs(suggested: Mapping[str, Any], got: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Placeholders in a flat configuration with what stands in their place in another."""
    for key, value in suggested.items():
        if key in got:
            yield from _inside(value, got[key])
        elif hidden(value) is not None:  # a dict, which is flat too
            below = {name[len(key) + 1 :]: item for name, item in got.items() if name.startswith(f"{key}/")}
            if below:
                yield value, below


def _inside(value: Any, actual: Any) -> Iterator[tuple[Any, Any]]:
    if hidden(value) is not None:
        if hidden(actual) is None:
            yield value, actual
    elif isinstance(value, (list, tuple)) and isinstance(actual, (list, tuple)) and len(value) == len(actual):
        for one, other in zip(value, actual, strict=True):
            yield from _inside(one, other)
    elif isinstance(value, dict) and isinstance(actual, dict):
        for key, item in value.items():
            if key in actual:
                yield from _inside(item, actual[key])
