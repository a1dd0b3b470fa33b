"""The engine: asking and telling, the design, duplicates, exhaustion, state."""

from __future__ import annotations

import json
import math
from typing import ClassVar

import numpy as np
import pytest

from raytree import DesignOptimizer, Optimizer, RandomOptimizer, state
from raytree.errors import ConfigurationError, SettingError, StateError
from raytree.space import Categorical, Float, Integer, Space
from raytree.store import MAX_REPORTS, Observations, Status
from raytree.strategies.base import Strategy
from tests.spaces import LAYERS, MODELS, random_space


class Breaking(Strategy):
    def propose(self, ask, rng):
        raise np.linalg.LinAlgError("singular")


class Failing(Optimizer):
    """A method that breaks down."""

    def __init__(self, space, **settings):
        super().__init__(space, Breaking, {}, **settings)


def run(optimizer: Optimizer, n: int) -> list:
    """n evaluations of a fixed function."""
    configs = []
    for _ in range(n):
        suggestion = optimizer.ask()
        assert suggestion is not None
        configs.append(suggestion.config)
        optimizer.tell(suggestion.id, math.sin(len(str(suggestion.config))))
    return configs


# The design


def test_the_design_visits_every_path_once_before_any_twice():
    optimizer = DesignOptimizer(MODELS, seed=0, num_initial=8)
    paths = [optimizer.space.path(optimizer.space.point(optimizer.ask().config)) for _ in range(8)]
    assert set(paths[:4]) == set(paths[4:]) == set(optimizer.space.paths())


def test_the_design_counts_suggestions_exactly_when_asked_in_parallel():
    optimizer = Failing(MODELS, seed=0, num_initial=6)
    for _ in range(6):
        optimizer.ask()  # nothing told: still the design, and never more of it
    assert len(optimizer.pending) == 6
    optimizer.tell("0", 1.0)
    design = DesignOptimizer(MODELS, seed=0, num_initial=6)
    assert [t.point for t in optimizer] == [design.space.point(design.ask().config) for _ in range(6)]


def test_a_short_design_spreads_over_the_cube_in_one_dimension():
    optimizer = DesignOptimizer({"x": Float(0, 1)}, seed=3, num_initial=16)
    xs = sorted(optimizer.ask().config["x"] for _ in range(16))
    assert all(k / 16 <= x <= (k + 1) / 16 for k, x in enumerate(xs))


@pytest.mark.parametrize(("budget", "length"), [(None, 8), (9, 3), (2, 1), (1000, 8)])
def test_the_default_length_of_the_design(budget, length):
    assert DesignOptimizer(MODELS, budget=budget).num_initial == length


@pytest.mark.parametrize(("decisions", "length"), [(3, 8), (4, 16), (12, 8)])
def test_every_path_has_a_point_of_the_design_where_paths_are_few(decisions, length):
    space = {f"d{k}": Categorical([{"a": Float(0, 1)}, {"b": Float(0, 1)}]) for k in range(decisions)}
    optimizer = DesignOptimizer(space)
    assert optimizer.num_initial == length
    visited = {optimizer.space.path_of(optimizer.strategy.initial(optimizer._design, k)) for k in range(length)}
    assert len(visited) == 2**decisions or 2**decisions > length


def test_without_any_value_the_search_stays_in_the_design():
    optimizer = Failing(MODELS, seed=0, num_initial=2)
    for _ in range(10):
        optimizer.fail(optimizer.ask().id)
    assert len(optimizer.observations.with_status(Status.ERRORED)) == 10


# Asking


def test_points_asked_for_come_first_in_order_and_exactly():
    points = [
        {"scaler": "none", "model": {"kind": "svm", "C": 0.1 + 0.2, "kernel": {"name": "linear"}}},
        {"scaler": "standard", "model": {"kind": "gnb"}},
    ]
    optimizer = RandomOptimizer(MODELS, seed=0)
    for point in [*points, points[0]]:
        optimizer.request(point)
    assert [optimizer.ask().config for _ in range(3)] == [*points, points[0]]


def test_a_bad_request_is_refused_at_once():
    with pytest.raises(ConfigurationError):
        RandomOptimizer(MODELS).request({"scaler": "other"})


def test_a_partial_request_is_filled_in_the_same_way_every_time():
    asked = []
    for _ in range(2):
        optimizer = RandomOptimizer(MODELS, seed=4)
        for _ in range(2):
            optimizer.request({"model": {"kind": "knn"}})
        asked.append([optimizer.ask().config for _ in range(2)])
    assert asked[0] == asked[1]
    assert asked[0][0] != asked[0][1]
    assert [config["model"]["kind"] for config in asked[0]] == ["knn", "knn"]


@pytest.mark.parametrize("kind", [RandomOptimizer, DesignOptimizer])
def test_a_finite_space_is_used_up_without_repeats_and_then_ends(kind):
    optimizer = kind({"a": Categorical([1, 2, 3]), "m": Categorical([{"x": Integer(1, 2)}, None])}, seed=1)
    seen = []
    while (suggestion := optimizer.ask()) is not None:
        seen.append(json.dumps(suggestion.config))
        assert len(seen) < 20
    assert len(seen) == len(set(seen)) == optimizer.space.size == 9
    assert optimizer.ask() is None


def test_equal_categories_are_not_tried_twice():
    optimizer = RandomOptimizer({"a": Categorical(["x", "x", "y"])}, seed=0)
    assert {optimizer.ask().config["a"] for _ in range(2)} == {"x", "y"}
    assert optimizer.ask() is None


def test_a_space_without_parameters_is_tried_once():
    optimizer = RandomOptimizer({"a": 1})
    assert optimizer.ask().config == {"a": 1}
    assert optimizer.ask() is None


def test_a_broken_method_falls_back_to_random_points_and_says_so(caplog):
    optimizer = Failing(MODELS, seed=0, num_initial=1)
    run(optimizer, 5)
    assert "singular" in caplog.text
    assert len(optimizer.observations) == 5


def test_bad_settings_are_refused():
    for settings in ({"seed": -1}, {"seed": "a"}, {"num_initial": 0}, {"budget": -3}, {"mode": "up"}, {"on_error": "x"}):
        with pytest.raises(SettingError, match=next(iter(settings))):
            RandomOptimizer(MODELS, **settings)
    optimizer = RandomOptimizer(MODELS)
    optimizer.ask("a")
    with pytest.raises(SettingError, match="suggested before"):
        optimizer.ask("a")


# Telling


def test_a_value_is_the_last_report_and_repeats_do_no_harm():
    store = Observations(Space(MODELS))
    trial = store.add("a", (0, 2, None, None, None, None))
    store.report("a", 3.0, 1)
    store.report("a", 2.0, 2)
    store.report("a", 2.5, 1)
    store.end("a")
    assert (trial.value, trial.t, trial.status) == (2.0, 2, Status.FINISHED)
    store.end("a")
    store.fail("a")
    store.report("a", 9.0, 1)
    assert (trial.value, trial.t) == (2.0, 2)
    store.report("a", 1.0, 3)  # late, but later
    assert (trial.value, trial.t) == (1.0, 3)
    store.finish("a", 0.5, 3)
    store.finish("a", 0.5, 3)
    assert (trial.value, len(store)) == (0.5, 1)


def test_a_retry_that_starts_again_replaces_what_it_repeats():
    store = Observations(Space(MODELS))
    trial = store.add("a", (0, 2, None, None, None, None))
    for t in range(1, 6):
        store.report("a", 10.0 - t, t)
    store.report("a", 8.0, 1)  # started again
    store.finish("a", 7.0, 2)
    assert trial.value == 7.0
    assert trial.reports == {1: 8.0, 2: 7.0}


def test_an_errored_trial_that_reports_again_has_a_value_and_is_finished_by_its_end():
    store = Observations(Space(MODELS))
    trial = store.add("a", (0, 2, None, None, None, None))
    store.fail("a")
    assert trial.status is Status.ERRORED
    store.report("a", 2.0, 1)
    assert (trial.status, trial.value) == (Status.FINISHED, 2.0)
    store.finish("a", 1.0)
    assert (trial.status, trial.value) == (Status.FINISHED, 1.0)


class Astray(Strategy):
    """Proposes rows that are outside the unit cube, or nowhere."""

    rows: ClassVar[list] = []

    def propose(self, ask, rng):
        return [np.array(row) for row in self.rows]


class Outside(Optimizer):
    def __init__(self, space, **settings):
        super().__init__(space, Astray, {}, **settings)


@pytest.mark.parametrize("bad", [1.0000001, -1e-12, math.inf, math.nan])
def test_a_proposal_outside_the_space_never_ends_a_search(bad, caplog):
    optimizer = Outside({"x": Float(0, 1), "y": Float(0, 1)}, seed=0, num_initial=1)
    optimizer.tell(optimizer.ask().id, 1.0)
    Astray.rows = [[bad, 0.5]]
    for _ in range(3):
        suggestion = optimizer.ask()
        assert optimizer.space.contains(suggestion.config)
        optimizer.tell(suggestion.id, 1.0)
    assert optimizer.failures == (3 if math.isnan(bad) else 0)
    assert sum(record.levelname == "ERROR" for record in caplog.records) == math.isnan(bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "text", [1.0], object(), 10**400])
def test_values_that_are_no_finite_number_count_as_bad(bad):
    store = Observations(Space(MODELS))
    for k, value in enumerate([1.0, 3.0, bad]):
        store.add(str(k), (0, 2, None, None, None, None))
        store.finish(str(k), value)
    assert store.losses().losses.tolist() == [1.0, 3.0, 4.0]
    assert store.best().id == "0"


def test_errors_are_ignored_or_penalised_as_asked():
    for policy, expected in (("ignore", [1.0, 2.0]), ("penalize", [1.0, 2.0, 2.5])):
        store = Observations(Space(MODELS), on_error=policy)
        for k, value in enumerate([1.0, 2.0, None]):
            store.add(str(k), (0, 2, None, None, None, None))
            if value is None:
                store.fail(str(k))
            else:
                store.finish(str(k), np.float32(value))
        assert store.losses().losses.tolist() == expected


def test_maximising_turns_values_into_losses():
    store = Observations(Space(MODELS), mode="max")
    for k, value in enumerate([1.0, 5.0, 3.0]):
        store.add(str(k), (0, 2, None, None, None, None))
        store.finish(str(k), value)
    assert store.best().value == 5.0
    assert store.losses().losses.tolist() == [-1.0, -5.0, -3.0]


def test_long_trials_keep_a_bounded_number_of_reports_with_the_last():
    store = Observations(Space(MODELS))
    trial = store.add("a", (0, 2, None, None, None, None))
    for t in range(1, 5001):
        store.report("a", float(t), t)
    assert len(trial.reports) <= MAX_REPORTS
    assert max(trial.reports) == 5000


def test_unknown_ids_are_ignored():
    optimizer = RandomOptimizer(MODELS)
    optimizer.report("x", 1.0, 1)
    optimizer.tell("x", 1.0)
    optimizer.fail("x")
    optimizer.end("x")
    assert len(optimizer.observations) == 0


def test_recommendation_and_explanation_are_in_the_users_units():
    optimizer = RandomOptimizer(MODELS, seed=0, mode="max")
    assert optimizer.recommend() is None
    for value in (0.1, 0.9, 0.5):
        optimizer.tell(optimizer.ask().id, value)
    recommendation = optimizer.recommend()
    assert recommendation.value == 0.9
    assert recommendation.trial_id == "1"
    table = optimizer.explain().table
    assert table["trials"].sum() == 3
    assert table["best"].iloc[0] == 0.9
    assert "model=" in str(optimizer.explain())


# State


def test_given_evaluations_count_and_are_used():
    optimizer = RandomOptimizer({"a": Categorical(["x", "y"])}, seed=0)
    optimizer.give({"a": "x"}, 1.0)
    assert optimizer.ask().config == {"a": "y"}
    assert optimizer.recommend().trial_id == "given-0"


@pytest.mark.parametrize("structure", [MODELS, LAYERS, {"x": Float(0, 1)}, {"a": 1}])
@pytest.mark.parametrize("kind", [RandomOptimizer, DesignOptimizer])
def test_a_restored_search_goes_on_as_the_other_would(structure, kind):
    straight = kind(structure, seed=5)
    if straight.space.d == 0:
        straight.ask()
    else:
        run(straight, 5)
        straight.ask()
        straight.fail(straight.ask().id)
        straight.request(straight.space.config(straight.space.decode(straight.space.sample(np.random.default_rng(0), 1)[0])))
    text = straight.save()
    restored = Optimizer.from_state(state.read(text))
    assert restored.save() == text
    assert type(restored) is kind
    assert [restored.ask() for _ in range(8)] == [straight.ask() for _ in range(8)]


def test_random_spaces_survive_state():
    rng = np.random.default_rng(2)
    for _ in range(60):
        optimizer = RandomOptimizer(random_space(rng), seed=1)
        for k in range(4):
            if (suggestion := optimizer.ask()) is not None:
                optimizer.tell(suggestion.id, float(k))
        restored = Optimizer.from_state(state.read(optimizer.save()))
        assert restored.save() == optimizer.save()
        assert restored.ask() == optimizer.ask()


def test_a_space_with_foreign_objects_needs_the_same_space_again():
    space = {"f": Categorical([len, print, object])}
    optimizer = RandomOptimizer(space, seed=0)
    optimizer.ask()
    saved = state.read(optimizer.save())
    with pytest.raises(StateError, match="Pass the same space"):
        Optimizer.from_state(saved)
    assert Optimizer.from_state(saved, space).ask() == optimizer.ask()
    with pytest.raises(StateError, match="not the space"):
        Optimizer.from_state(saved, {"f": Categorical([1, 2])})


def test_damaged_foreign_and_newer_documents_are_refused():
    text = RandomOptimizer(MODELS, seed=0).save()
    for bad, words in [
        (text[: len(text) // 2], "cut short"),
        ("", "cut short"),
        ("[]", "not a raytree state"),
        ('{"format": "other"}', "not a raytree state"),
        (text.replace('"version": 2', '"version": 3'), "newer"),
        (text.replace('"version": 2', '"version": 1'), "before 0.2.0"),
        (text.replace('"version": 2', '"version": "x"'), "bad version"),
        (text.replace('"asks":0', '"asks":1'), "checksum"),
        ("[" * 100_000, "too deeply|cut short"),
        (text.replace('"asks":0', '"asks":NaN'), "not JSON"),
        (b"\x80\x04\x95pickle", "cut short"),
    ]:
        with pytest.raises(StateError, match=words):
            state.read(bad)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(kind="Nothing"),
        lambda s: s.pop("trials"),
        lambda s: s.update(asks="many"),
        lambda s: s["settings"].update(mode="up"),
        lambda s: s["settings"].update(unknown=1),
        lambda s: s["trials"][0].update(point=[1e308] * 6),
        lambda s: s["trials"][0].update(point=[0]),
        lambda s: s["trials"][0].update(status="lost"),
        lambda s: s["trials"][0].update(value=None),
        lambda s: s["trials"][0].update(value="1"),
        lambda s: s["trials"][1].update(id="0"),
        lambda s: s.update(space={"$": "os.system", "v": "true"}),
        lambda s: s.update(space={"$": "Float", "lower": 1, "upper": 0}),
        lambda s: s.update(requested=[[0]]),
    ],
)
def test_malformed_states_are_refused_by_our_error(change):
    optimizer = RandomOptimizer(MODELS, seed=0)
    run(optimizer, 3)
    saved = state.read(optimizer.save())
    change(saved)
    with pytest.raises(StateError):
        Optimizer.from_state(state.read(state.write(saved)))
