"""The public interface is what the reference says, no more and no less."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import raytree
import raytree.errors
import raytree.searchers
from raytree.searchers.base import RaytreeSearcher

ROOT = Path(__file__).resolve().parent.parent
DIRECTIVE = re.compile(r"^\.\. (currentmodule|autoclass|autofunction|automodule):: (\S+)((?:\n   :.*)*)", flags=re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """The names that the pages of docs/reference document, by module."""
    found: dict[str, set[str]] = {}
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        module = ""
        for kind, name, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind == "currentmodule":
                module = name
            elif kind == "automodule":
                (members,) = re.findall(r":members: (.*)", options)
                found.setdefault(name, set()).update(members.split(", "))
            else:
                place, _, last = name.rpartition(".")
                found.setdefault(place or module, set()).add(last)
    return found


@pytest.mark.parametrize("module", [raytree, raytree.searchers], ids=lambda module: module.__name__)
def test_the_reference_documents_exactly_the_public_names(module):
    assert documented()[module.__name__] == set(module.__all__)


def test_the_reference_documents_every_error():
    errors = {name for name, value in vars(raytree.errors).items() if inspect.isclass(value) and issubclass(value, Exception)}
    assert documented()["raytree.errors"] | {"RaytreeError"} == errors


@pytest.mark.parametrize("module", [raytree, raytree.searchers], ids=lambda module: module.__name__)
def test_public_names_exist_and_have_docstrings(module):
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for name in module.__all__:
        assert inspect.getdoc(getattr(module, name)), f"{name} has no docstring"


def test_every_argument_of_every_public_class_is_explained():
    """In the docstring of the class, or of the class that it hands the rest on to."""
    for module in (raytree, raytree.searchers):
        for name in module.__all__:
            kind = getattr(module, name)
            if not inspect.isclass(kind) or issubclass(kind, (tuple, Exception)):
                continue
            text = "\n".join(inspect.getdoc(part) or "" for part in kind.__mro__)
            given = [p.name for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD]
            for argument in given:
                assert re.search(rf"^\s*{argument}:", text, flags=re.MULTILINE), f"{name} does not explain {argument}"


def test_the_package_is_typed_and_has_one_version():
    assert (ROOT / "raytree" / "py.typed").exists()
    assert f"\nversion: {raytree.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\n## {raytree.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_a_searcher_names_every_setting_of_its_optimizer_with_the_same_default():
    """Tune gives the budget; metric, mode, points and the rest are the searcher's own."""
    for name in raytree.searchers.__all__:
        kind = getattr(raytree.searchers, name)
        if not inspect.isclass(kind) or not issubclass(kind, RaytreeSearcher) or name == "RandomSearcher":
            continue
        mine = inspect.signature(kind).parameters
        theirs = inspect.signature(kind.optimizer_class.__init__).parameters
        settings = {n: p for n, p in theirs.items() if p.kind is p.KEYWORD_ONLY and n not in ("budget", "mode")}
        assert {n for n, p in settings.items() if n not in mine} == set()
        assert {n: p.default for n, p in settings.items()} == {n: mine[n].default for n in settings}
        assert not any(p.kind is p.VAR_KEYWORD for p in mine.values())
