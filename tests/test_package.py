"""What people install and what they clone: `raytree.searchers` is in both, and neither hides the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_CLONED = (".git", ".venv", "build", "dist", "site", "*.egg-info", "__pycache__", ".*_cache", "results")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def run(*command: str, folder: Path, **environment: str) -> str:
    """What a command prints, in a folder and without this environment's PYTHONPATH."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env={**own, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def built(kind: str, source: Path, to: Path) -> Path:
    """The wheel or sdist of the project in a folder."""
    return to / run(sys.executable, "-W", "ignore", "-c", BUILD, f"build_{kind}", str(to), folder=source).splitlines()[-1]


def modules(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if name.startswith("raytree/")}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A copy of the repository, its links as links."""
    folder = tmp_path_factory.mktemp("clone") / "raytree"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*NOT_CLONED))
    return folder


@pytest.fixture(scope="module")
def wheel(clone) -> Path:
    return built("wheel", clone, clone.parent)


def test_the_link_is_relative():
    assert os.readlink(ROOT / "raytree" / "searchers") == "../searchers"


def test_the_wheel_holds_every_module_and_no_link(wheel):
    wanted = {str(path.relative_to(ROOT)) for path in (ROOT / "raytree").rglob("*.py")}
    wanted |= {f"raytree/{path.relative_to(ROOT)}" for path in (ROOT / "searchers").glob("*.py")}
    assert {name for name in modules(wheel) if name.endswith(".py")} == wanted
    with zipfile.ZipFile(wheel) as archive:
        assert not [name.filename for name in archive.infolist() if (name.external_attr >> 16) & 0o170000 == 0o120000]


def test_the_sdist_builds_the_same_wheel(clone, wheel, tmp_path):
    with tarfile.open(built("sdist", clone, tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert modules(built("wheel", source, tmp_path)) == modules(wheel)


def test_a_plain_install_works_from_the_root_of_a_clone_and_from_elsewhere(clone, wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    where = "import raytree.searchers; print(raytree.searchers.__file__)"
    assert run(sys.executable, "-c", where, folder=clone, PYTHONPATH=str(site)).startswith(str(clone))
    assert run(sys.executable, "-c", where, folder=tmp_path, PYTHONPATH=str(site)).startswith(str(site))
    assert "--samples" in run(sys.executable, "examples/classifiers.py", "--help", folder=clone, PYTHONPATH=str(site))


def test_every_supported_python_is_in_both_matrices():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    supported = re.findall(r"Programming Language :: Python :: (3\.\d+)", project)
    assert f'requires-python = ">={supported[0]}"' in project
    assert f"for version in {' '.join(supported)}; do" in (ROOT / ".ci" / "matrix").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r"version: \"?([\w.]+)\"?, python", workflow) == ["oldest", *supported]
