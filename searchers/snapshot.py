"""A searcher in a file: what is written, and what is read back only if it is of the right kind."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

from raytree import state as document
from raytree.errors import DamagedStateError, StateError
from raytree.searchers.arguments import configurations, numbers
from raytree.searchers.elsewhere import Evaluation, History
from raytree.searchers.history import read_newest
from raytree.searchers.watch import Watch
from raytree.space.serial import dump, load, storable

logger = logging.getLogger("raytree")


class Snapshot(NamedTuple):
    """All of a searcher that outlives its process.

    Args:
        searcher: the name of its class.
        hidden: what Tune hides, see `Hidden.state`.
        optimizer: its state, once there is one.
        waiting: points and evaluations until then, see `Waiting`.
    """

    searcher: str
    metric: str | None
    mode: str | None
    time_attr: str | None
    max_concurrent: int | None
    own_space: bool | None
    hidden: list[Any] | None
    optimizer: dict[str, Any] | None
    waiting: dict[str, Any] | None


KINDS: dict[str, type] = {
    "metric": str,
    "mode": str,
    "time_attr": str,
    "max_concurrent": int,
    "hidden": list,
    "optimizer": dict,
    "waiting": dict,
}


def write(snapshot: Snapshot, path: Path, through: Path | None, watch: Watch) -> None:
    """One JSON document, whole or not at all; `through` is a folder for the unfinished file. A full disk is a warning.

    Raises:
        StateError: if there can be no such file.
    """
    try:
        document.replace(path, document.write(snapshot._asdict()), through)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise StateError(str(path), f"cannot be written ({error.strerror}).", "Check the path.") from None
    except OSError as error:
        message = "the search could not be saved to %s (%s); it goes on, and the last snapshot that was saved stays."
        watch.say("save", message, path, error.strerror)
    else:
        watch.over("save")


def read(path: Path, searcher: str) -> Snapshot:
    """The snapshot in a file; raises `StateError` if it is damaged, foreign, newer, or of another searcher."""
    return _checked(document.load(path), searcher, str(path))


def read_from(place: str | Path, pattern: str, searcher: str) -> tuple[Snapshot, str]:
    """The newest snapshot in a folder or at a URI that is whole, and where it is; raises `StateError`."""
    damage: DamagedStateError | None = None
    for path, content in read_newest(place, pattern):
        try:
            payload = document.read(content, path)
        except DamagedStateError as error:
            damage = damage or error
            continue
        found = _checked(payload, searcher, path)
        if damage is not None:
            message = "the newest snapshot is damaged (%s); going on from %s, without what was reported since."
            logger.warning("raytree: " + message, damage, path)
        return found, path
    assert damage is not None
    raise damage


def _checked(payload: dict[str, Any], searcher: str, where: str) -> Snapshot:
    if payload.get("searcher") != searcher:
        raise StateError(where, f"was saved by {payload.get('searcher')!r}.", "Restore with the searcher that saved it.")
    found = Snapshot._make(payload.get(name) for name in Snapshot._fields)
    if not all(getattr(found, name) is None or isinstance(getattr(found, name), kind) for name, kind in KINDS.items()):
        raise StateError(where, "malformed.", "Use another snapshot.")
    if found.mode not in (None, "min", "max"):
        raise StateError(where, f"malformed: the mode is {found.mode!r}.", "Use another snapshot.")
    return found


class Waiting(NamedTuple):
    """What the user gave before the space was known."""

    points: list[dict[str, Any]]
    rewards: list[float]
    given: list[Evaluation | History]

    def state(self, watch: Watch) -> dict[str, Any]:
        """As JSON values, as far as a file can hold them."""
        points = [dump(point) for point in self.points]
        evaluated = [dump(list(entry)) for entry in self.given if isinstance(entry, Evaluation)]
        given = [entry for entry in evaluated if storable(entry)]
        lost = len(self.given) - len(given) + (0 if storable(points) else len(points))
        if lost:
            message = "%d points or evaluations cannot be saved before the space is known; add them again after restoring."
            watch.say("waiting", message, lost)
        kept = (points, dump(self.rewards)) if storable(points) else ([], [])
        return {"points": kept[0], "rewards": kept[1], "given": given}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Waiting:
        """The inverse of `state`; raises one of several errors if it is malformed."""
        points = configurations("points_to_evaluate", load(state["points"]))
        rewards = numbers("evaluated_rewards", load(state["rewards"]))
        if len(rewards) > len(points):
            raise ValueError("more values than points")
        return cls(points, rewards, [Evaluation(*load(entry)) for entry in state["given"]])
