"""What each part of the default search is worth: switched off alone, on the trees, the troubles and the surrogates.

    python benchmarks/ablations.py --data DIR                  every part, three seeds; a few hours on one core
    python benchmarks/ablations.py --data DIR --parts start    one part
    python benchmarks/ablations.py --table

Scores are means over a suite: log10 of the distance to the optimum on the trees (after 20, 30 and 50 trials), log10 of the
true regret on the troubles (after 20, 40 and 60), normalised regret on the surrogates (after 25, 50 and 100). Lower is
better. Every part sees the same seeds, so that differences are paired; their standard errors are of those differences.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import surrogates
import synthetic
import trouble
from harness import Job, Step, markdown, parser, read, run

from raytree import TreeOptimizer


class Part(NamedTuple):
    """How a part is switched off: by settings of the optimizer, or by constants (module, name, value)."""

    settings: dict[str, Any]
    constants: tuple[tuple[str, str, Any], ...] = ()


PARTS: dict[str, Part] = {
    "everything on": Part({}),
    "no look elsewhere": Part({"explore": False}),
    "linear losses": Part({"transform": "linear"}),
    "no noisy start": Part({}, (("raytree.models.tree", "NOISY", 1e-9),)),
    "chance of success counts once": Part({}, (("raytree.models.success", "CAUTION", 1.0),)),
    "five trials to start": Part({"num_initial": 5}),
    "sixteen trials to start": Part({"num_initial": 16}),
    "leaves share nothing": Part({"tied": False}),
}
SUITES: dict[str, tuple[int, int, int]] = {"trees": (20, 30, 50), "trouble": trouble.THIRDS, "surrogates": surrogates.LOOKED_AT}


@contextmanager
def without(name: str) -> Iterator[dict[str, Any]]:
    """The settings of the optimizer while a part is off."""
    part = PARTS[name]
    places = [(importlib.import_module(module), constant, value) for module, constant, value in part.constants]
    before = [getattr(module, constant) for module, constant, _ in places]
    try:
        for module, constant, value in places:
            setattr(module, constant, value)
        yield part.settings
    finally:
        for (module, constant, _), value in zip(places, before, strict=True):
            setattr(module, constant, value)


def work(data: Path | None, job: Job) -> list[Step]:
    """One run: best is what counts, at the places of `SUITES`."""
    suite, task = job.task.split(": ", 1)
    with without(job.method) as settings:
        if suite == "trees":
            synthetic.METHODS["part"] = (TreeOptimizer, {k: v for k, v in settings.items() if k != "num_initial"})
            return synthetic.search(Job(task, "part", job.seed), 50)
        words = " ".join(["tree", *(f"{key}={value}" for key, value in settings.items())])
        if suite == "trouble":
            return trouble.work(Job(task, words, job.seed))
        assert data is not None
        return surrogates.search(Job(task, words, job.seed), surrogates.Plan(data.resolve(), 100, 1))


def tasks(data: Path | None) -> list[str]:
    """All tasks with the name of their suite in front; the surrogates' only with data."""
    names = [f"trees: {name}" for name in synthetic.TASKS if name != "deep"] + [f"trouble: {name}" for name in trouble.tasks()]
    return names + [f"surrogates: {name}" for name in (*surrogates.CONDITIONAL, *surrogates.FLAT) if data is not None]


def table(rows: list[dict[str, str]]) -> str:
    """Per part and suite: the score with the part off, and how much worse that is than with everything on."""
    known = surrogates.known()
    scores: dict[tuple[str, str], dict[tuple[str, int], list[float]]] = {}
    for row in rows:
        suite, task = row["task"].split(": ", 1)
        if int(row["evaluation"]) not in SUITES[suite]:
            continue
        value = float(row["best"])
        if suite == "trouble":
            value = float(np.log10(max(value, trouble.TINY))) if np.isfinite(value) else 3.0
        elif suite == "surrogates":
            best, median = known[task]["best"], known[task]["median"]
            value = (value - best) / (median - best) if np.isfinite(value) else 1.0
        scores.setdefault((row["method"], suite), {}).setdefault((task, int(row["seed"])), []).append(value)
    lines = []
    for part in (part for part in PARTS if any((part, suite) in scores for suite in SUITES)):
        cells = [part]
        for suite in SUITES:
            mine, whole = scores.get((part, suite), {}), scores.get(("everything on", suite), {})
            common = sorted(mine.keys() & whole.keys())
            if not common:
                cells += ["", ""]
                continue
            a, b = np.array([mine[key] for key in common]), np.array([whole[key] for key in common])
            apart, digits = a - b, 3 if suite == "surrogates" else 2
            errors = apart.std(axis=0) / np.sqrt(len(common))
            cells.append(" / ".join(f"{value:.{digits}f}" for value in a.mean(axis=0)))
            gaps = zip(apart.mean(axis=0), errors, strict=True)
            cells.append("" if part == "everything on" else " / ".join(f"{g:+.{digits}f} ± {e:.{digits}f}" for g, e in gaps))
        lines.append(cells)
    header = ["switched off", *(cell for suite in SUITES for cell in (f"{suite}", "worse by"))]
    return markdown(header, lines)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0], "ablations.csv.gz")
    arguments.add_argument("--data", type=Path, help="folder with rbv2_xgboost, nb301 and lcbench")
    arguments.add_argument("--parts", default="", help="only these parts, comma-separated")
    given = arguments.parse_args()
    if not given.table:
        wanted = [part.strip() for part in given.parts.split(",") if part.strip()]
        parts = [name for name in PARTS if not wanted or name == "everything on" or any(word in name for word in wanted)]
        seeds = range(given.first_seed, given.first_seed + (given.seeds or 3))
        names = [name for name in tasks(given.data) if not given.tasks or any(word in name for word in given.tasks.split(","))]
        jobs = [Job(task, part, seed) for seed in seeds for part in parts for task in names]
        run(jobs, partial(work, given.data), given.out, given.workers)
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
