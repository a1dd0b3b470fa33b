"""The documentation: snippets run, links lead somewhere, every message is explained, every public name is in the reference."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from raytree.searchers.tune_space import to_space
from tests.messages import messages

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "integrations/carps/README.md")
LINKED = [*PAGES, *(ROOT / name for name in OTHERS)]
SLOTS = 1  # of Ray: most of the time would go into starting processes
INCLUDED = re.compile(r"^```\{include\} (\S+)", flags=re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=named)
def test_snippets_run(page, local_ray, tmp_path, monkeypatch):
    """The snippets of a page run in order, in one namespace."""
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "snippet"}
    for code in snippets(page):
        exec(compile(code, str(page), "exec"), namespace)
    if page.name == "README.md":
        assert str(to_space(namespace["searcher"]._space)) in page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """What a link to a page may name after #: its headings as GitHub spells them."""
    text = page.read_text(encoding="utf-8")
    for other in INCLUDED.findall(text):
        text += (page.parent / other).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{named(page)} links to {target}"
        assert not anchor or anchor in anchors(found), f"{named(page)} links to {target}, which has no such heading"


def test_troubleshooting_explains_every_message_and_no_other():
    """`python -m tests.messages` lists the messages as they must stand in docs/troubleshooting.md."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").split("\n## No message")[0]
    rows = re.findall(r"^\| (`+) ?(.*?) ?\1 \|", page, flags=re.MULTILINE)
    explained = {text for _, text in rows}
    made = {message.text: message.place for message in messages()}
    assert not {text: place for text, place in made.items() if text not in explained}
    assert not explained - set(made)


def test_every_page_has_a_place_in_the_table_of_contents():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        folder = name.partition("/")[0]
        assert name == "index" or re.search(rf"^({re.escape(name)}|{folder}/\*)$", index, flags=re.MULTILINE), name


def test_the_readme_names_both_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_tables_are_made_of_the_committed_results(monkeypatch):
    """`python benchmarks/page.py` makes them: every number in README.md that compares stands in benchmarks/README.md too."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    made = importlib.import_module("page")
    assert {named(page) for page in made.PAGES} == {"README.md", "benchmarks/README.md"}
    for page, tables in made.PAGES.items():
        assert made.rewritten(page, tables) == page.read_text(encoding="utf-8"), f"{named(page)}: run benchmarks/page.py"
