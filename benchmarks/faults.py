"""A soak: drivers, workers and nodes killed while trials run, bad inputs, hostile state files. Counts, not adjectives.

    python benchmarks/faults.py                          all four searchers; about half an hour on two cores
    python benchmarks/faults.py --parts states,inputs    without Ray

- driver: the driver and its Ray are killed with SIGKILL at random moments, 20 over all searchers, and the experiment is restored.
- workers: on a local Ray, processes that run trials are killed at random until enough are dead.
- nodes: on a cluster of four, a node is killed with all it runs, then another; new ones join for the next searcher.
- states: state files of each searcher with nasty things in them, under checksums that fit; cut and flipped ones.
- inputs: random sequences of everything Tune may call, in any order (tests/events.py).

Observations lost or doubled, and exceptions that are not ours, must be 0.
"""

from __future__ import annotations

import argparse
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
from typing import Any

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")

import numpy as np
from harness import markdown
from ray import tune

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import raytree.searchers

SEARCHERS = ("TreeSearcher", "CondKernelSearcher", "HTBOSearcher", "BOSHSearcher")
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}


def trainable(config: dict[str, Any], folder: str) -> None:
    """Leaves its process id while it runs, for the killer to find."""
    mark = Path(folder) / f"{os.getpid()}.pid"
    mark.touch()
    try:
        for _ in range(4):
            time.sleep(0.5)
            tune.report({"loss": config["m"].get("x", 0.4) + 0.01 * config["m"].get("y", 0)})
    finally:
        mark.unlink(missing_ok=True)


def experiment(name: str, folder: str, trials: int) -> tuple[int, int, int]:
    """Runs with retries without end: observations, lost, doubled."""
    searcher = getattr(raytree.searchers, name)(seed=0, num_initial=4)
    results = tune.Tuner(
        tune.with_parameters(trainable, folder=folder),
        param_space=SPACE,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=trials, search_alg=searcher, max_concurrent_trials=3),
        run_config=tune.RunConfig(verbose=0, storage_path=folder, name=name, failure_config=tune.FailureConfig(max_failures=-1)),
    ).fit()
    table = searcher.observations()
    known = dict(zip(table["trial_id"], table["value"], strict=True))
    lost = sum(known.get(r.metrics["trial_id"]) != r.metrics["loss"] for r in results) + trials - len(results)
    return len(table), lost, int(table["trial_id"].duplicated().sum()) + max(0, len(table) - trials)


def driver_part(count: int) -> list[list[Any]]:
    from tests.kills import survive

    lines = []
    for k, name in enumerate(SEARCHERS):
        kills = known = lost = doubled = missing = 0
        rng = np.random.default_rng(k)
        moments = np.sort(rng.uniform(0.05, 0.9, count)).tolist()
        for chunk in (moments[0::2], moments[1::2]):
            with tempfile.TemporaryDirectory() as folder:
                report = survive(name, Path(folder), chunk, rng)
            kills, known, lost = kills + report.kills, known + report.known, lost + report.lost
            doubled, missing = doubled + report.doubled, missing + report.missing
        lines.append(["driver killed", name, kills, known, lost + missing, doubled])
        print("  ", *lines[-1], flush=True)
    return lines


def under_fire(fault: str, name: str, trials: int, count: int, kill: Callable[[str, random.Random], bool]) -> list[Any]:
    """Experiments during which something is killed every few seconds, until enough is dead. `kill` says if it hit something."""
    dead = known = lost = doubled = 0
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
            counts = experiment(name, folder, trials)
            over.set()
            killer.join()
        known, lost, doubled = known + counts[0], lost + counts[1], doubled + counts[2]
    line = [fault, name, dead, known, lost, doubled]
    print("  ", *line, flush=True)
    return line


def workers_part(count: int) -> list[list[Any]]:
    import ray

    def kill(folder: str, chance: random.Random) -> bool:
        marks = sorted(Path(folder).glob("*.pid"))
        if not marks:
            return False
        mark = chance.choice(marks)
        mark.unlink(missing_ok=True)
        try:
            os.kill(int(mark.stem), signal.SIGKILL)  # a worker of the Ray that this program started
        except ProcessLookupError:
            return False
        return True

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    lines = [under_fire("worker killed", name, 12, count, kill) for name in SEARCHERS]
    ray.shutdown()
    return lines


def nodes_part(count: int) -> list[list[Any]]:
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    nodes: list[Any] = []

    def kill(folder: str, chance: random.Random) -> bool:
        if len(nodes) < 2 or not any(Path(folder).glob("*.pid")):
            return False  # none to spare, or nothing runs yet
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
        return True

    lines = []
    for name in SEARCHERS:
        nodes += [cluster.add_node(**small) for _ in range(count + 1 - len(nodes))]  # a thread cannot start one
        if not ray.is_initialized():
            ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        lines.append(under_fire("node killed", name, 10, count, kill))
    ray.shutdown()
    cluster.shutdown()
    return lines


def states_part(count: int) -> list[list[Any]]:
    from tests.events import saved
    from tests.hostile import files
    from tests.test_states import attempt, made

    lines = []
    for name in (*SEARCHERS, "RandomSearcher"):
        running = made(name)
        text = saved(running)
        tried = refused = changed = 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.json"
            for content in files(text, np.random.default_rng(1), count):
                path.write_bytes(content)
                tried += 1
                if attempt(running, path) is not None:
                    refused += 1
                    changed += saved(running) != text
                else:
                    running.suggest("next")
                    running = made(name)
        lines.append(["hostile state", name, tried, f"{refused} refused", changed, 0])
        print("  ", *lines[-1], flush=True)
    return lines


def inputs_part(count: int) -> list[list[Any]]:
    from fuzz import BLOCK, sequences

    lines = []
    for name in SEARCHERS:
        blocks = max(1, count // BLOCK)
        events = sum(sequences(name, 10_000 + block) for block in range(blocks))
        lines.append(["sequences of events", name, blocks * BLOCK, f"{events} events", 0, 0])
        print("  ", *lines[-1], flush=True)
    return lines


PARTS = {
    "driver": (driver_part, 5),
    "workers": (workers_part, 5),
    "nodes": (nodes_part, 2),
    "states": (states_part, 2000),
    "inputs": (inputs_part, 500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="a multiple of the usual counts")
    arguments = parser.parse_args()
    logging.getLogger("raytree").setLevel(logging.CRITICAL)
    lines = []
    for part in arguments.parts.split(","):
        work, usual = PARTS[part]
        print(f"{part} ...", flush=True)
        lines += work(max(1, round(arguments.scale * usual)))
    print(markdown(["fault", "searcher", "count", "observations", "lost or changed", "doubled"], lines))


if __name__ == "__main__":
    main()
