"""The page: one HTML file that needs nothing else, made from a View.

The View is put into the page as JSON, and the script in `assets/` draws it. Nothing that comes from users is ever read as
HTML: in the JSON every "<", ">" and "&" is escaped, in the browser it only becomes text.
"""

from __future__ import annotations

import html
import os
from functools import cache
from importlib.resources import files
from pathlib import Path

from raytree.errors import SettingError
from raytree.report.view import View

SCRIPTS = ("base.js", "tree.js", "progress.js", "branches.js", "diagnostics.js", "page.js")


@cache
def _asset(name: str) -> str:
    return (files("raytree.report") / "assets" / name).read_text(encoding="utf-8")


def page_of(view: View) -> str:
    """The page of a View."""
    data = view.to_json()
    for character in "<>&\u2028\u2029":
        data = data.replace(character, f"\\u{ord(character):04x}")
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();"
    parts = {"TITLE": html.escape(f"{view.title} · raytree"), "CSS": _asset("page.css"), "JS": script, "DATA": data}
    head, *rest = _asset("page.html").split("@@")  # text, name, text, name, ...: what is put in is never looked at again
    return head + "".join(parts[piece] if k % 2 == 0 else piece for k, piece in enumerate(rest))


def write_page(view: View, path: str | os.PathLike[str]) -> Path:
    """Writes the page of a View, whole or not at all; returns where it is.

    Raises:
        SettingError: if it cannot be written.
    """
    target = Path(path).expanduser()
    if target.is_dir():
        target = target / "report.html"
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(page_of(view), encoding="utf-8")
        unfinished.replace(target)
    except OSError as error:
        if unfinished.parent.is_dir():
            unfinished.unlink(missing_ok=True)
        raise SettingError(str(target), f"cannot be written ({error.strerror}).", "Give another path.") from None
    return target.resolve()
