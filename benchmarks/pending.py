"""Eight trials at a time: log10 distance to the optimum after 64 evaluations, by treatment of running trials.

    python benchmarks/pending.py                        about twenty minutes on two cores
    python benchmarks/pending.py --methods believer     one treatment

The twelve synthetic trees, the same random point on every path to start with. Eight trials are always running and take
times drawn at random; a trial's value is told when it ends. `sequential` runs one at a time. Beside the distance: how many
suggestions repeat a configuration, and what 64 suggestions without any news are, after 20 evaluations.
"""

from __future__ import annotations

import heapq
import time

import numpy as np
from harness import Job, Step, chosen, curves, markdown, parser, plot, read, run
from synthetic import TASKS, initial

from raytree import TreeOptimizer
from raytree.objectives import twelve

METHODS = ("sequential", "believer", "fantasy", "thompson", "ignore")
EVALUATIONS, WORKERS, AT_ONCE = 64, 8, 64


def work(job: Job) -> list[Step]:
    """One run: extra is the number of repeated configurations; the note of the last step is what 64 at once are."""
    objective = TASKS[job.task]
    points = initial(objective, job.seed)
    treatment = "believer" if job.method == "sequential" else job.method
    optimizer = TreeOptimizer(objective.space, seed=job.seed, num_initial=len(points), pending=treatment)
    for point in points:
        optimizer.request(point)
    rng = np.random.default_rng([job.seed, 8])
    clock, running, steps, asked = 0.0, [], [], []
    best, note = np.inf, ""
    while len(steps) < EVALUATIONS:
        while len(running) < (1 if job.method == "sequential" else WORKERS):
            began = time.process_time()
            suggestion = optimizer.ask()
            seconds = time.process_time() - began
            assert suggestion is not None
            asked.append(optimizer.space.key(optimizer.space.point(suggestion.config)))
            heapq.heappush(running, (clock + rng.uniform(0.5, 1.5), len(asked), suggestion, seconds))
        clock, _, suggestion, seconds = heapq.heappop(running)
        value = objective(suggestion.config)
        optimizer.tell(suggestion.id, value)
        best = min(best, value)
        repeated = len(asked) - len(set(asked))
        if len(steps) + 1 == 20:
            note = at_once(optimizer)
        steps.append(Step(value, float(np.log10(max(best - objective.minimum, 1e-12))), repeated, seconds, note))
    return steps


def at_once(optimizer: TreeOptimizer) -> str:
    """What 64 suggestions without news are: different ones, and paths among them."""
    copy = TreeOptimizer.from_state(optimizer.state())
    asked = [copy.ask() for _ in range(AT_ONCE)]
    points = [copy.space.point(suggestion.config) for suggestion in asked if suggestion is not None]
    return f"{len({copy.space.key(p) for p in points})} different on {len({copy.space.path(p) for p in points})} paths"


def table(rows: list[dict[str, str]]) -> str:
    repeated, seconds = curves(rows, "extra"), curves(rows, "seconds")
    notes = {(row["task"], row["method"]): row["note"] for row in rows if row["note"]}
    found = curves(rows)
    lines = []
    for task in (objective.name for objective in twelve()):
        for method in METHODS:
            if (task, method) not in found:
                continue
            key, curve = (task, method), found[task, method]
            at = [f"{np.median(curve[:, k - 1]):.1f}" for k in (20, 32, EVALUATIONS)]
            milliseconds = f"{1e3 * np.median(seconds[key]):.0f}"
            lines.append([task, method, len(curve), *at, int(repeated[key][:, -1].sum()), notes.get(key, ""), milliseconds])
    return markdown(["task", "running trials", "seeds", "@20", "@32", f"@{EVALUATIONS}", "repeats", "64 at once", "ms"], lines)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0], "pending.csv").parse_args()
    if not arguments.table:
        seeds = range(arguments.first_seed, arguments.first_seed + (arguments.seeds or (15 if arguments.full else 5)))
        tasks = chosen([objective.name for objective in twelve()], arguments.tasks, exact=False)
        jobs = [Job(t, m, s) for t in tasks for m in chosen(METHODS, arguments.methods, exact=True) for s in seeds]
        run(jobs, work, arguments.out, arguments.workers)
    rows = read(arguments.out)
    print(table(rows))
    plot(curves(rows), arguments.out, "Eight trials at a time", "log10 distance to the optimum")


if __name__ == "__main__":
    main()
