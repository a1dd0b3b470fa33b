"""What a state file from a stranger can do: nothing to your configurations when you give your own space."""

from __future__ import annotations

import copy
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune

from raytree import BOSHOptimizer, Categorical, Float, Optimizer, RandomOptimizer, Space, TreeOptimizer
from raytree import state as document
from raytree.errors import ConfigurationError, SettingError, StateError
from raytree.searchers import BOSHSearcher, RandomSearcher, TreeSearcher
from raytree.space.serial import fingerprint
from tests.events import restored, saved

SPACE = {"x": tune.uniform(0, 1), "data": "data.csv", "net": tune.choice([{"kind": "a"}, {"kind": "b", "y": tune.uniform(0, 1)}])}


def forged(searcher: Any, change: Any, folder: Path) -> str:
    """A state file of the searcher with `change` made to its payload, under a checksum that fits."""
    payload = json.loads(saved(searcher))["payload"]
    change(payload)
    path = folder / "forged.json"
    path.write_text(document.write(payload))
    return str(path)


def played(searcher: Any) -> Any:
    for k in range(3):
        config = searcher.suggest(f"t{k}")
        searcher.on_trial_complete(f"t{k}", {"loss": config["x"], "training_iteration": 1})
    return searcher


def of(make: Any, **settings: Any) -> Any:
    return make(space=SPACE, metric="loss", mode="min", seed=0, num_initial=2, **settings)


# Configurations


def test_constants_and_categories_of_a_file_never_reach_a_configuration(tmp_path):
    def change(payload: dict) -> None:
        payload["optimizer"]["space"]["data"] = "http://stranger"
        payload["optimizer"]["space"]["net"]["choices"]["v"][0]["kind"] = "evil"

    path = forged(played(of(TreeSearcher)), change, tmp_path)
    searcher = of(TreeSearcher)
    searcher.restore(path)
    configs = [searcher.suggest(f"n{k}") for k in range(6)]
    assert {config["data"] for config in configs} == {"data.csv"}
    assert {config["net"]["kind"] for config in configs} <= {"a", "b"}


@pytest.mark.parametrize(
    ("make", "settings", "key"),
    [
        (TreeSearcher, {"fidelity_key": "cmd"}, "cmd"),
        (BOSHSearcher, {"seed_key": "cmd"}, "cmd"),
        (BOSHSearcher, {"realizations": ["rm -rf", "curl"]}, "seed"),
        (TreeSearcher, {"fidelity_key": "x.y", "min_fidelity": 1e-9}, "x.y"),
    ],
)
def test_settings_of_a_file_add_nothing_to_configurations(make, settings, key, tmp_path):
    """The file is a whole and honest one of a search that had these settings; you did not ask for them."""
    path = tmp_path / "state.json"
    played(of(make, **settings)).save(str(path))
    yours = of(make)
    before = saved(yours)
    with pytest.raises(StateError, match=key):
        yours.restore(str(path))
    assert saved(yours) == before
    same = of(make, **settings)
    same.restore(str(path))
    assert len(same.observations()) == 3
    blank = make()  # without a space of yours the file is trusted
    blank.restore(str(path))
    assert key in blank.suggest("n")


def test_the_engine_keeps_to_your_settings_too():
    space = Space({"x": Float(0, 1)})
    theirs = BOSHOptimizer(space, seed=0, seed_key="cmd")
    theirs.tell(theirs.ask().id, 1.0)
    with pytest.raises(StateError, match="cmd"):
        Optimizer.from_state(theirs.state(), space)
    assert Optimizer.from_state(theirs.state(), space, seed_key="cmd").ask() == theirs.ask()
    assert Optimizer.from_state(copy.deepcopy(theirs.state())).ask() is not None


@pytest.mark.parametrize(
    ("name", "value"), [("num_initial", 10**30), ("num_initial", 2_000_000), ("initial_realizations", 10**30), ("budget", 10**30)]
)
def test_absurd_settings_are_refused(name, value, tmp_path):
    with pytest.raises(SettingError, match=name):
        BOSHOptimizer({"x": Float(0, 1)}, **{name: value})
    path = forged(played(of(BOSHSearcher)), lambda payload: payload["optimizer"]["settings"].update({name: value}), tmp_path)
    for searcher in (BOSHSearcher(), of(BOSHSearcher)):
        with pytest.raises(StateError, match=name):
            searcher.restore(path)


@pytest.mark.parametrize(("name", "value"), [("metric", "other"), ("mode", "max")])
def test_metric_and_mode_that_you_gave_are_not_replaced(name, value, tmp_path):
    path = tmp_path / "state.json"
    played(TreeSearcher(SPACE, **{"metric": "loss", "mode": "min", name: value})).save(str(path))
    yours = of(TreeSearcher)
    with pytest.raises(StateError, match=name):
        yours.restore(str(path))
    blank = TreeSearcher()
    blank.restore(str(path))
    assert getattr(blank, name) == value


def test_a_file_does_not_contradict_itself(tmp_path):
    for change in (
        lambda payload: payload.update(mode="max"),
        lambda payload: payload.update(mode="sideways", optimizer=None),
        lambda payload: payload.update(max_concurrent="many"),
        lambda payload: payload.update(time_attr=3),
    ):
        with pytest.raises(StateError):
            TreeSearcher().restore(forged(played(of(TreeSearcher)), change, tmp_path))


# Objects


class Thing:
    def __init__(self, number: Any) -> None:
        self.number = number


class Other(Thing):
    pass


class Blind:
    __slots__ = ()


def one(x: float) -> float:
    return x


def two(x: float) -> float:
    return 2 * x


PAIRS = [
    (one, two),
    (Thing, Other),
    (Thing(1), Thing(2)),
    (Thing(Thing(1)), Thing(Thing(2))),
    (lambda x: x, lambda x: 2 * x),
    (partial(one, 1.0), partial(one, 2.0)),
    (np.arange(3), np.arange(3) + 1),
    (np.sin, np.cos),
    ({"make": one}, {"make": two}),
    (b"a", b"b"),
    (Path("a"), Path("b")),
    (frozenset({1}), frozenset({2})),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair[0]).__name__)
def test_objects_in_another_order_are_refused(pair):
    """Values would change hands: a trial of the first would become one of the second."""
    optimizer = RandomOptimizer({"make": Categorical(pair)}, seed=0)
    optimizer.tell(optimizer.ask().id, 1.0)
    again = Optimizer.from_state(optimizer.state(), {"make": Categorical(pair)})
    assert again.ask() == optimizer.ask()
    with pytest.raises(StateError, match="not the space"):
        Optimizer.from_state(optimizer.state(), {"make": Categorical(pair[::-1])})


def test_objects_that_cannot_be_told_apart_are_announced(caplog):
    pair = (Blind(), Blind())
    optimizer = RandomOptimizer({"make": Categorical(pair)}, seed=0)
    optimizer.tell(optimizer.ask().id, 1.0)
    with caplog.at_level(logging.WARNING, logger="raytree"):
        Optimizer.from_state(optimizer.state(), {"make": Categorical(pair)})
    assert [record for record in caplog.records if "tests.test_trust.Blind" in record.getMessage()]
    assert "order" in caplog.text


def test_a_constant_object_is_known_by_its_name_alone():
    """It changes no trial's place: a data set that was loaded again must not stop a search."""
    first, second = ({"x": Float(0, 1), "data": thing} for thing in (Thing(np.arange(3)), Thing(np.arange(4))))
    assert fingerprint(Space(first)) == fingerprint(Space(second))
    assert fingerprint(Space(first)) != fingerprint(Space({"x": Float(0, 1), "data": Other(1)}))


def test_an_object_that_contains_itself_is_no_trouble():
    loop = Thing(1)
    loop.number = loop
    assert fingerprint(Space({"a": Categorical([loop, Thing(2)])})) != fingerprint(Space({"a": Categorical([Thing(2), loop])}))


def test_a_reordered_searcher_space_is_refused(tmp_path):
    def space(*kinds: Any) -> dict:
        return {"x": tune.uniform(0, 1), "model": tune.choice(list(kinds))}

    path = tmp_path / "state.json"
    played(RandomSearcher(space(one, two), metric="loss", mode="min", seed=0)).save(str(path))
    with pytest.raises(StateError, match="not the space"):
        RandomSearcher(space(two, one)).restore(str(path))
    same = RandomSearcher(space(one, two))
    same.restore(str(path))
    assert same.suggest("n")["model"] in (one, two)


def test_objects_that_tune_hides_are_compared_when_a_trial_has_got_them(caplog):
    """Tune knows them by their place alone: nothing but a trial's configuration shows that they were exchanged."""
    from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders

    def announced(searcher: Any) -> Any:
        config = inject_placeholders({"x": tune.uniform(0, 1), "model": tune.choice([one, two])}, create_resolvers_map())
        searcher.set_search_properties("loss", "min", config)
        return searcher

    def told(searcher: Any, trial_id: str, objects: tuple) -> None:
        space, suggested = searcher._optimizer.space, searcher.suggest(trial_id)
        code = space.point(suggested)[[parameter.name for parameter in space.parameters].index("model")]
        searcher.on_trial_complete(
            trial_id, {"loss": 1.0, "training_iteration": 1, "config": {**suggested, "model": objects[code]}}
        )

    first = announced(RandomSearcher(seed=0))
    first._ready()
    for k in range(6):
        told(first, f"t{k}", (one, two))
    for objects, expected in (((one, two), 0), ((two, one), 1)):
        caplog.clear()
        again = restored(saved(first), lambda: announced(RandomSearcher()))
        for k in range(6):
            told(again, f"n{k}", objects)
        assert len([record for record in caplog.records if "change hands" in record.getMessage()]) == expected


def test_tree_optimizer_fingerprint_is_that_of_the_given_space():
    space = Space({"x": Float(0, 1)})
    assert TreeOptimizer(space, fidelity_key="b").state()["fingerprint"] == fingerprint(space)


# What comes from outside


def test_a_time_that_begins_with_zero_is_a_time(caplog):
    searcher = TreeSearcher(seed=1, time_attr="epoch", max_t=3)
    searcher.set_search_properties("loss", "min", {"x": tune.uniform(0, 1)})
    searcher.suggest("a")
    for epoch in range(3):
        searcher.on_trial_result("a", {"epoch": epoch, "loss": 10.0 - epoch})
    assert searcher._optimizer.observations.trials["a"].reports == {0.0: 10.0, 1.0: 9.0, 2.0: 8.0}
    assert not caplog.records
    searcher.suggest("b")
    searcher.on_trial_complete("b", {"epoch": 0, "loss": 9.0})
    assert searcher.observations().set_index("trial_id").loc["b", "status"] == "stopped"


def test_the_value_of_an_evaluation_in_error_teaches_nothing():
    searcher = TreeSearcher(space={"x": tune.uniform(0, 1)}, metric="loss", mode="min", max_t=10)
    searcher.add_evaluated_point({"x": 0.2}, -100.0, error=True)
    searcher.add_evaluated_point({"x": 0.3}, 1.0)
    assert -100.0 not in searcher._optimizer.observations.curves().losses
    assert searcher.recommend().value == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize(
    ("searcher", "bad"),
    [(BOSHSearcher(seed=0), {"x": 0.2, "seed": "3"}), (TreeSearcher(seed=0, fidelity_key="f"), {"x": 0.2, "f": 5})],
    ids=["seed", "fidelity"],
)
def test_a_bad_added_key_in_a_point_is_refused_before_the_first_trial(searcher, bad):
    given = type(searcher)(**searcher._settings, points_to_evaluate=[{"x": 0.1}, bad, {"x": 0.3}])
    with pytest.raises(ConfigurationError, match=r"points_to_evaluate\[1\]"):
        given.set_search_properties("loss", "min", {"x": tune.uniform(0, 1)})


def test_flags_are_true_or_false():
    with pytest.raises(SettingError, match="must be True or False, got 'no'"):
        TreeSearcher(explore="no")
    TreeSearcher(explore=np.bool_(False))
