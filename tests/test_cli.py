"""The `raytree` command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import raytree
from raytree.cli import main

ROOT = Path(__file__).resolve().parent.parent
MODULE = """
from ray import tune
import raytree
space = {"m": tune.choice([{"x": tune.uniform(0, 1)}, {"y": tune.randint(1, 4)}])}
bad = {"m": tune.choice([{"x": tune.grid_search([1])}])}
constants = {"a": 1, "b": {"c": "x"}}
number = 3
text = "space"
function = lambda: space
listed = [tune.uniform(0, 1)]
domain = tune.uniform(0, 1)
class inside:
    own = raytree.Space({"a": raytree.Categorical([1, 2])})
    @property
    def broken(self):
        raise RuntimeError("no space today")
thing = inside()
endless = {}
endless["self"] = endless
many = {f"x{k}": tune.choice([{"y": tune.uniform(0, 1)}, 1]) for k in range(40)}
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
        (":constants", "nothing in it can be searched"),
        (":number", "is an int, not a search space"),
        (":text", "is a str, not a search space"),
        (":function", "is a function, not a search space"),
        (":inside", "is a type, not a search space"),
        (":listed", "is a list, not a search space"),
        (":domain", "is a Float, not a search space"),
        (":tune", "is a module, not a search space"),
        (":thing.broken", "no space today"),
        (":inside..own", "expected MODULE:NAME"),
        (":endless", "contains itself"),
        (":many", "paths"),
        ("..:y", "expected MODULE:NAME"),
        (".x:y", "expected MODULE:NAME"),
        ("a..b:y", "expected MODULE:NAME"),
        ("tuning_module.py:y", "has no y"),
        ("absent.py:y", "there is no file absent.py"),
    ],
)
def test_mistakes_are_explained(module, target, words, capsys):
    assert main(["space", (module if target.startswith(":") or not target else "") + target]) == 1
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.startswith("raytree: ")
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def command(*arguments: str, folder, **environment: str) -> subprocess.CompletedProcess:
    program = "import sys; from raytree.cli import main; sys.exit(main(sys.argv[1:]))"
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=folder, env=variables)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero (broken.py, line 1)"),
        ("x = (", "SyntaxError"),
        ("from ray import tune\nspace = {'x': tune.unifrm(0, 1)}", "has no attribute 'unifrm' (broken.py, line 2)"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import no_such_thing_at_all", "No module named 'no_such_thing_at_all'"),
        ("def f():\n    raise KeyError('k')\nf()", "KeyError: 'k' (broken.py, line 2)"),
    ],
)
def test_a_module_that_does_not_load_says_why_without_a_traceback(code, words, tmp_path):
    (tmp_path / "broken.py").write_text(code)
    done = command("space", "broken:space", folder=tmp_path)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("samples", ["-1", "1000000000", "two"])
def test_a_wrong_number_of_samples_is_a_usage_error(module, samples, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["space", f"{module}:space", "--samples", samples])
    assert stopped.value.code == 2
    assert "--samples" in capsys.readouterr().err


def test_terminals_that_know_ascii_only_and_closed_pipes_are_no_trouble(tmp_path):
    (tmp_path / "tuning.py").write_text(MODULE)
    done = command("space", "tuning:space", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "2 paths" in done.stdout
    program = f"{sys.executable} -c 'import sys; from raytree.cli import main; sys.exit(main(sys.argv[1:]))'"
    piped = f"{program} space tuning:space --samples 10000 | head -n 1"
    done = subprocess.run(
        ["bash", "-c", piped], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
