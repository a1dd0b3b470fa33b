"""The adapter for CARP-S, on its real classes; skipped where CARP-S is not installed (`pip install carps`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("carps", reason="CARP-S is not installed: pip install carps")

from carps.objective_functions.objective_function import ObjectiveFunction
from carps.utils.task import InputSpace, OptimizationResources, OutputSpace, Task, TaskMetadata
from carps.utils.trials import StatusType, TrialValue
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float

FOLDER = Path(__file__).resolve().parent.parent / "integrations" / "carps"


class Branches(ObjectiveFunction):
    """Two branches with a parameter each; the best value, 0, is at b = 0.3; a above 0.9 crashes."""

    @property
    def configspace(self) -> ConfigurationSpace:
        space = ConfigurationSpace(seed=0)
        kind, a, b = Categorical("kind", ["a", "b"]), Float("a", (0.0, 1.0)), Float("b", (0.0, 1.0))
        space.add([kind, a, b])
        space.add([EqualsCondition(a, kind, "a"), EqualsCondition(b, kind, "b")])
        return space

    def _evaluate(self, trial_info):
        config = dict(trial_info.config)
        assert set(config) == {"kind", config["kind"]}
        if config.get("a", 0.0) > 0.9:
            return TrialValue(cost=float("inf"), status=StatusType.CRASHED)
        return TrialValue(cost=1.0 + config["a"] if config["kind"] == "a" else (config["b"] - 0.3) ** 2)


def task(objectives: int = 1) -> Task:
    function = Branches()
    return Task(
        name="branches",
        seed=0,
        objective_function=function,
        input_space=InputSpace(function.configspace),
        output_space=OutputSpace(objectives, tuple(f"y{k}" for k in range(objectives))),
        optimization_resources=OptimizationResources(n_trials=20),
        metadata=TaskMetadata(),
    )


@pytest.fixture
def adapter(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import raytree_carps

    return raytree_carps


@pytest.mark.parametrize("method", ["tree", "conditional", "htbo"])
def test_a_method_finds_the_optimum_of_a_conditional_task(adapter, method):
    optimizer = adapter.RaytreeOptimizer(task(), method=method, seed=0)
    info, value = optimizer.run()
    assert len(optimizer.solver.observations) == 20
    assert info.config["kind"] == "b"
    assert value.cost < 1e-2


def test_what_it_cannot_do_is_refused(adapter):
    with pytest.raises(ValueError, match="one objective"):
        adapter.RaytreeOptimizer(task(objectives=2))
    with pytest.raises(ValueError, match="no 'forest'"):
        adapter.RaytreeOptimizer(task(), method="forest")


def test_carps_runs_it_from_its_command_line(tmp_path):
    command = [
        sys.executable, "-m", "carps.run", f"hydra.searchpath=[file://{FOLDER}/configs]", "+task/DUMMY=config",
        "+optimizer/raytree=tree", "seed=1", f"baserundir={tmp_path}", "loggers=[]",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "raytree-tree" in done.stdout + done.stderr
