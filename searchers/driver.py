"""Who drives an experiment: two drivers on one directory would overwrite each other's snapshots.

Tune tells a searcher nothing of the experiment's directory. But what a searcher writes beside its snapshot is copied to
the directory, and back before a restore. So a note there says which process has saved, where and when, and a driver that
restores refuses while another one is at work. Two fresh drivers with the same name and storage path never read anything,
so that no searcher can see them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from raytree import state as document
from raytree.errors import StateError

logger = logging.getLogger("raytree")

LEASE = 30.0
"""Seconds that a driver on another machine is believed to live after it has saved, or three of its own intervals."""
_FILE = "searcher-driver-{}.json"


@dataclass(frozen=True)
class Note:
    """What a driver says of itself.

    Args:
        host: the name of its machine, for people.
        machine: where process ids mean the same.
        pid: its process id.
        started: when the process started, in the kernel's units; None where that is not known.
        saved_at: seconds since 1970.
        every: seconds between its last two saves.
        thinking: seconds that its suggestions took.
    """

    host: str
    machine: str
    pid: int
    started: int | None
    saved_at: float
    every: float
    thinking: float = 0.0

    def __post_init__(self) -> None:
        fine = isinstance(self.host, str) and isinstance(self.machine, str) and type(self.pid) is int and self.pid > 0
        numbers = all(isinstance(value, (int, float)) for value in (self.saved_at, self.every, self.thinking))
        if not fine or not numbers or not (self.started is None or type(self.started) is int):
            raise ValueError("not a note of a driver")

    @property
    def lease(self) -> float:
        """Seconds after a save within which the next one must come."""
        return max(LEASE, 3.0 * self.every)

    @property
    def fresh(self) -> bool:
        """Whether the last save is recent, up to clocks that differ."""
        return abs(time.time() - self.saved_at) <= self.lease

    @property
    def here(self) -> bool:
        return self.machine == _machine()

    @property
    def lives(self) -> bool:
        """Whether this is a living process of this machine."""
        return self.here and _started(self.pid) is not None and self.started in (None, _started(self.pid))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def sign(directory: Path, session: str, last: float | None, thinking: float = 0.0) -> float:
    """Leaves this process's note beside a snapshot; returns the time in it, to be given as `last` the next time."""
    now = time.time()
    mine = Note(
        socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()), now, 0.0 if last is None else now - last, thinking
    )
    document.replace(directory / _FILE.format(session), json.dumps(asdict(mine)), beside(directory))
    return now


def beside(directory: Path) -> Path:
    """Where unfinished files of a directory can lie: Tune copies the directory at any moment, and fails at what vanishes."""
    outside = directory.resolve().parent
    same_disk = outside.stat().st_dev == directory.stat().st_dev
    return outside if same_disk and os.access(outside, os.W_OK) else directory


def refuse_second(directory: Path) -> None:
    """Raises `StateError` if another driver is at work on an experiment; warns if it may be."""
    for note in _notes(directory):
        if note.pid == os.getpid() and note.lives:
            continue  # this very process
        if note.fresh and (note.lives or not note.here):
            raise StateError(
                str(directory),
                f"{note} is driving this experiment; two drivers would overwrite each other's results.",
                f"End it first; if it has ended just now, wait {note.lease:.0f} s. To look: from_experiment(directory).",
            )
        if note.lives:
            logger.warning("raytree: %s has driven this experiment and still runs; make sure that it does not any more", note)


def at_work(directory: Path) -> tuple[bool, float | None]:
    """Whether some driver is at work on an experiment, and the seconds that its suggestions took, if that is known."""
    found = list(_notes(directory))
    return any(note.lives or (note.fresh and not note.here) for note in found), max(
        (note.thinking for note in found), default=None
    )


def _notes(directory: Path) -> Iterator[Note]:
    for path in sorted(directory.glob(_FILE.format("*"))):
        try:
            yield Note(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # no note of ours: it says nothing
            continue


@cache
def _machine() -> str:
    """The same for all processes that see each other's ids, until the machine starts again."""
    parts = [socket.gethostname()]
    try:
        parts += [Path("/proc/sys/kernel/random/boot_id").read_text(), os.readlink("/proc/self/ns/pid")]
    except OSError:  # not Linux
        parts.append("")
    return sha256("|".join(parts).encode()).hexdigest()[:16]


def _started(pid: int) -> int | None:
    """When a living process started, 0 where the system does not say; None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0 if _answers(pid) else None
    return None if fields[0] in "ZX" else int(fields[19])  # a zombie is dead


def _answers(pid: int) -> bool:
    """Whether there is a process of this id, for systems without /proc."""
    if os.name != "posix":
        return True  # asking would be a signal there
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True
