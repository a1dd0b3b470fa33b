"""The direction of imports, and an engine that works where Ray is not installed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ORDER = [
    "errors",
    "lazy",
    "space",
    "objectives",
    "state",
    "store",
    "design",
    "explain",
    "gp",
    "models",
    "acquisition",
    "strategies",
    "optimizer",
    "optimizers",
    "report",
]
"""raytree's parts from the bottom up: a part imports only from itself and from what stands before it."""


def imports(path: Path) -> set[str]:
    """The modules a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


ENGINE = sorted((ROOT / "raytree").rglob("*.py"))


@pytest.mark.parametrize("path", ENGINE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_engine_never_imports_ray_and_parts_import_downwards(path):
    part = path.relative_to(ROOT / "raytree").parts[0].removesuffix(".py")
    for name in imports(path):
        top, *rest = name.split(".")
        assert top != "ray"
        if top == "raytree" and part not in ("__init__", "cli"):
            assert rest[0] in ORDER, f"{path} imports {name}, which has no place in the order"
            assert ORDER.index(rest[0]) <= ORDER.index(part), f"{path} imports {name}, which stands above it"


def test_every_part_has_a_place():
    parts = {p.relative_to(ROOT / "raytree").parts[0].removesuffix(".py") for p in ENGINE}
    assert parts - {"__init__", "cli"} <= set(ORDER)


def test_the_engine_works_where_ray_is_absent():
    code = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
import raytree
from raytree.cli import main
space = {"m": raytree.Categorical([{"x": raytree.Float(0, 1)}, {"y": raytree.Integer(1, 3)}])}
optimizer = raytree.DesignOptimizer(space, seed=0)
for _ in range(6):
    suggestion = optimizer.ask()
    optimizer.tell(suggestion.id, 1.0)
assert optimizer.recommend() is not None
assert not any(name == "ray" or name.startswith("ray.") for name in sys.modules)
try:
    import raytree.searchers
except ModuleNotFoundError:
    print("as it should be")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "as it should be"


def test_what_takes_long_to_import_is_imported_when_it_is_used():
    """SciPy, pandas and plotly: not by raytree, and not by its searchers beyond what Tune imports itself."""
    code = """
import sys
import raytree
heavy = lambda: {name.split(".")[0] for name in sys.modules} & {"scipy", "pandas", "plotly", "matplotlib", "sklearn"}
assert not heavy(), heavy()
import ray.tune
before = heavy()
import raytree.searchers
assert heavy() == before, heavy() - before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_blas_has_one_thread_during_a_fit_whatever_was_imported_before():
    """SciPy is imported when it is first used, and brings a BLAS of its own: it must be limited as well."""
    program = """
from threadpoolctl import threadpool_info
from raytree.gp import linalg
import numpy as np
with linalg.one_thread():
    linalg.cholesky(np.eye(3))
    print([library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"])
"""
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    output = subprocess.run(
        [sys.executable, "-c", program], env=free, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert set(json.loads(output)) == {1}
