"""Looking at real experiments: the command on Tune's folders, other searchers' too, progress lines, loggers."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
from pathlib import Path

import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from raytree.cli import main
from raytree.errors import SettingError
from raytree.report import figures
from raytree.searchers import ProgressCallback, TreeSearcher
from raytree.searchers.experiment import open_experiment

pytestmark = pytest.mark.usefixtures("local_ray")

SPACE = {
    "scaler": tune.choice(["none", "standard"]),
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-2, 1e2)},
            {"kind": "knn", "n": tune.randint(1, 31)},
            {"kind": "nothing"},
        ]
    ),
}
FOREIGN = {"lr": tune.loguniform(1e-4, 1.0), "opt": tune.choice(["sgd", "adam"])}
MODULE = "from ray import tune\nspace = {'lr': tune.loguniform(1e-4, 1.0), 'opt': tune.choice(['sgd', 'adam'])}\n"


def objective(config):
    model = config["model"]
    if model.get("n", 0) > 25:
        raise ValueError("too many neighbours")
    base = 0.1 + abs(model.get("C", 3) - 10) / 200 + abs(model.get("n", 7) - 7) / 100
    for t in range(1, 10):
        tune.report({"error": base + 0.3 / t})


def foreign(config):
    tune.report({"loss": (config["lr"] - 0.1) ** 2 + (config["opt"] == "sgd")})


@pytest.fixture(scope="module")
def run(local_ray, tmp_path_factory):
    """The folder of a run with ASHA, and what its callback has printed."""
    folder, printed = tmp_path_factory.mktemp("runs"), io.StringIO()
    searcher = TreeSearcher(seed=0, max_t=9)
    stdout, sys.stdout = sys.stdout, printed
    try:
        results = tune.Tuner(
            objective,
            param_space=SPACE,
            tune_config=tune.TuneConfig(
                metric="error", mode="min", num_samples=16, search_alg=searcher, reuse_actors=True, max_concurrent_trials=2,
                scheduler=ASHAScheduler(max_t=9, grace_period=2),
            ),
            run_config=tune.RunConfig(name="ours", storage_path=str(folder), verbose=0, callbacks=[ProgressCallback(searcher)]),
        ).fit()  # fmt: skip
    finally:
        sys.stdout = stdout
    return Path(results.experiment_path), printed.getvalue(), searcher


@pytest.fixture(scope="module")
def theirs(local_ray, tmp_path_factory):
    """The folder of a run without any searcher of ours."""
    results = tune.Tuner(
        foreign,
        param_space=FOREIGN,
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=12, reuse_actors=True),
        run_config=tune.RunConfig(name="theirs", storage_path=str(tmp_path_factory.mktemp("runs")), verbose=0),
    ).fit()
    return Path(results.experiment_path)


def command(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_show_has_tree_recommendation_and_health(run, capsys):
    code, out, err = command(capsys, "show", str(run[0]))
    assert code == 0
    assert err == ""
    assert "16 trials" in out
    assert "├─ model=svm" in out
    assert "config = {" in out
    assert "Health" in out
    assert "\x1b" not in out


def test_best_is_json_that_other_programs_can_read(run, capsys):
    code, out, err = command(capsys, "best", str(run[0]))
    assert code == 0
    recommended = run[2].recommend()
    assert json.loads(out) == recommended.config
    assert recommended.trial_id in err
    _, code_, _ = command(capsys, "best", str(run[0]), "--python")
    namespace: dict = {}
    exec(code_, namespace)
    assert namespace["config"] == recommended.config


def test_trials_as_csv_have_times_nodes_and_active_keys_only(run, capsys):
    _, out, _ = command(capsys, "trials", str(run[0]), "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 16
    for row in rows:
        assert bool(row["config/model/C"]) == (row["config/model"] == "svm")
        assert bool(row["config/model/n"]) == (row["config/model"] == "knn")
        if row["status"] in ("finished", "stopped"):
            assert row["node"]
            assert float(row["seconds"]) >= 0.0
    assert {"finished", "stopped"} <= {row["status"] for row in rows}
    _, lines, _ = command(capsys, "trials", str(run[0]))
    assert len(lines.splitlines()) == 17


def test_the_page_of_a_folder_knows_what_was_stopped_and_how_long_it_took(run, capsys, tmp_path):
    code, out, _ = command(capsys, "report", str(run[0]), "--out", str(tmp_path / "page.html"))
    assert code == 0
    page = Path(out.strip()).read_text()
    assert "<title>ours" in page
    view = open_experiment(run[0]).view()
    assert view.rungs
    assert len(view.curves) >= 8
    assert view.thinking is not None
    assert view.thinking > 0
    assert not view.running
    assert f"Tuner.restore('{run[0]}'" in view.restore
    assert view.trials.started[0] is not None


def test_a_folder_that_is_not_trusted_is_read_without_pickles(run, capsys, monkeypatch):
    import pickle

    from ray import cloudpickle

    def refused(*_, **__):
        raise AssertionError("a pickle was read")

    for module in (pickle, cloudpickle):
        for name in ("loads", "load"):
            monkeypatch.setattr(module, name, refused)
    code, out, _ = command(capsys, "show", str(run[0]), "--untrusted")
    assert code == 0
    assert "16 trials" in out


def test_other_searchers_folders_are_read_when_the_space_is_given(theirs, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuning_of_theirs.py").write_text(MODULE)
    given = ["--space", "tuning_of_theirs.py:space", "--metric", "loss", "--mode", "min"]
    code, out, _ = command(capsys, "best", str(theirs), *given)
    assert code == 0
    assert json.loads(out)["opt"] == "adam"
    view = open_experiment(theirs, space=FOREIGN, metric="loss", mode="min").view()
    assert len(view.trials) == 12
    assert view.trials.status == ["finished"] * 12
    assert view.slices


def test_what_is_missing_of_other_searchers_is_asked_for(theirs, run, capsys, tmp_path):
    for arguments, words in (
        ([str(theirs)], "--space my_module:space"),
        ([str(tmp_path)], "is not an experiment directory"),
        ([str(tmp_path / "nowhere")], "is not a directory"),
        ([str(theirs), "--untrusted"], "no state of a raytree searcher"),
    ):
        code, out, err = command(capsys, "show", *arguments)
        assert code == 1
        assert out == ""
        assert words in err
        assert len(err.splitlines()) == 1
    with pytest.raises(SettingError, match="Trials report loss"):
        open_experiment(theirs, space=FOREIGN)
    with pytest.raises(SettingError, match="none of the trials is from it"):
        open_experiment(theirs, space={"other": tune.uniform(0, 1)}, metric="loss", mode="min")


def test_a_search_without_values_has_its_own_exit_code(run, capsys, tmp_path):
    searcher = TreeSearcher(space=SPACE, metric="error", mode="min", seed=0)
    searcher.suggest("a")
    searcher.save_to_dir(str(tmp_path), "now")
    assert command(capsys, "show", str(tmp_path), "--untrusted")[0] == 3
    assert command(capsys, "best", str(tmp_path), "--untrusted")[0] == 3


def test_watch_ends_with_the_experiment_and_prints_news_only(run, capsys):
    code, out, _ = command(capsys, "watch", str(run[0]), "--every", "0.01", "--updates", "3")
    assert code == 0
    assert 1 <= out.count("Recommendation") <= 3
    assert "\x1b" not in out
    assert command(capsys, "watch", str(run[0]), "--every", "0.01")[0] == 0  # it is over: no need to say how often
    assert command(capsys, "watch", str(run[0]), "--every", "0")[0] == 1


def test_a_run_with_trials_that_are_not_over_is_running_while_its_driver_lives(tmp_path, capsys):
    searcher = TreeSearcher(space=SPACE, metric="error", mode="min", seed=0)
    for name in "abc":
        searcher.suggest(name)
    searcher.on_trial_complete("a", {"error": 0.5})
    searcher.save_to_dir(str(tmp_path), "now")
    view = open_experiment(tmp_path, trusted=False).view(details=False)
    assert view.running
    assert view.trials.status == ["finished", "running", "running"]
    code, out, _ = command(capsys, "watch", str(tmp_path), "--untrusted", "--every", "0.01", "--updates", "3")
    assert code == 0
    assert out.count("still running") == 1  # three looks, one piece of news


def test_exports_can_be_read_by_those_they_are_for(run, capsys, tmp_path):
    code, out, _ = command(capsys, "export", str(run[0]), "--json")
    assert code == 0
    assert len(json.loads(out)["trials"]["id"]) == 16
    pytest.importorskip("ConfigSpace")
    from ConfigSpace import ConfigurationSpace

    target = tmp_path / "space.json"
    assert command(capsys, "export", str(run[0]), "--configspace", str(target))[0] == 0
    assert len(ConfigurationSpace.from_json(target)) == 4


def test_an_optuna_study_has_the_trials_with_active_parameters_only(run, capsys, tmp_path):
    optuna = pytest.importorskip("optuna")
    target = tmp_path / "study.db"
    assert command(capsys, "export", str(run[0]), "--optuna", str(target))[0] == 0
    study = optuna.load_study(study_name="ours", storage=f"sqlite:///{target}")
    assert len(study.trials) == 16
    view = open_experiment(run[0]).view(details=False)
    for k, trial in enumerate(study.trials):
        assert set(trial.params) == set(view.config_of(k))
        assert trial.user_attrs["trial_id"] == view.trials.id[k]
    assert study.best_value == pytest.approx(
        min(v for v, s in zip(view.trials.value, view.trials.status, strict=True) if s == "finished")
    )
    code, _, err = command(capsys, "export", str(run[0]), "--optuna", str(target))
    assert code == 1
    assert "is there already" in err
    assert sqlite3.connect(target).execute("select count(*) from trials").fetchone() == (16,)


# Progress


def test_the_callback_prints_one_readable_line_a_trial(run):
    lines = [line for line in run[1].splitlines() if line.startswith("#")]
    assert len(lines) == 16
    assert len({line.split()[0] for line in lines}) == 16
    assert all("| " in line and "to choose" in line for line in lines)
    assert any("svm" in line.split("|")[1] for line in lines)
    assert all("best 0." in line for line in lines[2:])
    assert not any("None" in line for line in lines)


def test_in_a_terminal_a_block_is_renewed_below_the_lines(run):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    callback = ProgressCallback(run[2], stream=stream)
    callback.setup(total_num_samples=16)
    for trial_id in list(run[2]._optimizer.observations.trials)[:2]:
        callback.on_trial_complete(0, [], type("Trial", (), {"trial_id": trial_id})())
        callback.on_trial_complete(0, [], type("Trial", (), {"trial_id": trial_id})())  # told twice, said once
    shown = stream.getvalue()
    assert shown.count("16 of 16 trials") == 2
    assert shown.count("\x1b[") == 2  # up, and clear
    assert shown.count("\n#") + shown.startswith("#") + shown.count("J#") == 2


def test_verbose_prints_without_a_callback(capsys):
    for verbose in (0, 1):
        searcher = TreeSearcher(space=SPACE, metric="error", mode="min", seed=0, verbose=verbose)
        searcher.suggest("a")
        searcher.on_trial_complete("a", {"error": 0.25})
        assert capsys.readouterr().out.count("error 0.25") == verbose


# Searchers


def test_a_searcher_says_what_it_is_what_it_has_and_what_leads(run):
    assert repr(TreeSearcher()) == "TreeSearcher(not started)"
    assert repr(run[2]).startswith("TreeSearcher(16 trials, 0 running, best error 0.1")
    assert "config = {" in run[2]._repr_html_()
    assert "<table>" in run[2]._repr_html_()


def test_a_searcher_writes_its_page_and_is_drawn(run, tmp_path):
    path = run[2].report(tmp_path / "own.html", experiment=run[0])
    assert "10.0" in path.read_text() or "node" in path.read_text()
    assert figures.tree(run[2]).data
    explanation = run[2].explain()
    assert explanation.table["branch"][0] == run[2].view(details=False).branches[0].label
    assert "lower is better" in str(explanation)


# Loggers


def logged(tmp_path, callbacks, samples: int = 5) -> TreeSearcher:
    searcher = TreeSearcher(seed=0)
    results = tune.Tuner(
        objective_without_failures,
        param_space=SPACE,
        tune_config=tune.TuneConfig(metric="error", mode="min", num_samples=samples, search_alg=searcher, reuse_actors=True),
        run_config=tune.RunConfig(name="logged", storage_path=str(tmp_path), verbose=0, callbacks=callbacks),
    ).fit()
    assert not results.errors
    assert len(results) == samples
    return searcher


def objective_without_failures(config):
    tune.report({"error": config["model"].get("C", 3.0) + config["model"].get("n", 0)})


def test_tensorboard_gets_the_active_parameters(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    from ray.tune.logger import TBXLoggerCallback
    from tensorboardX.proto import event_pb2

    searcher = logged(tmp_path, [TBXLoggerCallback()])
    files = list((tmp_path / "logged").rglob("events.out.tfevents*"))
    assert len(files) == 5
    text = b"".join(file.read_bytes() for file in files)
    assert event_pb2
    assert b"ray/tune/error" in text
    kinds = searcher.observations()["config/model/kind"]
    assert (b"model/C" in text) == ("svm" in set(kinds))
    assert b"__ref_ph" not in text


@pytest.mark.slow
def test_mlflow_gets_the_active_parameters(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    searcher = logged(tmp_path, [MLflowLoggerCallback(tracking_uri=uri, experiment_name="conditional")])
    runs = mlflow.tracking.MlflowClient(uri).search_runs([mlflow.get_experiment_by_name("conditional").experiment_id])
    assert len(runs) == 5
    for found in runs:
        names = set(found.data.params)
        kind = found.data.params["model/kind"]
        assert ("model/C" in names) == (kind == "svm")
        assert ("model/n" in names) == (kind == "knn")
        assert "error" in found.data.metrics
    assert len(searcher.observations()) == 5


@pytest.mark.slow
def test_weights_and_biases_offline_gets_the_active_parameters(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    from ray.air.integrations.wandb import WandbLoggerCallback

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    logged(tmp_path, [WandbLoggerCallback(project="conditional", dir=str(tmp_path))])
    assert len(list(tmp_path.rglob("run-*.wandb"))) == 5
