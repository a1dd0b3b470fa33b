"""Several nodes: cluster.yaml, and a real cluster of three Ray nodes on this machine that loses one."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from ray import tune
from ray.tune.search import ConcurrencyLimiter

from raytree.searchers import BOSHSearcher, CondKernelSearcher, HTBOSearcher, TreeSearcher

ROOT = Path(__file__).resolve().parent.parent
SEARCHERS = [TreeSearcher, CondKernelSearcher, HTBOSearcher, BOSHSearcher]
SPACE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b", "y": tune.randint(1, 100)}])}


# cluster.yaml


def complaints(text: str) -> list[str]:
    """What is unsafe in a cluster file."""
    config = yaml.safe_load(text)
    commands = [line for key, value in config.items() if key.endswith("commands") for line in value]
    starts = [line for line in commands if "ray start" in line]
    found = []
    if re.search(r"0\.0\.0\.0|\[?::\]?[\s\"']", text):
        found.append("listens everywhere, or lets everyone in")
    if any("--head" in line and "--dashboard-host=127.0.0.1" not in line for line in starts):
        found.append("the dashboard is not on loopback")
    if "ray-client-server-port" in text or re.search(r"pip install[^\n]*(ray\[[^\]]*(client|default|all)|grpcio)", text):
        found.append("opens a client server")
    installs = [line for line in commands if "pip install" in line]
    if not any(re.search(r"ray\[tune\]==\d+\.\d+\.\d+", line) for line in installs):
        found.append("Ray is not pinned")
    if re.search(r"(curl|wget)[^\n]*\|\s*(ba)?sh", text):
        found.append("runs what it downloads")
    if not any("RAY_AUTH_MODE=token" in line for line in commands) or "~/.ray/auth_token" not in config.get("file_mounts", {}):
        found.append("no token authentication")
    if re.search(r"(AKIA[0-9A-Z]{12}|BEGIN [A-Z ]*PRIVATE KEY|RAY_AUTH_TOKEN=|(secret|password)\w*\s*[:=])", text):
        found.append("holds a secret")
    if not isinstance(config.get("max_workers"), int) or not config.get("idle_timeout_minutes"):
        found.append("no limits")
    if "docker" in config or "--privileged" in text:
        found.append("containers with too many rights")
    return found


def test_the_cluster_file_is_valid_and_safe():
    from ray.autoscaler._private.util import prepare_config, validate_config

    text = (ROOT / "cluster.yaml").read_text()
    validate_config(prepare_config(yaml.safe_load(text)))
    assert complaints(text) == []
    assert not (ROOT / "docs" / "how-to" / "kuberay.yaml").read_text().count("0.0.0.0")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0"),
        ("ray[tune]==2.60.0", "ray[tune]"),
        ("ray[tune]==2.60.0", "ray[default,tune]==2.60.0"),
        ("RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled"),
        ("ray start --head", "ray start --head --ray-client-server-port=10001"),
        ("idle_timeout_minutes: 15", ""),
    ],
)
def test_the_safety_check_sees_what_is_unsafe(old, new):
    assert complaints((ROOT / "cluster.yaml").read_text().replace(old, new))


def test_a_wrong_cluster_file_is_refused_by_rays_own_check():
    import click
    import jsonschema
    from ray.autoscaler._private.util import prepare_config, validate_config

    text = (ROOT / "cluster.yaml").read_text()
    refused = (jsonschema.ValidationError, click.ClickException, ValueError, KeyError, TypeError, NotImplementedError)
    for old, new in (("cluster_name:", "cluster_nam:"), ("head_ip:", "head:"), ("ssh_user:", "sshuser:")):
        with pytest.raises(refused):
            validate_config(prepare_config(yaml.safe_load(text.replace(old, new, 1))))


# Three nodes


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


def slow(config):
    import ray

    for _ in range(4):
        time.sleep(1.0)
        tune.report({"loss": value(config), "node": ray.get_runtime_context().get_node_id()})


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
    assert table["trial_id"].is_unique
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

    def kill() -> None:
        while len(searcher._optimizer.pending if searcher._optimizer else []) < 3:
            time.sleep(0.1)
        time.sleep(4.0)
        made.remove_node(workers.pop(), allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    results = fit(searcher, tmp_path, "run", slow, samples=6, failures=3)
    killer.join()
    once_each(searcher, results, 6)
    assert len({result.metrics["node"] for result in results}) <= 3
