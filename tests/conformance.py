"""What every searcher must do, whatever its method. Subclass with `searcher_class` and, if needed, `settings`."""

from __future__ import annotations

import copy
import json
import logging
import math
import os
import subprocess
import sys
from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
from ray import cloudpickle, tune
from ray.tune.experiment import Trial
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.searcher import Searcher

from raytree.errors import ConfigurationError, SettingError, SpaceError, StateError
from raytree.space.flat import flatten
from tests.events import WRAPPERS, play, restored, saved
from tests.spaces import random_space

SPACE: dict = {
    "scaler": tune.choice(["none", "standard"]),
    "constant": {"path": "data.csv", "list": [1, 2]},
    "model": tune.choice(
        [
            {
                "kind": "svm",
                "C": tune.loguniform(1e-3, 1e3),
                "kernel": tune.choice([{"name": "rbf", "gamma": tune.uniform(0, 1)}, {"name": "lin"}]),
            },
            {"kind": "knn", "n": tune.randint(1, 30), "C": tune.quniform(0, 1, 0.25)},
            {"kind": "gnb"},
        ]
    ),
}
POINT = {"scaler": "none", "constant": {"path": "data.csv", "list": [1, 2]}, "model": {"kind": "knn", "n": 7, "C": 0.5}}


def loss(config: dict) -> float:
    """A smooth function with a different level in every branch."""
    model = config["model"]
    base = 0.1 * (config["scaler"] == "none")
    if model["kind"] == "svm":
        return base + 0.1 * math.log10(model["C"]) ** 2 + (model["kernel"].get("gamma", 0.8) - 0.3) ** 2
    return base + (0.5 + 0.01 * abs(model["n"] - 12) + 0.1 * model["C"] if model["kind"] == "knn" else 0.7)


class SearcherConformance:
    searcher_class: ClassVar[type]
    settings: ClassVar[dict[str, Any]] = {}
    sequences: ClassVar[int] = 150
    added: ClassVar[tuple[str, ...]] = ()
    """Keys of a configuration that the searcher adds to those of the space."""

    def make(self, **settings: Any) -> Any:
        """A searcher that knows everything, as after `Tuner(param_space=SPACE, ...)`, and soon leaves the initial design."""
        space = settings.pop("space", None)
        searcher = self.searcher_class(**{"seed": 0, "num_initial": 3, **self.settings, **settings})
        assert searcher.set_search_properties("loss", "min", space or SPACE, num_samples=30, stop=None, time_budget_s=None)
        return searcher

    def bare(self, config: dict) -> dict:
        """A configuration without what the searcher adds."""
        assert all(key in config for key in self.added)
        return {key: value for key, value in config.items() if key not in self.added}

    def blank(self) -> Any:
        return self.searcher_class()

    def step(self, searcher: Any, trial_id: str) -> dict:
        config = searcher.suggest(trial_id)
        result = {"loss": loss(config), "training_iteration": 1, "done": True}
        searcher.on_trial_result(trial_id, result)
        searcher.on_trial_complete(trial_id=trial_id, result=result, error=False)
        return config

    def run(self, searcher: Any, n: int, start: int = 0) -> list[dict]:
        return [self.step(searcher, f"t{k}") for k in range(start, start + n)]

    @pytest.fixture(autouse=True)
    def nothing_may_fail_quietly(self, caplog):
        caplog.set_level(logging.WARNING, "raytree")
        yield
        assert not [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]

    # Set-up

    def test_space_metric_and_mode_come_from_tune(self):
        searcher = self.make()
        assert (searcher.metric, searcher.mode) == ("loss", "min")
        assert searcher._space.contains(self.bare(searcher.suggest("a")))

    def test_it_works_without_a_param_space(self):
        searcher = self.searcher_class(space=SPACE, metric="loss", mode="max", **self.settings)
        assert searcher._space.contains(self.bare(searcher.suggest("a")))

    def test_own_space_and_tunes_constants_go_together_but_two_spaces_do_not(self):
        searcher = self.searcher_class(space=SPACE, **self.settings)
        assert not searcher.set_search_properties("loss", "min", {"constant": 1})
        assert searcher.metric == "loss"
        assert not self.make().set_search_properties("loss", "min", {"x": tune.uniform(0, 1)})

    def test_metric_or_mode_given_twice_must_agree(self):
        searcher = self.searcher_class(metric="loss", **self.settings)
        with pytest.raises(SettingError, match="metric"):
            searcher.set_search_properties("accuracy", "max", SPACE)

    def test_missing_space_or_metric_is_an_error_with_the_remedy(self):
        with pytest.raises(SettingError, match="param_space"):
            self.searcher_class(**self.settings).suggest("a")
        with pytest.raises(SettingError, match="metric='loss'"):
            self.searcher_class(space=SPACE, **self.settings).suggest("a")

    def test_mode_without_metric_means_tunes_default_metric(self):
        searcher = self.searcher_class(space=SPACE, mode="min", **self.settings)
        searcher.suggest("a")
        searcher.on_trial_complete(trial_id="a", result={"_metric": 3.0}, error=False)
        assert searcher.observations()["value"].tolist() == [3.0]

    def test_an_unsearchable_space_is_refused_before_the_first_trial(self):
        for bad in ({"a": tune.grid_search([1])}, {"a": tune.choice([{"b": tune.sample_from(lambda: 1)}])}):
            with pytest.raises(SpaceError, match="a"):
                self.searcher_class(**self.settings).set_search_properties("loss", "min", bad)

    @pytest.mark.parametrize(
        "bad",
        [
            {"mode": "up"},
            {"metric": ["a", "b"]},
            {"seed": -1},
            {"num_initial": 0},
            {"on_error": "x"},
            {"evaluated_rewards": [1]},
        ],
    )
    def test_bad_arguments_are_refused_by_the_constructor(self, bad):
        with pytest.raises(SettingError):
            self.searcher_class(space=SPACE, **bad)

    def test_it_records_the_concurrency_and_leaves_the_limiting_to_tune(self):
        searcher = self.make()
        assert searcher.set_max_concurrency(4) is False
        assert searcher.set_max_concurrency(5) is False
        assert restored(saved(searcher), self.blank)._max_concurrent == 5
        assert not hasattr(searcher, "searcher")  # Tune would take it for a wrapper

    # Points given by the user

    def test_points_to_evaluate_come_first_nested_and_exact(self):
        points = [POINT, {**POINT, "model": {"kind": "svm", "C": 0.1 + 0.2, "kernel": {"name": "lin"}}}]
        searcher = self.make(points_to_evaluate=points)
        assert [self.bare(searcher.suggest(str(k))) for k in range(2)] == points

    def test_a_misspelt_setting_is_refused_with_those_there_are(self):
        with pytest.raises(SettingError, match=r"sede: is not a setting of .* Did you mean seed\? .* num_initial"):
            self.searcher_class(sede=3)

    def test_a_bad_point_is_refused_with_its_place(self):
        with pytest.raises(ConfigurationError, match=r"points_to_evaluate\[0\]: model.n"):
            self.make(points_to_evaluate=[{**POINT, "model": {"kind": "knn", "n": 99, "C": 0.5}}])

    def test_evaluated_rewards_are_observations_and_are_not_run_again(self):
        second = {**POINT, "model": {"kind": "gnb"}}
        searcher = self.make(points_to_evaluate=[POINT, second], evaluated_rewards=[0.25])
        assert self.bare(searcher.suggest("a")) == second
        assert searcher.observations()["value"].tolist()[0] == 0.25
        assert searcher.recommend().config == POINT

    def test_evaluated_points_are_added_before_and_after_the_space_is_known(self):
        searcher = self.searcher_class(**self.settings)
        searcher.add_evaluated_point(POINT, 1.5)
        searcher.set_search_properties("loss", "min", SPACE)
        searcher.add_evaluated_point(POINT, 0.5, intermediate_values=[2.0, 1.0, 0.5])
        searcher.add_evaluated_point(POINT, 9.0, error=True)
        table = searcher.observations()
        assert table["value"].dropna().tolist() == [1.5, 0.5]
        assert table["status"].tolist() == ["finished", "finished", "errored"]
        with pytest.raises(ConfigurationError):
            searcher.add_evaluated_point({"model": 1}, 1.0)

    def test_tunes_trials_are_added_from_a_list_or_one_by_one(self):
        searcher = self.make()
        trials = []
        for k in range(3):
            trial = Trial("objective", config=POINT, stub=True)
            trial.status = Trial.TERMINATED
            trial.run_metadata.last_result = {"loss": float(k), "done": True}
            trials.append(trial)
        searcher.add_evaluated_trials(trials[:2], "loss")
        searcher.add_evaluated_trials(trials[2], "loss")
        assert searcher.observations()["value"].tolist() == [0.0, 1.0, 2.0]

    def test_the_same_trials_twice_count_once_and_those_that_have_not_ended_not_at_all(self):
        searcher = self.make()
        trials = []
        for status in (Trial.TERMINATED, Trial.ERROR, Trial.PENDING, Trial.RUNNING, Trial.PAUSED):
            trial = Trial("objective", config=POINT, stub=True)
            trial.status = status
            trial.run_metadata.last_result = {"loss": 0.5, "training_iteration": 1}
            trials.append(trial)
        searcher.add_evaluated_trials([*trials, trials[0]], "loss")
        searcher.add_evaluated_trials(trials, "loss")
        assert searcher.observations()["status"].tolist() == ["finished", "errored"]

    def test_trials_are_added_before_the_space_is_known(self):
        trial = Trial("objective", config=POINT, stub=True)
        trial.status = Trial.TERMINATED
        trial.run_metadata.last_result = {"loss": 0.5, "done": True}
        searcher = self.searcher_class(**self.settings)
        searcher.add_evaluated_trials([trial])
        searcher.add_evaluated_trials([trial])
        searcher.set_search_properties("loss", "min", SPACE)
        assert searcher.observations()["value"].tolist() == [0.5]
        assert searcher.recommend().config == POINT
        wrong = self.searcher_class(**self.settings)
        wrong.add_evaluated_trials([trial])
        with pytest.raises(ConfigurationError):
            wrong.set_search_properties("loss", "min", {"other": tune.uniform(0, 1)})

    def test_trials_of_an_earlier_space_are_brought_over_parameter_by_parameter(self):
        def trial(config, value, iteration=3, status=Trial.TERMINATED):
            made = Trial("objective", config=config, stub=True)
            made.status = status
            made.run_metadata.last_result = {"loss": value, "training_iteration": iteration, "done": True}
            return made

        old = {**POINT, "momentum": 0.9}
        del old["scaler"]
        searcher = self.make()
        with pytest.raises(ConfigurationError, match=r"drop=\['momentum'\]"):
            searcher.add_evaluated_trials([trial(old, 1.0)])
        with pytest.raises(ConfigurationError, match=r"defaults=\{'scaler'"):
            searcher.add_evaluated_trials([trial(POINT, 0.5), trial(old, 1.0)], drop=["momentum"])
        assert len(searcher.observations()) == 0  # all or nothing
        failed = trial(POINT, 0.1, status=Trial.ERROR)
        searcher.add_evaluated_trials(
            [trial(old, 1.0), trial(POINT, 0.5, 1), failed], drop=["momentum"], defaults={"scaler": "none"}
        )
        table = searcher.observations()
        assert table["status"].tolist() == ["finished", "stopped", "errored"]  # stopped early: known by its t
        assert table["value"].dropna().tolist() == [1.0, 0.5]
        assert table["t"].dropna().tolist() == [3.0, 1.0]
        with pytest.raises(SettingError):
            searcher.add_evaluated_trials(3)
        with pytest.raises(SettingError, match="directory"):
            searcher.add_evaluated_trials("/no/such/place")

    # What Tune does to trials

    def test_a_normal_end(self):
        searcher = self.make()
        self.run(searcher, 3)
        assert searcher.observations()["status"].tolist() == ["finished"] * 3

    def test_an_error_after_reports_leaves_no_value(self):
        searcher = self.make()
        searcher.suggest("a")
        searcher.on_trial_result("a", {"loss": 1.0, "training_iteration": 1})
        searcher.on_trial_complete(trial_id="a", result=None, error=True)
        assert searcher.observations()["status"].tolist() == ["errored"]

    def test_a_scheduler_stop_delivers_its_last_report_at_the_end_only(self):
        searcher = self.make()
        searcher.suggest("a")
        searcher.on_trial_complete(trial_id="a", result={"loss": 2.0, "training_iteration": 1, "done": True}, error=False)
        assert searcher.observations()["value"].tolist() == [2.0]

    def test_an_end_without_a_result_counts_the_last_report(self):
        searcher = self.make()
        for trial_id in "ab":
            searcher.suggest(trial_id)
        searcher.on_trial_result("a", {"loss": 3.0, "training_iteration": 1})
        searcher.on_trial_result("a", {"loss": 2.0, "training_iteration": 3})
        for trial_id in "ab":
            searcher.on_trial_complete(trial_id=trial_id, result=None, error=False)
        table = searcher.observations()
        assert table["status"].tolist() == ["stopped", "stopped"]
        assert table["value"].tolist()[0] == 2.0
        assert [trial.status for trial in searcher._optimizer.observations] == ["finished", "stopped"]

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "x", np.float64("nan")])
    def test_values_that_are_no_numbers_do_no_harm(self, bad):
        searcher = self.make()
        self.run(searcher, 6)
        for k in range(3):
            searcher.suggest(f"bad{k}")
            searcher.on_trial_result(f"bad{k}", {"loss": bad, "training_iteration": 1})
            searcher.on_trial_complete(trial_id=f"bad{k}", result={"loss": bad, "training_iteration": 1}, error=False)
        self.run(searcher, 3, start=10)
        assert Counter(searcher.observations()["status"]) == {"finished": 9, "invalid": 3}

    def test_a_missing_metric_is_a_failed_trial_with_one_warning(self, caplog):
        searcher = self.make()
        for trial_id in "ab":
            searcher.suggest(trial_id)
            searcher.on_trial_result(trial_id, {"training_iteration": 1})
            searcher.on_trial_complete(trial_id=trial_id, result={"training_iteration": 1}, error=False)
        assert searcher.observations()["status"].tolist() == ["invalid", "invalid"]
        assert sum("without the metric" in record.message for record in caplog.records) == 1

    def test_nested_metrics_are_found_flat_or_nested(self):
        searcher = self.searcher_class(space=SPACE, metric="eval/loss", mode="min", **self.settings)
        for trial_id, result in (("a", {"eval/loss": 1.0}), ("b", {"eval": {"loss": 2.0}})):
            searcher.suggest(trial_id)
            searcher.on_trial_complete(trial_id=trial_id, result=result, error=False)
        assert searcher.observations()["value"].tolist() == [1.0, 2.0]

    def test_a_retry_reports_its_iterations_again(self):
        searcher = self.make()
        searcher.suggest("a")
        for t, value in [(1, 5.0), (2, 4.0), (3, 3.0), (1, 5.5), (2, 4.5)]:
            searcher.on_trial_result("a", {"loss": value, "training_iteration": t})
        searcher.on_trial_complete(trial_id="a", result={"loss": 4.5, "training_iteration": 2}, error=False)
        assert searcher.observations()["value"].tolist() == [4.5]

    def test_repeated_and_late_news_of_a_finished_trial_change_nothing(self):
        searcher = self.make()
        self.run(searcher, 2)
        before = searcher.observations()
        result = {"loss": before["value"][0], "training_iteration": 1}
        for _ in range(3):
            searcher.on_trial_complete(trial_id="t0", result=result, error=False)
        searcher.on_trial_complete(trial_id="t0", result=None, error=True)
        searcher.on_trial_result("t0", {**result, "training_iteration": 1})
        assert searcher.observations().equals(before)

    def test_a_resumed_trial_whose_end_the_limiter_swallows_has_its_last_value(self):
        inner = self.searcher_class(seed=0, **self.settings)
        limiter = ConcurrencyLimiter(inner, max_concurrent=2)
        limiter.set_search_properties("loss", "min", SPACE, num_samples=10)
        limiter.suggest("a")
        limiter.on_trial_complete("a", None, error=True)
        for t in (1, 2):
            limiter.on_trial_result("a", {"loss": 0.5 / t, "training_iteration": t})
        limiter.on_trial_complete("a", {"loss": 0.25, "training_iteration": 2})  # swallowed: the limiter knows it no more
        table = inner.observations()
        assert table[["status", "value", "t"]].values.tolist() == [["finished", 0.25, 2.0]]

    def test_a_restarted_trial_whose_end_the_limiter_swallows_has_its_last_value(self):
        inner = self.searcher_class(seed=0, **self.settings)
        limiter = ConcurrencyLimiter(inner, max_concurrent=2)
        limiter.set_search_properties("loss", "min", SPACE, num_samples=10)
        config = limiter.suggest("a")
        limiter.on_trial_complete("a", None, error=True)
        for t in (1, 2):
            limiter.on_trial_result("b", {"loss": 0.5 / t, "training_iteration": t, **flatten({"config": config})})
        limiter.on_trial_complete("b", {"loss": 0.25, "training_iteration": 2})
        table = inner.observations()
        assert table["status"].tolist() == ["errored", "finished"]
        assert table["value"].tolist()[1] == 0.25
        assert table.iloc[0, 5:].equals(table.iloc[1, 5:])  # the same configuration

    def test_an_errored_trial_may_be_resumed_under_its_id(self):
        searcher = self.make()
        searcher.suggest("a")
        searcher.on_trial_complete(trial_id="a", result=None, error=True)
        searcher.on_trial_result("a", {"loss": 2.0, "training_iteration": 1})
        searcher.on_trial_complete(trial_id="a", result={"loss": 1.0, "training_iteration": 2}, error=False)
        assert searcher.observations()["value"].tolist() == [1.0]

    def test_a_trial_restarted_under_a_new_id_is_rebuilt_from_its_result(self):
        searcher = self.make()
        flat = {"config/scaler": "none", "config/constant/path": "data.csv", "config/constant/list": [1, 2],
                "config/model/kind": "knn", "config/model/n": 7, "config/model/C": 0.5,
                "config/workers": 3, "config/model/verbose": object()}  # fmt: skip
        searcher.on_trial_result("new", {"loss": 1.0, "training_iteration": 1, **flat})
        searcher.on_trial_complete(trial_id="new", result={"loss": 0.5, "training_iteration": 2, **flat}, error=False)
        assert searcher.recommend().config == POINT

    def test_unknown_ids_and_foreign_configurations_are_ignored(self):
        searcher = self.make()
        searcher.on_trial_result("x", {"loss": 1.0, "training_iteration": 1})
        searcher.on_trial_complete(trial_id="x", result={"loss": 1.0, "config/other": 1}, error=False)
        searcher.on_trial_complete("y")
        searcher.on_trial_complete("z", {"loss": 1.0, "config": {"model": {}}}, False)
        assert len(searcher.observations()) == 0

    def test_a_scheduler_that_pauses_makes_the_longest_trials_the_complete_ones(self, caplog):
        searcher = self.make()
        for trial_id, t in (("a", 9), ("b", 3)):
            searcher.suggest(trial_id)
            searcher.on_pause(trial_id)
            searcher.on_unpause(trial_id)
            searcher.on_pause("unknown")
            assert searcher.observations()["status"].tolist()[-1] == "running"
            searcher.on_trial_complete(trial_id, {"loss": 10.0 - t, "training_iteration": t})
        assert searcher._optimizer.observations.max_t == "auto"
        assert [trial.id for trial in searcher._optimizer.observations.complete()] == ["a"]
        assert sum("pauses trials" in record.message for record in caplog.records) == 1

    def test_asking_again_for_the_same_trial_gives_the_same_configuration(self):
        searcher = self.make()
        assert searcher.suggest("a") == searcher.suggest("a")

    def proposals(self, searcher: Any) -> list[int]:
        """A list that grows with every proposal of the method, which says that the search has left the design."""
        optimizer = searcher._ready()
        made, propose = [], optimizer.strategy.propose
        optimizer.strategy.propose = lambda ask, rng: made.append(len(optimizer.observations)) or propose(ask, rng)
        return made

    def test_trials_that_never_end_do_not_stop_the_search(self):
        searcher = self.make(num_initial=3)
        proposals = self.proposals(searcher)
        configs = self.run(searcher, 4)
        configs += [searcher.suggest(f"open{k}") for k in range(10)]
        assert len({json.dumps(config) for config in configs}) == 14
        assert proposals
        assert searcher._optimizer.failures == 0
        assert Counter(searcher.observations()["status"]) == {"finished": 4, "running": 10}

    @pytest.mark.parametrize("policy", ["ignore", "penalize"])
    def test_when_everything_fails_the_search_goes_on_in_the_space(self, policy):
        searcher = self.make(on_error=policy, num_initial=2)
        for k in range(8):
            assert searcher._space.contains(self.bare(searcher.suggest(str(k))))
            searcher.on_trial_complete(trial_id=str(k), result=None, error=True)
        assert searcher.recommend() is None

    @pytest.mark.parametrize("policy", ["ignore", "penalize"])
    def test_when_everything_but_the_first_trials_fails_the_method_goes_on_in_the_space(self, policy):
        searcher = self.make(on_error=policy, num_initial=3)
        proposals = self.proposals(searcher)
        self.run(searcher, 4)
        for k in range(6):
            assert searcher._space.contains(self.bare(searcher.suggest(f"bad{k}")))
            searcher.on_trial_complete(trial_id=f"bad{k}", result=None, error=True)
        assert len(proposals) >= 6
        assert searcher._optimizer.failures == 0
        assert Counter(searcher.observations()["status"]) == {"finished": 4, "errored": 6}

    @pytest.mark.parametrize(
        "values",
        [
            [1.0] * 9,
            [1e12 + k for k in range(9)],
            [1e-12 * k for k in range(9)],
            [1e300, -1e300] * 5,
            [1e308] * 3 + [0.0] * 6,
            [-5e-324] * 9,
        ],
    )
    def test_values_of_any_scale(self, values):
        searcher = self.make(num_initial=3)
        for k, value in enumerate(values):
            assert searcher._space.contains(self.bare(searcher.suggest(str(k))))
            searcher.on_trial_complete(trial_id=str(k), result={"loss": value, "training_iteration": 1}, error=False)
        assert searcher._space.contains(self.bare(searcher.suggest("next")))

    def test_a_finite_space_ends_the_search(self):
        searcher = self.make(space={"a": tune.choice([1, 2]), "b": tune.choice([{"x": tune.randint(0, 2)}, None])}, num_initial=2)
        configs = []
        while (config := searcher.suggest(f"t{len(configs)}")) != Searcher.FINISHED:
            configs.append(json.dumps(config))
            searcher.on_trial_complete(trial_id=f"t{len(configs) - 1}", result={"loss": 0.1 * len(configs)}, error=False)
            assert len(configs) <= 6
        assert len(set(configs)) == 6

    def test_many_duplicates_given_by_the_user_do_no_harm(self):
        searcher = self.make()
        for k in range(10):
            searcher.add_evaluated_point(POINT, 1.0 + 1e-9 * k)
        self.run(searcher, 3)

    @pytest.mark.parametrize(
        "space",
        [
            {"a": tune.randint(0, 1), "b": tune.choice(["only"]), "c": tune.qrandint(2, 3, 2), "x": tune.uniform(0, 1)},
            {"a": tune.choice([{"ü": [1, {"deep": None}]}, [2], None, (3, 4)]), "x": tune.loguniform(5e-324, 1e-3)},
            {"m": tune.choice([{"a": tune.choice([{"b": tune.choice([{"c": tune.uniform(0, 1)}, 1])}, 2])}, 3])},
            {"m": tune.choice([tune.randint(0, 3), [tune.uniform(0, 1), tune.randn()], "none"])},
        ],
    )
    def test_odd_spaces(self, space):
        searcher = self.make(space=space, num_initial=2)
        for k in range(8):
            config = searcher.suggest(str(k))
            if config == Searcher.FINISHED:
                break
            assert searcher._space.contains(self.bare(config))
            searcher.on_trial_complete(trial_id=str(k), result={"loss": math.sin(k)}, error=False)

    # Wrappers

    def test_inside_a_concurrency_limiter(self):
        inner = self.searcher_class(seed=0, **self.settings)
        limiter = ConcurrencyLimiter(inner, max_concurrent=2)
        limiter.set_search_properties("loss", "min", SPACE, num_samples=10)
        assert limiter.suggest("a") is not None
        assert limiter.suggest("b") is not None
        assert limiter.suggest("c") is None
        limiter.on_trial_complete("a", {"loss": 1.0, "training_iteration": 1})
        assert limiter.suggest("d") is not None
        assert inner.observations()["status"].tolist() == ["finished", "running", "running"]

    def test_inside_a_limiter_that_delivers_batches(self):
        inner = self.searcher_class(seed=0, **self.settings)
        limiter = ConcurrencyLimiter(inner, max_concurrent=3, batch=True)
        limiter.set_search_properties("loss", "min", SPACE, num_samples=10)
        for _ in range(3):
            names = [str(np.random.default_rng(len(inner.observations())).integers(10**9)) + str(k) for k in range(3)]
            for name in names:
                assert limiter.suggest(name) is not None
            for name in names:
                limiter.on_trial_complete(name, {"loss": 1.0, "training_iteration": 1})
        assert (inner.observations()["status"] == "finished").all()

    def test_inside_a_repeater(self):
        inner = self.searcher_class(seed=0, **self.settings)
        repeater = Repeater(inner, repeat=2)
        repeater.set_search_properties("loss", "min", SPACE, num_samples=10)
        first, second = repeater.suggest("a"), repeater.suggest("b")
        assert first["model"] == second["model"]
        repeater.on_trial_complete("a", {"loss": 1.0})
        repeater.on_trial_complete("b", {"loss": 3.0})
        assert inner.observations()["value"].tolist() == [2.0]

    # State

    def test_five_then_restore_then_five_equals_ten(self):
        straight, first = self.make(), self.make()
        proposals = self.proposals(straight)
        expected = self.run(straight, 10)
        assert len(proposals) >= 4  # the method was at work on both sides of the restore
        del straight._optimizer.strategy.propose
        configs = self.run(first, 5)
        second = restored(saved(first), self.blank)
        assert configs + self.run(second, 5, start=5) == expected
        assert saved(second) == saved(straight)

    def test_restore_needs_no_search_properties_and_keeps_open_trials(self):
        searcher = self.make()
        self.run(searcher, 6)
        searcher.suggest("open")
        other = restored(saved(searcher), self.blank)
        assert (other.metric, other.mode) == ("loss", "min")
        other.on_trial_complete(trial_id="open", result={"loss": 0.3, "training_iteration": 1}, error=False)
        searcher.on_trial_complete(trial_id="open", result={"loss": 0.3, "training_iteration": 1}, error=False)
        assert other.suggest("next") == searcher.suggest("next")

    def test_restore_overrides_what_tune_sets_before_it(self):
        searcher = self.make()
        self.run(searcher, 4)
        other = self.searcher_class(**self.settings)
        other.set_search_properties("loss", "min", SPACE, num_samples=1)
        text = saved(searcher)
        other = restored(text, lambda: other)
        assert saved(other) == text
        assert other._budget == 30

    def test_pickle_and_deepcopy_keep_everything(self):
        searcher = self.make()
        self.run(searcher, 6)
        expected = copy.deepcopy(searcher).suggest("next")
        assert cloudpickle.loads(cloudpickle.dumps(searcher)).suggest("next") == expected
        assert saved(copy.deepcopy(searcher)) == saved(searcher)
        cloudpickle.dumps(self.searcher_class(**self.settings))

    def test_it_is_saved_in_a_directory_as_tune_does(self, tmp_path):
        searcher = self.make()
        self.run(searcher, 3)
        searcher.save_to_dir(str(tmp_path), session_str="1")
        assert {path.suffix for path in tmp_path.iterdir()} == {".json"}  # the state, and who has written it
        assert saved(self.searcher_class.from_experiment(tmp_path)) == saved(searcher)

    def test_a_blank_searcher_can_be_saved(self):
        restored(saved(self.blank()), self.blank)

    def test_bad_files_are_refused_and_leave_the_search_as_it_was(self, tmp_path):
        searcher = self.make()
        self.run(searcher, 3)
        text = saved(searcher)
        other = self.make()
        self.run(other, 2)
        before = saved(other)
        path = tmp_path / "state"
        altered = text.replace('"status":"finished"', '"status":"running"', 1)
        newer = text.replace('"version": 2', '"version": 99')
        contents = [b"", b"\x80\x04pickle", text[:-100].encode(), altered.encode(), b"{}", newer.encode()]
        for content in contents:
            path.write_bytes(content)
            with pytest.raises(StateError):
                other.restore(str(path))
            assert saved(other) == before
        with pytest.raises(StateError, match="cannot be read"):
            other.restore(str(tmp_path / "absent"))
        foreign = self.searcher_class(space={"x": tune.uniform(0, 1)}, metric="loss", mode="min", **self.settings)
        path.write_text(text)
        with pytest.raises(StateError, match="not the space"):
            foreign.restore(str(path))

    def test_another_process_with_another_hash_seed_suggests_the_same(self):
        code = f"""
import json, importlib
from tests.conformance import SPACE, loss
module, name = {self.searcher_class.__module__!r}, {self.searcher_class.__name__!r}
searcher = getattr(importlib.import_module(module), name)(seed=0, num_initial=3, **{self.settings!r})
searcher.set_search_properties("loss", "min", SPACE, num_samples=30)
configs = []
for k in range(9):
    configs.append(searcher.suggest(str(k)))
    searcher.on_trial_complete(trial_id=str(k), result={{"loss": loss(configs[-1]), "training_iteration": 1}}, error=False)
print(json.dumps(configs))
"""
        other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        output = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": other},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert json.loads(output) == self.run(self.make(), 9)

    # Answers

    def test_recommend_and_explain_are_in_the_users_units(self):
        searcher = self.make()
        assert searcher.recommend() is None
        configs = self.run(searcher, 12)
        recommendation = searcher.recommend()
        values = searcher.observations()["value"]
        assert searcher._space.contains(recommendation.config)
        assert recommendation.config in [self.bare(config) for config in configs]
        assert values.min() - 1.0 <= recommendation.value <= values.max() + 1.0
        explanation = searcher.explain()
        assert explanation.table["trials"].sum() == 12
        assert "model=" in str(explanation)

    def test_maximising_is_minimising_upside_down(self):
        down = self.make()
        up = self.searcher_class(space=SPACE, metric="loss", mode="max", seed=0, num_initial=3, **self.settings)
        proposals = self.proposals(down)
        up._budget = 30
        for k in range(9):
            config = down.suggest(str(k))
            assert up.suggest(str(k)) == config
            down.on_trial_complete(trial_id=str(k), result={"loss": loss(config)}, error=False)
            up.on_trial_complete(trial_id=str(k), result={"loss": -loss(config)}, error=False)
        assert len(proposals) >= 3
        assert up.recommend().config == down.recommend().config
        assert up.recommend().value == pytest.approx(-down.recommend().value)

    # Anything in any order

    @pytest.mark.parametrize("wrapper", WRAPPERS)
    def test_random_events_in_any_order(self, wrapper, caplog):
        caplog.set_level(logging.ERROR, "raytree")
        rng = np.random.default_rng([2026, WRAPPERS.index(wrapper)])
        for k in range(self.sequences if wrapper == "none" else self.sequences // 3):
            space = SPACE if k % 3 == 0 else random_space(rng)
            play(
                lambda space=space, **settings: self.searcher_class(
                    space=space, metric="loss", seed=1, num_initial=3, **self.settings, **settings
                ),
                self.blank,
                rng,
                events=int(rng.integers(5, 30)),
                added=self.added,
                wrapper=wrapper,
            )
