"""Every warning and error message in the sources, read from their syntax trees; `…` stands for what is filled in.

python -m tests.messages        lists them
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FILLED = re.compile(r"%[-+.\d]*[sdrgf]")


class Message(NamedTuple):
    """Where a message is made, and its text."""

    place: str
    text: str


def messages() -> Iterator[Message]:
    """The second argument of every error, and what is logged as a warning or worse."""
    for path in sorted([*(ROOT / "raytree").rglob("*.py"), *(ROOT / "searchers").glob("*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named.setdefault(node.targets[0].id, []).append(node.value)
        for node in ast.walk(tree):
            for text in _texts(_said(node), named):
                shown = re.sub(r"…+", "…", FILLED.sub("…", text)).removeprefix("raytree: ").strip()
                if re.search(r"[a-z]{3}", shown):  # not made of what is filled in alone
                    yield Message(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", shown)


def _said(node: ast.AST) -> ast.expr | None:
    """The argument of a call that is a message."""
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if (name.endswith("Error") or name == "say") and len(node.args) >= 2:
        return node.args[1]
    logged = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "logger"
    return node.args[0] if logged and name in ("warning", "error", "exception", "critical") else None


def _texts(node: ast.expr | None, named: dict[str, list[ast.expr]]) -> list[str]:
    """The texts that an expression may have; `named` are the values that names get in its module."""
    if node is None:
        return []
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body, named), *_texts(node.orelse, named)]
    if isinstance(node, ast.BinOp):
        return [left + right for left in _texts(node.left, named) for right in _texts(node.right, named)]
    if isinstance(node, ast.Name):
        return [text for value in named.get(node.id, []) for text in _texts(value, {})] or ["…"]
    return ["…"]


if __name__ == "__main__":
    for message in messages():
        print(f"{message.place}: {message.text}")
