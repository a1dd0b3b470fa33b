"""The document a search is saved in: JSON with a format name, a version and a checksum.

``{"format": "raytree", "version": 2, "checksum": sha256 of the payload, "payload": {...}}``. A reader refuses what is
truncated, altered, foreign or newer, before it looks inside; see `Optimizer.from_state` for the payload.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from raytree.errors import DamagedStateError, StateError

FORMAT = "raytree"
VERSION = 2
"""Of the format. What 0.2.0 writes stays readable; 1 was never released."""
MAX_BYTES = 1 << 30


def write(payload: dict[str, Any]) -> str:
    """The document that holds a payload. Equal payloads give equal documents."""
    body = _canonical(payload)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "checksum": "{digest}", "payload": {body}}}\n'


def replace(path: Path, text: str, through: Path | None = None) -> None:
    """Writes a file, whole or not at all: what was there stays until all of it is on disk.

    Args:
        path: the file.
        text: what is to be in it.
        through: a folder on the same disk for the unfinished file; the one that `path` is in, if left out.

    Raises:
        OSError: if it cannot be written; nothing is left behind then.
    """
    temporary = (through or path.parent) / f".{uuid.uuid4().hex}-{path.name[-100:]}"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """The payload of the document in a file; raises `StateError` as `read` does, and if the file cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedStateError(str(path), f"cannot be read ({error.strerror}).", "Check the path.") from None
    return read(content, str(path))


def read(text: str | bytes, where: str = "state") -> dict[str, Any]:
    """The payload of a document.

    Raises:
        StateError: for anything that is not a whole, unaltered document of a known version; `DamagedStateError` where
            it may have been one.
    """
    if len(text) > MAX_BYTES:
        raise StateError(where, f"larger than {MAX_BYTES >> 20} MiB.", "This is not a raytree state.")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise StateError(where, "nested too deeply.", "This is not a raytree state.") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise DamagedStateError(
            where, f"not a raytree state, or cut short ({error}).", "Restore from another snapshot."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError(where, "not a raytree state.", "Check the path; other searchers' files cannot be read.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StateError(where, f"bad version {version!r}.", "")
    if version < VERSION:
        raise StateError(
            where, f"written by a raytree before 0.2.0 (format {version}).", "Use the trials: add_evaluated_trials(directory)."
        )
    if version > VERSION:
        raise StateError(where, f"written by a newer raytree (format {version}, this one reads {VERSION}).", "Upgrade raytree.")
    payload = document.get("payload")
    try:
        intact = (
            isinstance(payload, dict) and document.get("checksum") == hashlib.sha256(_canonical(payload).encode()).hexdigest()
        )
    except (ValueError, RecursionError, UnicodeEncodeError):
        intact = False
    if not intact:
        raise DamagedStateError(where, "the checksum does not match: the file was altered or damaged.", "Use another snapshot.")
    assert isinstance(payload, dict)
    return payload


def _canonical(payload: Any) -> str:
    return json.dumps(payload, allow_nan=False, separators=(",", ":"))  # the order of keys is part of a space


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
