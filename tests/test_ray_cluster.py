"""A real cluster of three Ray nodes on this machine that loses one."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ray import tune
from ray.tune.search import ConcurrencyLimiter

from raytree.searchers import BOSHSearcher, CondKernelSearcher, HTBOSearcher, TreeSearcher

ROOT = Path(__file__).resolve().parent.parent
SEARCHERS = [TreeSearcher, CondKernelSearcher, HTBOSearcher, BOSHSearcher]
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}


@pytest.fixture(scope="module")
def cluster():
    """A head and two workers, each a raylet of its own, with two slots each."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 2, "object_store_memory": 100 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    workers = [made.add_node(**small) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False, logging_level=logging.ERROR)
    yield made, workers
    ray.shutdown()
    made.shutdown()


def value(config) -> float:
    return config["m"].get("x", 0.4) + 0.01 * config["m"].get("y", 0)


def meeting(config, seen, nodes):
    """Goes on when trials have run on so many nodes. Two slots a node, so that more than four trials at once take all three."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    (Path(seen) / node).touch()
    waited = 0.0
    while len(list(Path(seen).iterdir())) < nodes and waited < 120.0:
        time.sleep(0.1)
        waited += 0.1
    tune.report({"loss": value(config), "node": node})


def slow(config, marks):
    """Leaves a mark with node and trial while it runs."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    mark = Path(marks) / f"{node}-{tune.get_context().get_trial_id()}"
    mark.touch()
    for _ in range(4):
        time.sleep(1.0)
        tune.report({"loss": value(config), "node": node})
    mark.unlink()


def fit(searcher, folder, name, trainable, samples, failures=0):
    return tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=samples,
            search_alg=ConcurrencyLimiter(searcher, max_concurrent=3),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            verbose=0, storage_path=str(folder), name=name, failure_config=tune.FailureConfig(max_failures=failures)
        ),
    ).fit()


def once_each(searcher, results, samples) -> None:
    """Every trial is an observation, exactly once, with the value it reported."""
    assert len(results) == samples
    assert not results.errors
    table = searcher.observations()
    assert len(table) == samples
    assert (table["status"] == "finished").all()
    reported = {result.metrics["trial_id"]: result.metrics["loss"] for result in results}
    assert dict(zip(table["trial_id"], table["value"], strict=True)) == pytest.approx(reported)


def drive(address: str, name: str, folder: str) -> None:
    """One experiment in a process of its own; prints what the searcher knows and where trials ran."""
    import ray

    import raytree.searchers

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    searcher = getattr(raytree.searchers, name)(seed=0, num_initial=3)
    results = fit(searcher, folder, name, tune.with_parameters(meeting, seen=f"{folder}/seen", nodes=3), samples=5)
    once_each(searcher, results, 5)
    print("nodes", *{result.metrics["node"] for result in results})


def test_every_searcher_on_three_nodes_all_at_once(cluster, tmp_path):
    made, _ = cluster
    (tmp_path / "seen").mkdir()
    program = "import sys; from tests.test_ray_cluster import drive; drive(*sys.argv[1:])"
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", program, made.address, kind.__name__, str(tmp_path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for kind in SEARCHERS
    ]  # fmt: skip
    nodes = set()
    for kind, driver in zip(SEARCHERS, drivers, strict=True):
        out, err = driver.communicate(timeout=240)
        assert driver.returncode == 0, f"{kind.__name__}: {err[-2000:]}"
        nodes |= set(re.search(r"^nodes (.*)$", out, re.MULTILINE).group(1).split())
    assert len(nodes) == 3


def test_a_node_dies_and_its_trials_finish_elsewhere(cluster, tmp_path):
    made, workers = cluster
    searcher = TreeSearcher(seed=0, num_initial=3)
    marks = tmp_path / "marks"
    marks.mkdir()
    dead: dict[str, set[str]] = {}

    def kill() -> None:
        """Kills the first worker that holds a running trial."""
        deadline = time.time() + 120
        while not dead and time.time() < deadline:
            time.sleep(0.1)
            running = [mark.name.split("-", 1) for mark in marks.iterdir()]
            for node in workers:
                held = {trial_id for node_id, trial_id in running if node_id == node.node_id}
                if held:
                    made.remove_node(node, allow_graceful=False)
                    dead[node.node_id] = held
                    break

    killer = threading.Thread(target=kill)
    killer.start()
    results = fit(searcher, tmp_path, "run", tune.with_parameters(slow, marks=str(marks)), samples=6, failures=3)
    killer.join()
    once_each(searcher, results, 6)
    ((node_id, held),) = dead.items()
    ran_on = {result.metrics["trial_id"]: result.metrics["node"] for result in results}
    assert held <= set(ran_on)
    assert all(ran_on[trial_id] != node_id for trial_id in held)
    assert {mark.name for mark in marks.iterdir()} == {f"{node_id}-{trial_id}" for trial_id in held}  # ended with the node
