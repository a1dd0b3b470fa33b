"""What people read: warnings about a set-up, each once and with the remedy, and what is refused."""

from __future__ import annotations

import logging
import math
from collections import namedtuple
from dataclasses import dataclass

import pytest
from ray import tune
from ray.tune.search.searcher import Searcher

from raytree.errors import ConfigurationError, RaytreeError, SettingError, SpaceError, StateError
from raytree.searchers import BOSHSearcher, RandomSearcher, TreeSearcher
from raytree.searchers.tune_space import to_space
from tests.events import restored, saved

X = {"x": tune.uniform(0, 1)}
TREE = {"m": tune.choice([{"kind": "a", "x": tune.uniform(0, 1)}, {"kind": "b"}])}


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "raytree")

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    return told


def ready(space=X, searcher_class=RandomSearcher, budget=10, **settings):
    """A searcher as in a run of Tune."""
    searcher = searcher_class(**{"seed": 0, **settings})
    assert searcher.set_search_properties("loss", "min", space, num_samples=budget)
    return searcher


def end(searcher, trial_id: str, t: float, own: bool = False, loss: float = 1.0) -> None:
    """Suggests a trial and ends it at t: by itself, or by a scheduler."""
    searcher.suggest(trial_id)
    result = {"loss": loss, "training_iteration": t}
    if own:
        searcher.on_trial_result(trial_id, result)
    searcher.on_trial_complete(trial_id=trial_id, result={**result, "done": True})


# Warnings


def test_trials_of_very_different_length_without_max_t(warnings):
    searcher = ready()
    for k, t in enumerate((27, 1, 3, 1, 9, 1, 3)):
        end(searcher, str(k), t)
    (message,) = warnings()
    assert "from 1 to 27" in message
    assert "max_t=27" in message


def test_trials_that_end_by_themselves_or_at_about_the_same_length_are_no_cause(warnings):
    searcher = ready()
    for k, t in enumerate((27, 1, 3, 1, 9, 1, 3)):
        end(searcher, str(k), t, own=True)
    other = ready()
    for k in range(6):
        end(other, str(k), 10 + k)
    assert warnings() == []


def test_a_max_t_that_no_trial_reaches(warnings):
    ending = ready(max_t=100)
    for k in range(6):
        end(ending, str(k), 99, own=True)
    (message,) = warnings()
    assert "max_t is 100" in message
    assert "training_iteration = 99" in message
    scheduled = ready(max_t=81)  # the scheduler's is 9
    for k in range(12):
        end(scheduled, str(k), (1, 3, 9)[k % 3])
    assert "max_t is 81" in warnings()[1]
    assert len(warnings()) == 2


def test_a_max_t_that_some_trial_reaches_is_no_cause(warnings):
    searcher = ready(max_t=9)
    for k in range(12):
        end(searcher, str(k), (1, 3, 9)[k % 3])
    assert warnings() == []


@pytest.mark.parametrize("settings", [{"time_attr": "epochs"}, {"max_t": 9, "time_attr": "trainig_iteration"}])
def test_a_time_attr_that_no_result_has(settings, warnings):
    searcher = ready(**settings)
    for k in range(3):
        end(searcher, str(k), 9, own=True)
    message = warnings()[0]
    assert repr(settings["time_attr"]) in message
    assert "training_iteration" in message
    assert sum("is in the results" in text for text in warnings()) == 1


def test_a_space_that_is_used_up(warnings):
    searcher = ready({"a": tune.choice([1, 2, 3])})
    for k in range(3):
        end(searcher, str(k), 1, own=True)
    for k in range(2):
        assert searcher.suggest(f"more{k}") == Searcher.FINISHED
    (message,) = warnings()
    assert "3 of 10 trials: all 3 configurations have been tried" in message


def test_a_space_with_nothing_to_vary(warnings):
    searcher = ready({"a": 1, "b": tune.choice(["only"])})
    searcher.suggest("a")
    searcher.suggest("b")
    assert sum("nothing to search" in text for text in warnings()) == 1


def test_a_searcher_that_is_used_for_a_second_run(warnings):
    searcher = ready()
    end(searcher, "a", 1, own=True)
    searcher.set_search_properties("loss", "min", X, num_samples=10)
    searcher.set_search_properties("loss", "min", X, num_samples=10)
    (message,) = warnings()
    assert "1 trials from an earlier run" in message
    assert "make a new searcher" in message


def test_a_searcher_that_was_restored_on_purpose_is_no_cause(warnings):
    searcher = ready()
    end(searcher, "a", 1, own=True)
    other = restored(saved(searcher), RandomSearcher)
    other.set_search_properties("loss", "min", X, num_samples=10)
    assert warnings() == []


def test_a_metric_that_never_arrives(warnings):
    searcher = ready()
    for k in range(3):
        searcher.suggest(str(k))
        searcher.on_trial_complete(str(k), {"accuracy": 1.0, "training_iteration": 1, "done": True, "config/x": 1, "pid": 3})
    (message,) = warnings()
    assert "'loss', it reported accuracy." in message


def test_a_value_that_is_no_number_is_shown_without_its_address(warnings):
    searcher = ready()
    for k in range(3):
        searcher.suggest(str(k))
        searcher.on_trial_complete(str(k), {"loss": object(), "training_iteration": 1})
    (message,) = warnings()
    assert "ended with object, no finite number" in message


def test_a_trial_that_was_stopped_before_it_began_is_not_reported_as_bad(warnings):
    searcher = ready(on_error="penalize")
    searcher.suggest("a")
    searcher.on_trial_complete("a", None, error=False)
    assert warnings() == []
    assert searcher.observations()["status"].tolist() == ["stopped"]


def test_proposals_that_break_down_are_reported_once_and_in_the_explanation(caplog):
    searcher = ready(searcher_class=TreeSearcher, num_initial=2)
    for k in range(2):
        end(searcher, str(k), 1, own=True)

    def broken(ask, rng):
        raise ArithmeticError("singular")

    searcher._optimizer.strategy.propose = broken
    for k in range(2, 6):
        end(searcher, str(k), 1, own=True)
    assert sum("failed to propose" in record.getMessage() and record.levelname == "ERROR" for record in caplog.records) == 1
    assert "4 proposals broke down" in str(searcher.explain())


# What is refused


@pytest.mark.parametrize(
    ("settings", "where", "words"),
    [
        ({"sede": 3}, "sede", "Did you mean seed?"),
        ({"num_inital": 3}, "num_inital", "Did you mean num_initial?"),
        ({"timeattr": "x"}, "timeattr", "Did you mean time_attr?"),
        ({"zzz": 3}, "zzz", "It has space, metric, mode"),
        ({"budget": 30}, "budget", "num_samples is the budget"),
        ({"space": [tune.uniform(0, 1)]}, "space", "must be a dict"),
        ({"space": tune.uniform(0, 1)}, "space", "must be a dict"),
        ({"space": 3}, "space", "must be a dict"),
        ({"points_to_evaluate": {"x": 0.5}}, "points_to_evaluate", "list of configurations, got a dict. Put it into a list"),
        ({"points_to_evaluate": [0.5]}, "points_to_evaluate[0]", "must be a configuration"),
        ({"points_to_evaluate": "x"}, "points_to_evaluate", "list of configurations"),
        ({"evaluated_rewards": [1.0]}, "evaluated_rewards", "more values than points"),
        ({"points_to_evaluate": [{"x": 0.5}], "evaluated_rewards": 1.0}, "evaluated_rewards", "list of numbers"),
        ({"points_to_evaluate": [{"x": 0.5}], "evaluated_rewards": [math.nan]}, "evaluated_rewards[0]", "no finite number"),
        ({"points_to_evaluate": [{"x": 0.5}], "evaluated_rewards": ["1"]}, "evaluated_rewards[0]", "no finite number"),
        ({"time_attr": 3}, "time_attr", "training_iteration"),
        ({"metric": ["a", "b"]}, "metric", "one metric"),
        ({"mode": "minimum"}, "mode", "'min' or 'max'"),
    ],
)
def test_wrong_arguments_say_what_to_do(settings, where, words):
    with pytest.raises(SettingError) as caught:
        TreeSearcher(**settings)
    assert caught.value.where == where
    assert words in str(caught.value)


def test_a_missing_mode_is_named():
    with pytest.raises(SettingError, match=r"mode: nothing says whether .*mode='min'") as caught:
        TreeSearcher(space=X, metric="loss").suggest("a")
    assert caught.value.where == "mode"
    with pytest.raises(SettingError, match="metric and mode: nothing says what to optimize"):
        TreeSearcher(space=X).suggest("a")


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"m": {"kind": "c"}}, "fits none of the branches"),
        ({"m": [object()]}, "fits none of the branches"),
        ({"m": {"kind": "a", "x": 3}}, "outside"),
        ({"m": {"kind": "b"}, "n": 1}, "is not in the space"),
    ],
)
def test_a_wrong_point_is_refused_with_public_names_and_no_addresses(point, words):
    with pytest.raises(ConfigurationError) as caught:
        TreeSearcher(space=TREE, points_to_evaluate=[point])
    assert type(caught.value).__module__ == "raytree.errors"
    assert not type(caught.value).__name__.startswith("_")
    assert caught.value.where.startswith("points_to_evaluate[0]: ")
    assert words in str(caught.value)
    assert "0x" not in str(caught.value)


def test_messages_have_no_addresses():
    assert "0x" not in str(SettingError("x", f"got {object()!r} and {ready!r}."))


@pytest.mark.parametrize("place", ["no/such/place", "s3x://bucket/run", "file:///no/such/place"])
def test_a_wrong_directory_says_what_to_give(place):
    with pytest.raises(SettingError, match="the folder that Tune wrote"):
        TreeSearcher.from_experiment(place)
    with pytest.raises(SettingError, match="the folder that Tune wrote"):
        TreeSearcher().add_evaluated_trials(place)


def test_a_directory_without_a_searcher_says_so(tmp_path):
    with pytest.raises(SettingError, match="no raytree searcher was saved there"):
        TreeSearcher.from_experiment(tmp_path)
    with pytest.raises(SettingError, match="not an experiment directory"):
        TreeSearcher().add_evaluated_trials(tmp_path)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(SettingError, match="is not a directory"):
        TreeSearcher.from_experiment(file)


# Settings that come back


def test_no_time_attr_means_tunes_own_and_can_be_restored():
    searcher = ready(time_attr=None)
    end(searcher, "a", 7)
    assert restored(saved(searcher), RandomSearcher).observations()["t"].tolist() == [7.0]


def test_evaluations_that_wait_for_the_space_are_saved():
    searcher = RandomSearcher()
    searcher.add_evaluated_point({"x": 0.5}, 1.5)
    searcher.add_evaluated_point({"x": 0.25}, 0.5, intermediate_values=[2.0, 0.5])
    other = restored(saved(searcher), RandomSearcher)
    other.set_search_properties("loss", "min", X)
    assert other.observations()["value"].tolist() == [1.5, 0.5]
    assert other.observations()["config/x"].tolist() == [0.5, 0.25]


def test_evaluations_that_waited_are_saved_once():
    searcher = RandomSearcher(space=X)
    searcher.add_evaluated_point({"x": 0.5}, 1.5)
    searcher.set_search_properties("loss", "min", {"constant": 1})
    other = restored(saved(searcher), RandomSearcher)
    assert other._waiting.given == []
    assert other.observations()["value"].tolist() == [1.5]


def test_lists_stand_for_tuples_in_points():
    space = {"h": tune.choice([(64, 64), (32,)]), "n": {1: tune.choice([{"sizes": (1, 2), "x": tune.uniform(0, 1)}, None])}}
    points = [{"h": [64, 64], "n": {"1": {"sizes": [1, 2], "x": 0.5}}}, {"h": [32], "n": {"1": None}}]
    searcher = ready(space, points_to_evaluate=points)
    assert searcher.suggest("a") == {"h": (64, 64), "n": {1: {"sizes": (1, 2), "x": 0.5}}}
    assert searcher.suggest("b") == {"h": (32,), "n": {1: None}}


def test_settings_of_from_experiment_take_the_place_of_saved_ones(tmp_path):
    searcher = ready()
    end(searcher, "a", 7)
    searcher.save_to_dir(str(tmp_path), session_str="1")
    other = RandomSearcher.from_experiment(tmp_path, max_t=9, on_error="ignore")
    assert (other._optimizer.observations.max_t, other._optimizer.observations.on_error) == (9.0, "ignore")
    assert other.observations()["status"].tolist() == ["stopped"]
    with pytest.raises(StateError, match="has the metric 'loss', the searcher 'accuracy'"):
        RandomSearcher.from_experiment(tmp_path, metric="accuracy")
    assert RandomSearcher.from_experiment(tmp_path, metric="loss", time_attr="epochs")._time_attr == "epochs"
    same = RandomSearcher.from_experiment(tmp_path)
    assert (same._optimizer.observations.max_t, same._optimizer.observations.on_error) == (None, "penalize")


# Points


def test_keys_that_a_point_lacks_are_filled_in():
    searcher = ready(TREE, TreeSearcher, points_to_evaluate=[{"m": {"kind": "a"}}, {}, {"m": {"kind": "a", "x": 0.1 + 0.2}}])
    first, second, third = (searcher.suggest(str(k)) for k in range(3))
    assert first["m"]["kind"] == "a"
    assert 0 <= first["m"]["x"] <= 1
    assert set(second) == {"m"}
    assert third == {"m": {"kind": "a", "x": 0.1 + 0.2}}
    with pytest.raises(ConfigurationError):  # a value belongs to a whole configuration
        ready(TREE, TreeSearcher, points_to_evaluate=[{"m": {"kind": "a"}}], evaluated_rewards=[1.0])


def test_a_partial_point_keeps_the_seed_it_has():
    searcher = ready(TREE, BOSHSearcher, points_to_evaluate=[{"m": {"kind": "a"}, "seed": 12}, {"m": {"kind": "a"}}])
    first, second = (searcher.suggest(str(k)) for k in range(2))
    assert first["seed"] == 12
    assert first["m"]["kind"] == second["m"]["kind"] == "a"
    assert "seed" in second


def test_columns_are_named_as_tune_names_them():
    space = {
        "data": {"path": "a.csv"},
        "model": tune.choice([{"C": tune.uniform(0, 1)}, {"kernel": {"gamma": tune.randint(1, 9)}}]),
    }
    searcher = ready(space)
    for k in range(6):
        end(searcher, str(k), 1)
    table = searcher.observations()
    assert list(table)[:5] == ["trial_id", "status", "value", "t", "path"]
    assert set(list(table)[5:]) == {"config/data/path", "config/model/C", "config/model/kernel/gamma"}
    for trial, (_, row) in zip(searcher._optimizer.observations, table.iterrows(), strict=True):
        config = searcher._space.config(trial.point)["model"]
        assert row["config/data/path"] == "a.csv"
        assert row["config/model/C"] == config["C"] if "C" in config else math.isnan(row["config/model/C"])


# Spaces

Pair = namedtuple("Pair", "a b")


@dataclass
class Settings:
    rate: object
    deep: object = None


class Layers(list):
    pass


class Options(dict):
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({tune.uniform(0, 1)}, "p"),
        (frozenset([tune.uniform(0, 1)]), "p"),
        (Pair(1, tune.uniform(0, 1)), "p.b"),
        (Settings(tune.uniform(0, 1)), "p.rate"),
        (Settings(1, [{"x": tune.uniform(0, 1)}]), "p.deep[0].x"),
        (Layers([1, tune.uniform(0, 1)]), "p[1]"),
        (tune.choice([Pair(1, tune.uniform(0, 1)), 2]), "p[0].b"),
        (tune.choice([{"q": Layers([tune.uniform(0, 1)])}, 2]), "p[0].q[0]"),
        ({1: {"q": {tune.choice([1, 2])}}}, "p.1.q"),
    ],
)
def test_domains_where_tune_would_leave_them_unresolved_are_refused_with_their_place(value, place):
    with pytest.raises(SpaceError) as caught:
        to_space({"p": value, "x": tune.uniform(0, 1)})
    assert caught.value.where == place
    assert "dict, list or tuple" in str(caught.value)


@pytest.mark.parametrize(
    "value", [{1, 2}, Pair(1, 2), Settings(1), Layers([1]), Options(a=1), tune.choice([Pair(1, 2), Settings(3)])]
)
def test_such_containers_without_domains_are_constants(value):
    space = to_space({"p": value, "x": tune.uniform(0, 1)})
    config = space.config(space.decode([0.1, 0.5][-space.d :]))
    assert type(config["p"]) in (set, Pair, Settings, Layers, dict, Options)


def test_errors_are_raytrees():
    assert issubclass(SpaceError, RaytreeError)
