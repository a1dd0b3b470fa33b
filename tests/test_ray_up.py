"""`ray up cluster.yaml` for real: three hosts and a laptop in namespaces of their own, over ssh; one is cut off, one powered off.

Needs root, Linux namespaces, iproute2, sshd, ssh and rsync; says what is missing otherwise. The hosts have no network but their
own, so the two set-up commands of cluster.yaml that install packages are replaced by a link to this environment, and the wheel
that is copied to them is an empty file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.slow
HOSTS = {"one": "10.77.0.1", "two": "10.77.0.2", "three": "10.77.0.3", "laptop": "10.77.0.9"}


def sh(command: str, timeout: float = 120, check: bool = True) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        raise RuntimeError(f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def missing() -> str | None:
    """Why this machine cannot do it."""
    if os.geteuid() != 0:
        return "needs root, to make namespaces"
    tools = [tool for tool in ("ip", "unshare", "sshd", "ssh", "ssh-keygen", "rsync") if shutil.which(tool) is None]
    if tools:
        return f"needs {', '.join(tools)} (Debian: openssh-server openssh-client rsync iproute2)"
    probe = subprocess.run(["unshare", "--net", "--pid", "--fork", "--mount", "--uts", "true"], capture_output=True, text=True)
    return f"cannot make namespaces: {probe.stderr.strip()}" if probe.returncode else None


class Network:
    """Hosts on a bridge that lives in a namespace of its own, so that nothing outside sees them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rt", dir="/var/tmp"))
        self.tag = f"rt{os.getpid() % 10000}"
        self.hosts: dict[str, subprocess.Popen] = {}
        switch = f"{self.tag}sw"
        sh(f"ip netns add {switch}; ip -n {switch} link add br0 type bridge; ip -n {switch} link set br0 up")
        for name in ("id", "host_key"):
            sh(f"ssh-keygen -q -t ed25519 -N '' -f {self.folder}/{name}")
        (self.folder / "auth_token").write_text(os.urandom(32).hex())
        (self.folder / "auth_token").chmod(0o600)
        for name, address in HOSTS.items():
            space = f"{self.tag}{name}"
            sh(
                f"ip netns add {space}; ip -n {switch} link add {name} type veth peer name eth0 netns {space};"
                f"ip -n {switch} link set {name} master br0 up; ip -n {space} link set lo up;"
                f"ip -n {space} addr add {address}/24 dev eth0; ip -n {space} link set eth0 up;"
                f"ip -n {space} route add default dev eth0"
            )
            self.boot(name)

    def boot(self, name: str) -> None:
        kept = [str(ROOT), sys.base_prefix, sys.prefix]
        command = ["ip", "netns", "exec", f"{self.tag}{name}", "unshare", "--pid", "--fork", "--mount", "--uts", "--mount-proc"]
        command += ["--kill-child=KILL", "bash", str(ROOT / "tests" / "host_init.sh"), name, HOSTS[name], str(self.folder), *kept]
        log = (self.folder / f"{name}.log").open("w")
        self.hosts[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def on_laptop(self, command: str, timeout: float = 120, check: bool = True) -> str:
        """A command in a login shell of the laptop, by ssh."""
        options = f"-i {self.folder}/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        script = self.folder / "command.sh"
        script.write_text(
            f"set -e\nexport PATH={sys.prefix}/bin:$PATH RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0\n{command}\n"
        )
        enter = f"ip netns exec {self.tag}laptop"
        return sh(f"{enter} ssh {options} root@{HOSTS['laptop']} bash {script}", timeout, check)

    def cut(self, name: str) -> None:
        sh(f"ip -n {self.tag}sw link set {name} down")

    def power_off(self, name: str) -> None:
        self.hosts[name].kill()

    def close(self) -> None:
        for host in self.hosts.values():
            host.kill()
            host.wait()
        for name in HOSTS:
            sh(f"for p in $(ip netns pids {self.tag}{name}); do kill -9 $p; done; ip netns del {self.tag}{name}", check=False)
        sh(f"ip netns del {self.tag}sw", check=False)
        time.sleep(1.0)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def network():
    reason = missing()
    if reason is not None:
        pytest.skip(f"ray up over ssh: {reason}")
    made = Network()
    yield made
    made.close()


def filled_in(network: Network) -> str:
    """cluster.yaml with addresses, key and token of these hosts, small nodes, and links instead of downloads."""
    text = (ROOT / "cluster.yaml").read_text()
    (network.folder / "stand-in.whl").touch()
    text, replaced = re.subn(r": dist/\S+\.whl", f": {network.folder}/stand-in.whl", text)
    assert replaced == 1
    for old, new in (
        ("192.0.2.10", HOSTS["one"]), ("192.0.2.11", HOSTS["two"]), ("192.0.2.12", HOSTS["three"]),
        ("ssh_user: ray", "ssh_user: root"), ("~/.ssh/id_ed25519", f"{network.folder}/id"),
        ("~/.ray/auth_token: ~/.ray/auth_token", f"~/.ray/auth_token: {network.folder}/auth_token"),
        ("ray start --head", "ray start --head --num-cpus=1 --object-store-memory=100000000"),
        ("ray start --address", "ray start --num-cpus=1 --object-store-memory=100000000 --address"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    text, replaced = re.subn(
        r"  - python3.11 -m venv[^\n]*\n  - [^\n]*pip install[^\n]*\n", f"  - ln -sfn {sys.prefix} ~/raytree-venv\n", text
    )
    assert replaced == 1
    # A lost link is noticed in seconds, not in a minute.
    quick = "RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=2000 RAY_health_check_failure_threshold=3"
    return text.replace("RAY_USAGE_STATS_ENABLED=0", f"RAY_USAGE_STATS_ENABLED=0 {quick}")


def test_ray_up_submit_and_down_with_two_hosts_lost(network):
    (network.folder / "cluster.yaml").write_text(filled_in(network))
    deadline = time.time() + 30
    while True:
        try:
            network.on_laptop("mkdir -p ~/.ray && true")
            break
        except RuntimeError:
            assert time.time() < deadline, "the laptop does not answer"
            time.sleep(0.5)
    network.on_laptop(f"cp {network.folder}/auth_token ~/.ray/auth_token; chmod 600 ~/.ray/auth_token")
    yaml = f"{network.folder}/cluster.yaml"
    up = f"cd {ROOT} && RAY_UP_enable_autoscaler_v2=0 ray up -y --no-config-cache {yaml}"
    network.on_laptop(up, timeout=300)
    deadline = time.time() + 120
    while "/3.0 CPU" not in network.on_laptop(f"ray exec {yaml} 'ray status'", check=False):
        assert time.time() < deadline, "the workers did not come"
        time.sleep(3.0)

    results = network.folder / "results"
    job = f"ray submit {yaml} {ROOT}/examples/cluster.py -- --address auto --samples 14 --data wine --storage {results} 2>&1"
    out: dict[str, str] = {}

    def run() -> None:
        out["job"] = network.on_laptop(job, timeout=420, check=False)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.time() + 120
    while len(list(results.glob("raytree-cluster/objective_*/result.json"))) < 3:
        assert time.time() < deadline, "no trial ran"
        assert thread.is_alive(), out.get("job", "")[-3000:]
        time.sleep(0.5)
    network.cut("two")
    time.sleep(2.0)
    network.power_off("three")
    thread.join(timeout=450)
    assert "recommended: " in out["job"], out["job"][-3000:]
    counts = [int(number) for number in re.findall(r"10\.77\.0\.\d \(\w+\): (\d+)", out["job"])]
    assert sum(counts) == 14, out["job"][-1500:]
    network.on_laptop(f"RAY_UP_enable_autoscaler_v2=0 ray down -y {yaml}", timeout=240, check=False)
    left = sh(f"for p in $(ip netns pids {network.tag}one); do cat /proc/$p/comm; done", check=False)
    assert "raylet" not in left
