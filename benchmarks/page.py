"""Writes the tables of benchmarks/README.md, and the one in the README of the repository, anew from the committed results.

    python benchmarks/page.py

A table stands between `<!-- table: name -->` and `<!-- end -->`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import ablations
import bosh
import bosh_pools
import fuzz
import htbo
import latency
import surrogates
import synthetic
import trouble
from harness import markdown, read

HERE = Path(__file__).parent
RESULTS = HERE / "results"
NAMES = {
    "tree": "**raytree**, `TreeSearcher`",
    "tpe": "Optuna, TPE",
    "tpe-group": "Optuna, TPE with `group=True`",
    "gpsampler": "Optuna, Gaussian process",
    "hyperopt": "HyperOpt, TPE",
    "smac": "SMAC3",
    "ax": "Ax",
    "random": "random search",
}
"""Methods as the README calls them, in its order."""
TABLES: dict[str, Callable[[], str]] = {
    "trouble summary": lambda: trouble.summary(read(RESULTS / "trouble.csv.gz")),
    "trouble": lambda: trouble.table(read(RESULTS / "trouble.csv.gz")),
    "surrogates": lambda: _surrogates("surrogates.csv.gz", surrogates.GROUPS, {str(k): k for k in surrogates.LOOKED_AT}),
    "asha": lambda: _surrogates("surrogates-asha.csv.gz", {"six tasks": surrogates.CURVES}, surrogates.QUARTERS),
    "synthetic": lambda: synthetic.table(read(RESULTS / "synthetic.csv.gz")),
    "seeds": lambda: bosh_pools.table(read(RESULTS / "bosh-pools.csv.gz")),
    "stochastic": lambda: bosh.table(read(RESULTS / "bosh.csv.gz")),
    "htbo": lambda: htbo.table(read(RESULTS / "htbo.csv.gz")),
    "faults": lambda: faults(),
    "made by": lambda: made_by(),
    "latency": lambda: latency.table(latency.read()),
    "ablations": lambda: ablations.table(read(RESULTS / "ablations.csv.gz")),
}


def _surrogates(name: str, groups: dict[str, list[str]], points: dict[str, int]) -> str:
    rows = read(RESULTS / name)
    return surrogates.tables(rows, surrogates.lowered(rows), groups, points)


def _rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def faults() -> str:
    """Each kind of fault over all searchers, and the sequences of events that were compared with the oracle."""
    kinds: dict[str, list[dict[str, str]]] = {}
    for row in _rows("faults.csv"):
        kinds.setdefault(row["fault"], []).append(row)
    counted = ("count", "observations", "lost", "doubled", "misreported")
    lines = [[kind, len(rows), *(sum(int(row[name]) for row in rows) for name in counted)] for kind, rows in kinds.items()]
    blocks = [row for row in _rows("fuzz.csv") if row["what"] != "spaces"]
    events, searchers = sum(int(row["count"]) for row in blocks), len({row["what"] for row in blocks})
    lines.append(["sequences of events", searchers, f"{len(blocks) * fuzz.BLOCK:,}", f"{events:,} events", 0, 0, 0])
    return markdown(["fault", "searchers", "count", "observations, or files refused", "lost", "doubled", "misreported"], lines)


def made_by() -> str:
    """The commit whose code made each table."""
    return markdown(["table", "rows", "commit"], [list(row.values()) for row in _rows("made_by.csv")])


def readme() -> str:
    """The regrets on conditional tasks, one trial at a time, for readers in a hurry: the first table of "surrogates" in short."""
    first = TABLES["surrogates"]().split("### ")[1]
    header, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in first.splitlines() if line[:1] == "|")
    shown = ["method", "runs", *(str(k) for k in surrogates.LOOKED_AT), "ms"]
    found = {line[0]: [line[header.index(name)] for name in shown[1:]] for line in lines}
    return markdown(shown, [[name, *found[method]] for method, name in NAMES.items() if method in found])


def rewritten(page: Path, tables: dict[str, Callable[[], str]]) -> str:
    """The text of a page with its tables made anew; ends the program at a table that has no place."""
    text = page.read_text(encoding="utf-8")
    for name, make in tables.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, lambda m, make=make: f"{m[1]}\n{make()}\n\n{m[2]}", text, flags=re.DOTALL)
        if not found:
            raise SystemExit(f"{page} has no place for the table {name!r}")
    return text


PAGES = {HERE / "README.md": TABLES, HERE.parent / "README.md": {"readme": readme}}


def main() -> None:
    for page, tables in PAGES.items():
        page.write_text(rewritten(page, tables), encoding="utf-8")
        print(f"{page}: {', '.join(tables)}")


if __name__ == "__main__":
    main()
