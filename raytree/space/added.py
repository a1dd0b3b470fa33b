"""A parameter that a method adds to the user's space, under a key of its own in every configuration: a seed, a fraction."""

from __future__ import annotations

from typing import Any, NamedTuple

from raytree.errors import SettingError, SpaceError
from raytree.space.parameters import Domain
from raytree.space.tree import Space


class Added(NamedTuple):
    """The parameter.

    Args:
        setting: the setting that names the key.
        key: the key.
        domain: what the parameter can be.
    """

    setting: str
    key: str
    domain: Domain

    def to(self, space: Space) -> Space:
        """The space with the parameter as its last one."""
        if not isinstance(self.key, str) or not self.key:
            raise SettingError(self.setting, f"must be a name, got {self.key!r}.")
        if not isinstance(space.structure, dict):
            raise SpaceError("space", f"must be a dict, so that {self.key!r} has a place in it.", "Wrap it in a dict.")
        if self.key in space.structure:
            raise SpaceError(self.key, "is a key that the searcher adds.", f"Leave it out, or give another {self.setting}.")
        return Space({**space.structure, self.key: self.domain})

    def without(self, config: Any) -> Any:
        """A configuration without the parameter."""
        return {key: value for key, value in config.items() if key != self.key} if isinstance(config, dict) else config
