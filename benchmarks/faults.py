"""A soak: drivers, workers and nodes killed while trials run, bad inputs, hostile state files. Counts, not adjectives.

    nice -n 19 python benchmarks/faults.py               everything; about an hour on two cores
    python benchmarks/faults.py --parts states,inputs    without Ray

- driver: the driver and its Ray are killed with SIGKILL at random moments, 20 over all searchers, and the experiment is restored.
- workers: on a local Ray, processes that run trials are killed at random, 20 over all searchers.
- nodes: on a cluster, a node that holds a running trial is killed with all it runs, 20 over all searchers.
- states: 5,000 state files of each searcher with nasty things in them, under checksums that fit; cut and flipped ones.
- inputs: random sequences of everything Tune may call, in any order (tests/events.py).

Observations lost, doubled or misreported (another value, t or configuration than Tune has), and exceptions that are not
raytree's own, must be 0. Rows go to a CSV file, and a run that was interrupted goes on after the last one.
"""

from __future__ import annotations

import argparse
import csv
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

import numpy as np
from harness import markdown
from ray import tune

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import raytree.searchers
from tests.events import saved
from tests.hostile import files
from tests.kills import SPACE, Differences, Told, differences, loss, survive
from tests.test_states import attempt, inside, made

SEARCHERS = ("TreeSearcher", "CondKernelSearcher", "HTBOSearcher", "BOSHSearcher")


FAULTS = {
    "driver": "driver killed", "workers": "worker killed", "nodes": "node killed", "states": "hostile state",
    "inputs": "sequences of events",
}  # fmt: skip
FIELDS = ("fault", "searcher", "count", "observations", "lost", "doubled", "misreported")


class Row(NamedTuple):
    """Counts for one fault and one searcher; `observations` are known trials, refused files or events."""

    fault: str
    searcher: str
    count: int
    observations: int
    lost: int
    doubled: int
    misreported: int


def trainable(config: dict[str, Any], folder: str) -> None:
    """Leaves node and process id while it runs, for the killer to find."""
    import ray

    mark = Path(folder) / f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}.pid"
    mark.touch()
    try:
        for t in range(1, 5):
            time.sleep(0.5)
            tune.report({"loss": loss(config, t)})
    finally:
        mark.unlink(missing_ok=True)


def experiment(name: str, folder: str, trials: int) -> tuple[int, Differences]:
    """Runs with retries without end; returns the number of observations, and how they differ from Tune's results."""
    searcher = getattr(raytree.searchers, name)(seed=0, num_initial=4)
    results = tune.Tuner(
        tune.with_parameters(trainable, folder=folder),
        param_space=SPACE,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=trials, search_alg=searcher, max_concurrent_trials=3),
        run_config=tune.RunConfig(verbose=0, storage_path=folder, name=name, failure_config=tune.FailureConfig(max_failures=-1)),
    ).fit()
    record = {r.metrics["trial_id"]: Told(r.config, r.metrics["loss"], r.metrics["training_iteration"]) for r in results}
    assert len(record) == trials, f"{trials - len(record)} trials of {name} did not end"
    table = searcher.observations()
    return len(table), differences(table, record, {})


def driver_part(name: str, count: int) -> Row:
    kills = known = lost = doubled = wrong = attempt = 0
    rng = np.random.default_rng(SEARCHERS.index(name))
    while kills < count:
        moments = np.sort(rng.uniform(0.05, 0.9, min(3, count - kills))).tolist()
        with tempfile.TemporaryDirectory() as folder:
            report = survive(name, Path(folder), moments, rng)
        assert report.ended, f"experiment {attempt} of {name} did not end"
        if report.damaged:
            print(f"   {report.damaged} kills damaged Tune's own record", flush=True)
        kills, known, attempt = kills + report.kills, known + report.known, attempt + 1
        lost, doubled, wrong = lost + report.lost + report.missing, doubled + report.doubled, wrong + report.misreported
    return Row("driver killed", name, kills, known, lost, doubled, wrong)


def under_fire(fault: str, name: str, trials: int, count: int, kill: Callable[[str, random.Random], bool]) -> Row:
    """Experiments during which something is killed every few seconds, until enough is dead. `kill` says if it hit something."""
    dead = known = lost = doubled = wrong = 0
    chance = random.Random(name)
    while dead < count:
        with tempfile.TemporaryDirectory() as folder:
            over = threading.Event()

            def shoot(folder: str = folder, over: threading.Event = over) -> None:
                nonlocal dead
                while dead < count and not over.wait(chance.uniform(1.0, 3.0)):
                    dead += kill(folder, chance)

            killer = threading.Thread(target=shoot)
            killer.start()
            observed, found = experiment(name, folder, trials)
            over.set()
            killer.join()
        known, lost = known + observed, lost + found.lost + found.missing
        doubled, wrong = doubled + found.doubled, wrong + found.misreported
    return Row(fault, name, dead, known, lost, doubled, wrong)


def workers_part(name: str, count: int) -> Row:
    import ray

    def kill(folder: str, chance: random.Random) -> bool:
        marks = sorted(Path(folder).glob("*.pid"))
        if not marks:
            return False
        mark = chance.choice(marks)
        mark.unlink(missing_ok=True)
        try:
            os.kill(int(mark.stem.split("-")[1]), signal.SIGKILL)  # a worker of the Ray that this program started
        except ProcessLookupError:
            return False
        return True

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    row = under_fire("worker killed", name, 12, count, kill)
    ray.shutdown()
    return row


def nodes_part(name: str, count: int) -> Row:
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(**small) for _ in range(count + 1)]  # a thread cannot start one
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)

    def kill(folder: str, chance: random.Random) -> bool:
        """Kills a node that holds a running trial; one is spared, to do the work."""
        busy = {mark.stem.split("-")[0] for mark in Path(folder).glob("*.pid")}
        held = [node for node in nodes if node.node_id in busy]
        if len(nodes) < 2 or not held:
            return False
        node = chance.choice(held)
        nodes.remove(node)
        cluster.remove_node(node, allow_graceful=False)
        for mark in Path(folder).glob(f"{node.node_id}-*.pid"):
            mark.unlink(missing_ok=True)
        return True

    row = under_fire("node killed", name, 10, count, kill)
    ray.shutdown()
    cluster.shutdown()
    return row


def states_part(name: str, count: int) -> Row:
    """`lost` counts searches that a refused file has changed, `misreported` suggestions outside the user's space."""
    running = made(name)
    text = saved(running)
    tried = refused = changed = outside = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        for content in files(text, np.random.default_rng(1), count):
            path.write_bytes(content)
            tried += 1
            if attempt(running, path) is not None:
                refused += 1
                changed += saved(running) != text
            else:
                outside += not inside(running, running.suggest("next"))
                running = made(name)
    return Row("hostile state", name, tried, refused, changed, 0, outside)


def inputs_part(name: str, count: int) -> Row:
    from fuzz import BLOCK, sequences

    blocks = max(1, count // BLOCK)
    events = sum(sequences(name, 10_000 + block) for block in range(blocks))
    return Row("sequences of events", name, blocks * BLOCK, events, 0, 0, 0)


PARTS: dict[str, tuple[Callable[[str, int], Row], int]] = {
    "driver": (driver_part, 5),
    "workers": (workers_part, 5),
    "nodes": (nodes_part, 5),
    "states": (states_part, 5000),
    "inputs": (inputs_part, 500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="a multiple of the usual counts")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "faults.csv")
    arguments = parser.parse_args()
    logging.getLogger("raytree").setLevel(logging.CRITICAL)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    if arguments.out.exists():
        with arguments.out.open(newline="") as file:
            rows = [list(row.values()) for row in csv.DictReader(file)]
    done = {(row[0], row[1]) for row in rows}
    for part in arguments.parts.split(","):
        work, usual = PARTS[part]
        for name in (*SEARCHERS, "RandomSearcher") if part == "states" else SEARCHERS:
            if (FAULTS[part], name) in done:
                continue
            row = work(name, max(1, round(arguments.scale * usual)))
            print("  ", *row, flush=True)
            with arguments.out.open("a", newline="") as file:
                writer = csv.writer(file)
                if not rows:
                    writer.writerow(FIELDS)
                writer.writerow(row)
            rows.append(list(map(str, row)))
    print(markdown(list(FIELDS), rows))


if __name__ == "__main__":
    main()
