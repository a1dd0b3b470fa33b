"""The documentation as a web site: `make docs` writes build/site. Markdown by MyST, reference pages from docstrings."""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import raytree  # noqa: E402

project = "raytree"
author = "the raytree developers"
copyright = "the raytree developers. Apache License 2.0"
version = release = raytree.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "literal"  # a single backtick in a docstring is code, as in Markdown

html_theme = "furo"
html_title = f"raytree {release}"
html_copy_source = False
OUTSIDE = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files outside docs/, to which pages link so that the links work in the repository, and the pages that include them."""


def inside(app: Any, name: str, source: list[str]) -> None:
    """Links to files outside docs/ lead to the pages that include them."""
    pattern = rf"\]\((?:\.\./)+({'|'.join(re.escape(path) for path in OUTSIDE)})"
    source[0] = re.sub(pattern, lambda found: f"](/{OUTSIDE[found[1]]}", source[0])


def all_pages(app: Any, name: str, source: list[str]) -> None:
    """In the table of contents, `folder/*` stands for the pages of a folder that are not named before."""
    if name == "index":
        lines = source[0].splitlines()
        for k, line in enumerate(lines):
            if line.endswith("/*"):
                pages = sorted(f"{line[:-1]}{page.stem}" for page in Path(app.srcdir, line[:-2]).glob("*.md"))
                lines[k] = "\n".join(page for page in pages if page not in lines)
        source[0] = "\n".join(lines)


def setup(app: Any) -> None:
    app.connect("source-read", inside)
    app.connect("source-read", all_pages)
