"""Treed Gaussian processes on functions that change character: best value against evaluations (Assael et al. 2014, Figure 4).

    python benchmarks/htbo.py                        the synthetic functions
    python benchmarks/htbo.py --data DIR             with the grids (online LDA, structured SVM) and the mining pools too
    python benchmarks/htbo.py --figure               a picture like Figure 3: the function, BO's and HTBO's view of it

BO, BO-warp, HTBO and HTBO-warp with the same inference, both readings of "employing all observations". DIR holds
lda_on_grid.csv, svm_on_grid.csv, brenda_mines_1800.csv and agromet_18189.csv. The grids are searched as pools, by index (which is
nearly a logarithm) and by raw value; of Agromet, every seventh point. "best" is the regret, "extra" whether it is below 1%.
"""

from __future__ import annotations

import csv
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run

from raytree import HTBOOptimizer, Space
from raytree.objectives import gramacy, rkhs
from raytree.optimizers.htbo import BO, BO_WARP
from raytree.space import Float

DATA = "RAYTREE_BENCH_DATA"
METHODS: dict[str, dict[str, Any]] = {
    "BO": BO,
    "BO-warp": BO_WARP,
    "HTBO": {},
    "HTBO-warp": {"warp": True},
    "HTBO-leaf": {"conditioning": "leaf"},
    "HTBO-leaf-warp": {"conditioning": "leaf", "warp": True},
    "BO-slice": {**BO, "inference": "slice"},
    "HTBO-slice": {"inference": "slice"},
}
SYNTHETIC = {"rkhs": (rkhs, 50, 40), "gramacy": (gramacy, 40, 20)}
POOLS = {
    "lda index": ("lda_on_grid.csv", 3, 3, False, 1, 50),
    "lda raw": ("lda_on_grid.csv", 3, 3, False, 1, 50),
    "svm index": ("svm_on_grid.csv", 3, 3, False, 1, 60),
    "svm raw": ("svm_on_grid.csv", 3, 3, False, 1, 60),
    "brenda": ("brenda_mines_1800.csv", 3, 4, True, 1, 60),
    "agromet": ("agromet_18189.csv", 2, 2, True, 7, 60),
}
"""File, coordinates, column of the value, whether it is maximised, every how many rows, evaluations."""


@dataclass(frozen=True)
class Pool:
    """Rows of the unit cube with losses."""

    rows: np.ndarray
    losses: np.ndarray


@cache
def pool(task: str) -> Pool:
    name, d, column, maximised, every, _ = POOLS[task]
    with (Path(os.environ[DATA]) / name).open(newline="") as file:
        table = np.array([[float(cell) for cell in row] for row in list(csv.reader(file))[1:]])[::every]
    x = table[:, :d]
    if task.endswith("index"):
        x = np.column_stack([np.unique(c, return_inverse=True)[1] for c in x.T]).astype(float)
    scaled = (x - x.min(axis=0)) / (x.max(axis=0) - x.min(axis=0))
    kept = {row.tobytes(): k for k, row in enumerate(scaled)}  # of a place given twice, the later value
    index = sorted(kept.values())
    return Pool(scaled[index], (-1.0 if maximised else 1.0) * table[index, column])


def work(job: Job) -> list[Step]:
    """One run."""
    if job.task in SYNTHETIC:
        make, evaluations, _ = SYNTHETIC[job.task]
        objective = make()
        optimizer = HTBOOptimizer(objective.space, seed=job.seed, num_initial=objective.space.d + 1, **METHODS[job.method])
        value, low, span = objective, objective.minimum, abs(objective.minimum)
    else:
        data, evaluations = pool(job.task), POOLS[job.task][-1]
        space = Space({f"x{k}": Float(0.0, 1.0) for k in range(data.rows.shape[1])})
        optimizer = HTBOOptimizer(space, seed=job.seed, num_initial=5, candidates=data.rows, **METHODS[job.method])
        known = {tuple(np.round(row, 9)): loss for row, loss in zip(data.rows, data.losses, strict=True)}

        def value(config: dict) -> float:
            return known[tuple(np.round(list(config.values()), 9))]

        low, span = float(data.losses.min()), abs(float(data.losses.min()))
    steps: list[Step] = []
    best = np.inf
    for _ in range(evaluations):
        began = time.process_time()
        suggestion = optimizer.ask()
        seconds = time.process_time() - began
        found = value(suggestion.config)
        optimizer.tell(suggestion.id, found)
        best = min(best, found)
        steps.append(Step(found, best - low, float(best - low < 0.01 * span), seconds))
    return steps


def table(rows: list[dict[str, str]]) -> str:
    solved, seconds = curves(rows, "extra"), curves(rows, "seconds")
    lines = []
    for key, curve in curves(rows).items():
        last = curve[:, -1]
        share = f"{100 * solved[key][:, -1].mean():.0f}%"
        error = last.std() / np.sqrt(len(last))
        lines.append(
            [*key, len(curve), curve.shape[1], f"{last.mean():.4g} ± {error:.2g}", share, f"{1e3 * np.median(seconds[key]):.0f}"]
        )
    order = [*SYNTHETIC, *POOLS]
    lines.sort(key=lambda line: (order.index(line[0]), list(METHODS).index(line[1])))
    return markdown(["task", "method", "runs", "evaluations", "mean regret", "within 1%", "ms"], lines)


def figure(target: Path, evaluations: int = 30, seed: int = 0) -> None:
    """RKHS after some evaluations: the function, mean and two deviations of BO and HTBO, the borders of HTBO's leaves."""
    from plotly.subplots import make_subplots

    objective, x = rkhs(), np.linspace(0.0, 1.0, 1001)
    made = make_subplots(rows=2, cols=1, shared_xaxes=True, subplot_titles=["BO", "HTBO"])
    for k, method in enumerate(("BO", "HTBO"), start=1):
        optimizer = HTBOOptimizer(objective.space, seed=seed, num_initial=2, **METHODS[method])
        for _ in range(evaluations):
            suggestion = optimizer.ask()
            optimizer.tell(suggestion.id, objective(suggestion.config))
        fitted = optimizer.strategy.fit(remember=False)
        seen = fitted.posterior.predict((), x[:, None])
        mean, low, high = (-fitted.scale.backward(z) for z in (seen.mean, seen.mean + 2 * seen.sd, seen.mean - 2 * seen.sd))
        where = {"row": k, "col": 1, "showlegend": k == 1}
        made.add_scatter(x=x, y=low, line={"width": 0}, name="", **{**where, "showlegend": False})
        made.add_scatter(x=x, y=high, line={"width": 0}, fill="tonexty", name="two deviations", **where)
        made.add_scatter(x=x, y=mean, name="mean", **where)
        made.add_scatter(x=x, y=[-objective({"x": float(u)}) for u in x], line={"dash": "dot"}, name="function", **where)
        trials = list(optimizer)
        made.add_scatter(x=[t.row[0] for t in trials], y=[-t.value for t in trials], mode="markers", name="evaluations", **where)
        for box in fitted.posterior.boxes():
            made.add_vline(x=float(box[0, 0]), line={"width": 0.5, "dash": "dash"}, row=k, col=1)
    made.update_layout(title=f"RKHS after {evaluations} evaluations", template="plotly_white", height=700)
    target.parent.mkdir(parents=True, exist_ok=True)
    made.write_html(target)
    print(f"figure: {target}")


def main() -> None:
    made = parser(__doc__.splitlines()[0], "htbo.csv")
    made.add_argument("--data", type=Path, help="folder of the grids and pools")
    made.add_argument("--figure", action="store_true", help="only the picture")
    arguments = made.parse_args()
    if arguments.figure:
        figure(arguments.out.with_name("htbo_figure.html"))
        return
    if arguments.data:
        os.environ[DATA] = str(arguments.data.resolve())
    if not arguments.table:
        jobs = []
        for task in chosen([*SYNTHETIC, *(POOLS if arguments.data else ())], arguments.tasks, exact=False):
            seeds = arguments.seeds or (SYNTHETIC[task][2] if task in SYNTHETIC else 40 if arguments.full else 10)
            numbers = range(arguments.first_seed, arguments.first_seed + seeds)
            jobs += [Job(task, method, seed) for method in chosen(METHODS, arguments.methods, exact=True) for seed in numbers]
        run(jobs, work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(table(rows))
    plot(curves(rows), arguments.out, "Functions that change character", "regret")


if __name__ == "__main__":
    main()
