"""Writes the tables of benchmarks/README.md anew from the committed results.

    python benchmarks/page.py

A table stands between `<!-- table: name -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import surrogates
import synthetic
import trouble
from harness import read

HERE = Path(__file__).parent
RESULTS = HERE / "results"
TABLES: dict[str, Callable[[], str]] = {
    "trouble summary": lambda: trouble.summary(read(RESULTS / "trouble.csv.gz")),
    "trouble": lambda: trouble.table(read(RESULTS / "trouble.csv.gz")),
    "surrogates": lambda: _surrogates("surrogates.csv.gz", surrogates.GROUPS, {str(k): k for k in surrogates.LOOKED_AT}),
    "asha": lambda: _surrogates("surrogates-asha.csv.gz", {"six tasks": surrogates.CURVES}, surrogates.QUARTERS),
    "synthetic": lambda: synthetic.table(read(RESULTS / "synthetic.csv.gz")),
}


def _surrogates(name: str, groups: dict[str, list[str]], points: dict[str, int]) -> str:
    rows = read(RESULTS / name)
    return surrogates.tables(rows, surrogates.lowered(rows), groups, points)


def main() -> None:
    page = HERE / "README.md"
    text = page.read_text()
    for name, make in TABLES.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, lambda m, make=make: f"{m[1]}\n{make()}\n\n{m[2]}", text, flags=re.DOTALL)
        print(f"{name}: {'written' if found else 'has no place in the page'}")
    page.write_text(text)


if __name__ == "__main__":
    main()
