"""Every Python snippet in the README and in docs/ runs, and the drawing in the README is what is drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raytree.searchers.tune_space import to_space

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page, local_ray, tmp_path, monkeypatch):
    """The snippets of a page run in order, in one namespace."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "snippet"}
    for code in snippets(page):
        exec(compile(code, str(page), "exec"), namespace)
    if page.name == "README.md":
        assert str(to_space(namespace["searcher"]._space)) in page.read_text(encoding="utf-8")


def test_the_readme_names_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
