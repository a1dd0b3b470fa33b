"""The document a search is saved in: JSON with a format name, a version and a checksum.

``{"format": "raytree", "version": 1, "checksum": sha256 of the payload, "payload": {...}}``. A reader refuses what is
truncated, altered, foreign or newer, before it looks inside; see `Optimizer.from_state` for the payload.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from raytree.errors import StateError

FORMAT = "raytree"
VERSION = 1
MAX_BYTES = 1 << 30


def write(payload: dict[str, Any]) -> str:
    """The document that holds a payload. Equal payloads give equal documents."""
    body = _canonical(payload)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{{"format": "{FORMAT}", "version": {VERSION}, "checksum": "{digest}", "payload": {body}}}\n'


def read(text: str | bytes, where: str = "state") -> dict[str, Any]:
    """The payload of a document.

    Raises:
        StateError: for anything that is not a whole, unaltered document of a version we know.
    """
    if len(text) > MAX_BYTES:
        raise StateError(where, f"larger than {MAX_BYTES >> 20} MiB.", "This is not a raytree state.")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise StateError(where, "nested too deeply.", "This is not a raytree state.") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are ValueErrors
        raise StateError(where, f"not a raytree state, or cut short ({error}).", "Restore from another snapshot.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StateError(where, "not a raytree state.", "Check the path; other searchers' files cannot be read.")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StateError(where, f"bad version {version!r}.", "")
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
        raise StateError(where, "the checksum does not match: the file was altered or damaged.", "Use another snapshot.")
    assert isinstance(payload, dict)
    return payload


def _canonical(payload: Any) -> str:
    return json.dumps(payload, allow_nan=False, separators=(",", ":"))  # the order of keys is part of a space


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
