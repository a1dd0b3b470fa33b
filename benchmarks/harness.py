"""One resumable harness for every benchmark: task x method x seed -> rows of a CSV, with progress, tables and plots.

A run is one search; its rows are written when it is done, so that a benchmark that was interrupted goes on where it was when it
is started again with the same output. Runs are spread over processes with one BLAS thread each.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gzip
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

FIELDS = ["task", "method", "seed", "evaluation", "value", "best", "extra", "seconds", "note"]


class Step(NamedTuple):
    """One evaluation of a run: the metric, the best so far, another number and a word, seconds spent on suggesting."""

    value: float
    best: float
    extra: float
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Job:
    task: str
    method: str
    seed: int


def parser(description: str, results: str) -> argparse.ArgumentParser:
    """The arguments that every benchmark has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / results, help="CSV to write, or go on with")
    made.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    made.add_argument("--seeds", type=int, default=None, help="repetitions of every method")
    made.add_argument("--first-seed", type=int, default=0, help="number of the first repetition")
    made.add_argument("--full", action="store_true", help="the papers' sizes; takes hours")
    made.add_argument("--tasks", default="", help="only tasks whose name contains one of these, comma-separated")
    made.add_argument("--methods", default="", help="only methods with one of these names, comma-separated")
    made.add_argument("--table", action="store_true", help="only print the table of what is there")
    return made


def chosen(names: Iterable[str], wanted: str, exact: bool) -> list[str]:
    """The names that the user wants; all if nothing is said. A whole name means that one alone."""
    parts, known = [part.strip() for part in wanted.split(",") if part.strip()], list(names)
    return [n for n in known if not parts or any(n == part if exact or part in known else part in n for part in parts)]


def settings_of(method: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a method written as "tree search=2-step leaf=own"."""
    name, *pairs = method.split()
    settings = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            settings[key] = text
    return name, settings


def run(jobs: Sequence[Job], work: Callable[[Job], list[Step]], out: Path, workers: int) -> None:
    """Does the jobs that `out` does not have yet."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["task"], row["method"], int(row["seed"])) for row in read(out)}
    left = [job for job in jobs if (job.task, job.method, job.seed) not in done]
    print(f"{len(jobs) - len(left)} of {len(jobs)} runs are in {out.name}; {len(left)} to do", flush=True)
    began = time.time()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, job): job for job in left}
        for count, future in enumerate(as_completed(futures), start=1):
            job = futures[future]
            steps = future.result()
            write(out, job, steps)
            rest = (time.time() - began) / count * (len(left) - count)
            where = f"{job.task} | {job.method} | seed {job.seed}"
            left_over = f"about {rest / 60:.1f} min left"
            print(f"[{count}/{len(left)}] {where}: best {steps[-1].best:.6g}, {left_over}", flush=True)


def write(out: Path, job: Job, steps: Sequence[Step]) -> None:
    """Appends a finished run."""
    new = not out.exists()
    with _opened(out, "at") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        for k, step in enumerate(steps, start=1):
            writer.writerow([job.task, job.method, job.seed, k, *(f"{number:.10g}" for number in step[:-1]), step.note])


def read(out: Path) -> list[dict[str, str]]:
    """The rows of a CSV; none if there is none yet."""
    if not out.exists():
        return []
    with _opened(out, "rt") as file:
        return list(csv.DictReader(file))


def _opened(out: Path, mode: str) -> IO[str]:
    """A CSV, packed if its name ends in .gz: results that are committed are."""
    return gzip.open(out, mode, newline="") if out.suffix == ".gz" else out.open(mode, newline="")  # type: ignore[return-value]


def curves(rows: Iterable[dict[str, str]], column: str = "best") -> dict[tuple[str, str], np.ndarray]:
    """(seeds, evaluations) by (task, method); runs of one pair are cut to the shortest."""
    runs: dict[tuple[str, str], dict[int, list[float]]] = {}
    for row in rows:
        runs.setdefault((row["task"], row["method"]), {}).setdefault(int(row["seed"]), []).append(float(row[column]))
    shortest = {key: min(map(len, by_seed.values())) for key, by_seed in runs.items()}
    return {key: np.array([run[: shortest[key]] for _, run in sorted(by_seed.items())]) for key, by_seed in runs.items()}


def markdown(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def plot(data: dict[tuple[str, str], np.ndarray], out: Path, title: str, axis: str) -> None:
    """One panel per task, one line per method: the mean with two standard errors. Needs plotly (the `bench` extra)."""
    try:
        from plotly.subplots import make_subplots
    except ImportError:
        print("no plot: pip install raytree[bench]", file=sys.stderr)
        return
    tasks, methods = (list(dict.fromkeys(key[k] for key in data)) for k in (0, 1))
    columns = min(3, len(tasks))
    figure = make_subplots(rows=-(-len(tasks) // columns), cols=columns, subplot_titles=tasks)
    colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f", "#17becf"]
    for (task, method), curve in data.items():
        k = tasks.index(task)
        colour = colours[methods.index(method) % len(colours)]
        x = list(range(1, curve.shape[1] + 1))
        mean, error = curve.mean(axis=0), 2 * curve.std(axis=0) / np.sqrt(len(curve))
        where = {"row": k // columns + 1, "col": k % columns + 1}
        common = {"x": x, "mode": "lines", "legendgroup": method, "name": method, **where}
        edge = {"width": 0, "color": colour}
        figure.add_scatter(y=mean - error, line=edge, showlegend=False, hoverinfo="skip", **common)
        figure.add_scatter(y=mean + error, line=edge, showlegend=False, hoverinfo="skip", fill="tonexty", opacity=0.3, **common)
        figure.add_scatter(y=mean, line={"width": 2, "color": colour}, showlegend=k == 0, **common)
    figure.update_layout(title=title, height=320 * (-(-len(tasks) // columns)), width=1200, template="plotly_white")
    figure.update_yaxes(title_text=axis, col=1)
    target = out.with_suffix(".html")
    figure.write_html(target)
    print(f"plot: {target}")
