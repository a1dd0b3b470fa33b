"""The `raytree` command."""

from __future__ import annotations

import subprocess
import sys

import pytest

import raytree
from raytree.cli import main

MODULE = """
from ray import tune
import raytree
space = {"m": tune.choice([{"x": tune.uniform(0, 1)}, {"y": tune.randint(1, 4)}])}
bad = {"m": tune.choice([{"x": tune.grid_search([1])}])}
class inside:
    own = raytree.Space({"a": raytree.Categorical([1, 2])})
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "tuning_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield "tuning_module"
    sys.modules.pop("tuning_module", None)


def test_version():
    done = subprocess.run(
        [sys.executable, "-c", "from raytree.cli import main; main(['--version'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"raytree {raytree.__version__}"


def test_a_space_is_drawn_with_examples(module, capsys):
    assert main(["space", f"{module}:space"]) == 0
    shown = capsys.readouterr().out
    assert "2 paths, 3 parameters" in shown
    assert "y  int[1, 3]" in shown
    assert "{'m': {" in shown


def test_our_own_spaces_too(module, capsys):
    assert main(["space", f"{module}:inside.own"]) == 0
    assert "2 configurations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (":bad", "m[0].x: tune.grid_search"),
        (":absent", "has no absent"),
        ("", "expected MODULE:NAME"),
        ("x:y", "cannot import"),
    ],
)
def test_mistakes_are_explained(module, target, words, capsys):
    assert main(["space", (module if target.startswith(":") or not target else "") + target]) == 1
    assert words in capsys.readouterr().err
