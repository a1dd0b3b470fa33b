"""cluster.yaml, kuberay.yaml and the dependency on Ray are safe, and the checks that say so notice when they are not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import raytree

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = (ROOT / "cluster.yaml").read_text()
KUBERAY = (ROOT / "docs" / "how-to" / "kuberay.yaml").read_text()
FIRST_WITH_TOKENS = (2, 52)
TOKEN = "~/.ray/auth_token"


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def complaints(text: str) -> list[str]:
    """What is unsafe in a file for Ray's cluster launcher."""
    config = yaml.safe_load(text)
    commands = [str(line) for key, value in config.items() if key.endswith("commands") for line in value]
    starts = [line for line in commands if "ray start" in line]
    content = yaml.safe_dump(config, width=10_000)  # without comments
    found = [*mounted(config), *guarded(config, commands, starts, content)]
    if re.search(r"0\.0\.0\.0|\[?::\]?[\s\"']", text):
        found.append("listens everywhere, or lets everyone in")
    if any("--head" in line and "--dashboard-host=127.0.0.1" not in line for line in starts):
        found.append("the dashboard is not on loopback")
    if "ray-client-server-port" in text or re.search(r"pip install[^\n]*(ray\[[^\]]*(client|default|all)|grpcio)", text):
        found.append("opens a client server")
    pins = [pin for line in commands if "pip install" in line for pin in re.findall(r"ray\[tune\]==(\d+\.\d+\.\d+)", line)]
    if not pins:
        found.append("Ray is not pinned")
    if any(version(pin) < FIRST_WITH_TOKENS for pin in pins):
        found.append("that Ray has no token authentication")
    if re.search(r"(curl|wget)[^\n]*\|\s*(ba)?sh", text):
        found.append("runs what it downloads")
    if re.search(r"(AKIA[0-9A-Z]{12}|BEGIN [A-Z ]*PRIVATE KEY|RAY_AUTH_TOKEN=|(secret|password)\w*\s*[:=])", text):
        found.append("holds a secret")
    if not isinstance(config.get("max_workers"), int) or not config.get("idle_timeout_minutes"):
        found.append("no limits")
    if "docker" in config or "--privileged" in text:
        found.append("containers with too many rights")
    return found


def mounted(config: dict[str, Any]) -> list[str]:
    """What is copied to the nodes and should not be: anything but the token and single files of this repository."""
    mounts = {**config.get("file_mounts", {}), **{path: path for path in config.get("cluster_synced_files") or []}}
    found = []
    for target, source in mounts.items():
        if (target, source) == (TOKEN, TOKEN):
            continue
        path = Path(str(source))  # a bare ~ is YAML's null
        if str(source).startswith(("~", "/", "$")) or ".." in path.parts or path.suffix not in (".whl", ".py"):
            found.append(f"{target}: {source} may copy more than one file of this repository")
    if config.get("file_mounts_sync_continuously"):
        found.append("goes on copying")
    return found


def guarded(config: dict[str, Any], commands: list[str], starts: list[str], content: str) -> list[str]:
    """What is wrong with token authentication: it must be on for every start, with a token that nobody else can read."""
    found = []
    modes = set(re.findall(r"RAY_AUTH_MODE[=:\s'\"]+(\w+)", content))
    if modes != {"token"} or re.search(r"unset[^\n;]*RAY_AUTH", content) or config.get("file_mounts", {}).get(TOKEN) != TOKEN:
        found.append("no token authentication")
    if not starts or any(
        "RAY_AUTH_MODE=token" not in line and ". ~/raytree.env" not in line.split("ray start")[0] for line in starts
    ):
        found.append("a node starts without token authentication")
    rights = [mode for line in commands for mode in re.findall(r"chmod\s+(?:-\S+\s+)*(\S+)[^\n;&|]*(?:auth_token|\.ray\b)", line)]
    if not rights or any(mode not in ("600", "0600", "400", "0400") for mode in rights):
        found.append("others can read the token")
    return found


# cluster.yaml


def test_the_cluster_file_is_valid_and_safe():
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load(CLUSTER)))
    assert complaints(CLUSTER) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0"),
        ("ray[tune]==2.60.0", "ray[tune]"),
        ("ray[tune]==2.60.0", "ray[tune]==2.51.1"),
        ("ray[tune]==2.60.0", "ray[default,tune]==2.60.0"),
        ("RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled"),
        ("; ray start --address", "; RAY_AUTH_MODE=disabled ray start --address"),
        ("; ray start --address", "; unset RAY_AUTH_MODE; ray start --address"),
        (". ~/raytree.env; ulimit -n 65536; ray start --address", "ray start --address"),
        ("RAY_AUTH_MODE=token", "RAY_AUTH=token"),
        ("ray start --head", "ray start --head --ray-client-server-port=10001"),
        ("idle_timeout_minutes: 15", ""),
        ("chmod 600", "chmod 644"),
        ("chmod 600", "chmod -v 0666"),
        ("chmod 600 ~/.ray/auth_token", "true"),
        ("chmod 600 ~/.ray/auth_token", "chmod 600 ~/.ray/auth_token; chmod a+r ~/.ray/auth_token"),
        ("chmod 600 ~/.ray/auth_token", "chmod 600 ~/.ray/auth_token && chmod -R 755 ~/.ray"),
        ("  ~/.ray/auth_token: ~/.ray/auth_token\n", ""),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: ~\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: '~'\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: .\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: ./\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: $HOME\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: ../other.py\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/.ssh: ~/.ssh\n"),
        ("file_mounts:\n", "file_mounts:\n  ~/raytree: examples\n"),
        ("cluster_synced_files: []", "cluster_synced_files: ['~']"),
        ("sync_continuously: false", "sync_continuously: true"),
    ],
)
def test_the_safety_check_sees_what_is_unsafe(old, new):
    assert old in CLUSTER
    assert complaints(CLUSTER.replace(old, new))


def test_a_wrong_cluster_file_is_refused_by_rays_own_check():
    import click
    import jsonschema
    from ray.autoscaler._private.util import prepare_config, validate_config

    refused = (jsonschema.ValidationError, click.ClickException, ValueError, KeyError, TypeError, NotImplementedError)
    for old, new in (("cluster_name:", "cluster_nam:"), ("head_ip:", "head:"), ("ssh_user:", "sshuser:")):
        with pytest.raises(refused):
            validate_config(prepare_config(yaml.safe_load(CLUSTER.replace(old, new, 1))))


def test_what_is_copied_exists_and_is_this_version():
    sources = [source for source in yaml.safe_load(CLUSTER)["file_mounts"].values() if source != TOKEN]
    wheel = f"dist/raytree-{raytree.__version__}-py3-none-any.whl"
    assert wheel in sources  # built by `make wheel`
    assert all((ROOT / source).is_file() for source in sources if source != wheel)
    assert f"~/raytree/{Path(wheel).name}" in CLUSTER.split("setup_commands")[1]


def test_the_oldest_ray_that_is_allowed_has_token_authentication():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = next(found for line in wanted if (found := re.match(r"ray\[tune\]>=([\d.]+)", line)))
    assert version(lowest.group(1)) >= FIRST_WITH_TOKENS


# kuberay.yaml


def kubernetes_complaints(text: str) -> list[str]:
    """What is unsafe in a manifest with a RayCluster."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    clusters = [document for document in documents if document["kind"] == "RayCluster"]
    found = [] if clusters else ["no cluster"]
    for cluster in clusters:
        spec = cluster["spec"]
        head, groups = spec["headGroupSpec"], [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
        if spec.get("authOptions", {}).get("mode") != "token" or version(spec["rayVersion"]) < FIRST_WITH_TOKENS:
            found.append("no token authentication")
        if head.get("serviceType") != "ClusterIP" or head["rayStartParams"].get("dashboard-host") != "127.0.0.1":
            found.append("reached from outside")
        for group in groups:
            pod = group["template"]["spec"]
            if not pod.get("securityContext", {}).get("runAsNonRoot") or not pod["securityContext"].get("runAsUser"):
                found.append("runs as root")
            if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
                found.append("shares the host's namespaces")
            if group is not head and pod.get("automountServiceAccountToken") is not False:
                found.append("workers may talk to Kubernetes")
            if any("hostPath" in volume for volume in pod.get("volumes", [])):
                found.append("mounts the host's folders")
        contexts = [
            container.get("securityContext", {}) for group in groups for container in group["template"]["spec"]["containers"]
        ]
        if spec.get("enableInTreeAutoscaling"):
            contexts.append(spec.get("autoscalerOptions", {}).get("securityContext", {}))
        for context in contexts:
            if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
                found.append("may get more privileges")
            if context.get("capabilities") != {"drop": ["ALL"]}:
                found.append("keeps capabilities")
        found += fenced(cluster["metadata"]["name"], documents)
    return found


def fenced(name: str, documents: list[dict]) -> list[str]:
    """What is wrong with the fence around a cluster: only its own pods may get in."""
    own = {"matchLabels": {"ray.io/cluster": name}}
    policies = [d["spec"] for d in documents if d["kind"] == "NetworkPolicy" and d["spec"]["podSelector"] == own]
    if not any("Ingress" in policy.get("policyTypes", []) for policy in policies):
        return ["no NetworkPolicy for ingress"]
    if not any("Egress" in policy.get("policyTypes", []) for policy in policies):
        return ["no NetworkPolicy for egress"]
    rules = [rule for policy in policies for rule in policy.get("ingress", [])]
    return [] if rules == [{"from": [{"podSelector": own}]}] else ["strangers get in"]


def test_the_kubernetes_manifest_is_safe():
    assert kubernetes_complaints(KUBERAY) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mode: token", "mode: disabled"),
        ('rayVersion: "2.60.0"', 'rayVersion: "2.51.0"'),
        ("serviceType: ClusterIP", "serviceType: LoadBalancer"),
        ('dashboard-host: "127.0.0.1"', 'dashboard-host: "0.0.0.0"'),
        ("runAsNonRoot: true", "runAsNonRoot: false"),
        ("automountServiceAccountToken: false", "automountServiceAccountToken: true"),
        ("allowPrivilegeEscalation: false, ", ""),
        ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: false, privileged: true"),
        ("capabilities: {drop: [ALL]}", "capabilities: {drop: [ALL], add: [SYS_ADMIN]}"),
        ("kind: NetworkPolicy", "kind: Policy"),
        ("policyTypes: [Ingress, Egress]", "policyTypes: [Egress]"),
        ("policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]"),
        ("- from: [{podSelector: {matchLabels: {ray.io/cluster: raytree}}}]", "- {}"),
        ("podSelector: {matchLabels: {ray.io/cluster: raytree}}\n", "podSelector: {matchLabels: {ray.io/cluster: other}}\n"),
        ("persistentVolumeClaim: {claimName: raytree-results}", "hostPath: {path: /}"),
    ],
)  # fmt: skip
def test_the_kubernetes_check_sees_what_is_unsafe(old, new):
    assert old in KUBERAY
    assert kubernetes_complaints(KUBERAY.replace(old, new))


def test_the_security_page_says_how_to_report():
    text = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / link).exists()
