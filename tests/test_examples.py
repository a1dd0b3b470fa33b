"""The examples run, on a real Ray, with little to do."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import ray

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.mark.parametrize(
    "command",
    ["mlp.py --samples 4", "cash.py --samples 6 --data wine", "mining.py --samples 10", "asha.py --samples 6 --epochs 3"],
)
def test_an_example_ends_with_the_best_configuration(command, capsys, monkeypatch):
    name, *arguments = command.split()
    monkeypatch.setattr(ray, "init", lambda **_: None)  # the module's Ray is used, and stays
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    out = capsys.readouterr().out
    assert "best" in out
    assert "trials" in out
