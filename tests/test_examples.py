"""The examples run, on a real Ray, with little to do, and end with what they are there to show."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

import pytest
import ray

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SLOTS = 1  # of Ray: most of the time would go into starting processes
SHOWN = {
    "asha.py": "complete ones would have taken",
    "cash.py": "held out",
    "classifiers.py": "best configuration",
    "cluster.py": "trials by node",
    "lunar_lander.py": "hand-tuned",
    "mining.py": "in the pool after 10 drillings",
    "mlp.py": "its test error",
    "svm_text.py": "where its split had said",
    "warehouses.py": "where its own day had said",
}
"""What an example prints at its end."""
QUICK = ("asha.py", "classifiers.py", "warehouses.py")
"""One for each kind of space; the others are for `make test-slow`."""


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"example_data.py"} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_help_explains_every_option(name, capsys, monkeypatch):
    parsers = []
    told = argparse.ArgumentParser.print_help
    monkeypatch.setattr(argparse.ArgumentParser, "print_help", lambda self, file=None: (parsers.append(self), told(self, file)))
    with pytest.raises(SystemExit) as end:
        run(name, "--help", monkeypatch=monkeypatch)
    assert end.value.code == 0
    assert "--short" in capsys.readouterr().out
    assert all(action.help for action in parsers[0]._actions)


@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SHOWN])
def test_an_example_runs_and_shows_its_point(name, local_ray, tmp_path, capsys, monkeypatch):
    if name == "lunar_lander.py":
        pytest.importorskip("Box2D", reason="gymnasium[box2d] is not installed")
    monkeypatch.setattr(ray, "init", lambda **_: None)  # the module's Ray is used, and stays
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.chdir(tmp_path)  # for pages that an example writes
    storage = ["--storage", str(tmp_path)] if name == "cluster.py" else []
    run(name, "--short", *storage, monkeypatch=monkeypatch)
    assert SHOWN[name] in capsys.readouterr().out
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
