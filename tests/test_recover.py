"""Configurations that come back changed: flat, through JSON, with objects in the place of placeholders."""

from __future__ import annotations

import copy
import functools
import json
import pickle

import numpy as np
import pytest
from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders, resolve_placeholders
from ray.tune.search.variant_generator import format_vars
from ray.tune.utils.util import flatten_dict

from raytree.errors import ConfigurationError
from raytree.searchers.tune_space import to_space
from raytree.space import Categorical, Float, Integer, Space
from raytree.space.alike import Match, alike, match
from raytree.space.fill import filled
from raytree.space.flat import flatten
from raytree.space.naming import Seen, branch_names, name_of, revealed
from raytree.space.recover import recover
from tests.spaces import LAYERS, MODELS, random_space


class Thing:
    def __init__(self, number):
        self.number = number


class First:
    pass


class Second:
    pass


def points(space: Space, count: int, seed: int = 0):
    return [space.decode(row) for row in space.sample(np.random.default_rng(seed), count)]


# Flat configurations


def test_flat_keys_are_tunes():
    nested = {"a": {"b": 1, 2: {"c/d": [1, {"e": 2}]}}, "empty": {}, "f": (1, 2)}
    assert flatten({"config": nested}) == flatten_dict({"config": nested})


def test_points_of_random_spaces_come_back_from_flat_configurations_with_constants_around_them():
    rng = np.random.default_rng(0)
    for _ in range(150):
        space = random_space(rng)
        for row in space.sample(rng, 4):
            point = space.decode(row)
            config = space.config(point)
            strict = space.point(config)  # of two branches that fit alike, the first
            flat = flatten_dict({**config, "another": {"constant": 3}})
            assert space.key(recover(space, flat)) == space.key(strict)


def test_keys_that_are_numbers_or_have_slashes_are_found():
    space = Space({1: Float(0, 1), "a/b": {"c": Integer(1, 9)}, "m": Categorical([{2: Float(0, 1)}, {"x/y": Float(2, 3)}])})
    for point in points(space, 20):
        assert recover(space, flatten_dict(space.config(point))) == point


def test_categories_that_are_dicts_lists_and_nothing_come_back():
    choices = [
        {},
        {"a": {"b/c": 1, 4: None}},
        {"a": {"b/c": 2, 4: None}},
        [1, {"deep": (2, None)}],
        None,
        (3,),
        4,
        "4",
        True,
        1.5,
    ]
    space = Space({"x": Categorical(choices), "y": Float(0, 1)})
    for k in range(len(choices)):
        config = space.config((k, 0.5))
        assert recover(space, flatten_dict(config)) == (k, 0.5)


def test_constants_outside_branches_do_not_matter_and_inside_they_tell_them_apart():
    space = Space({"data": "old.csv", "m": Categorical([{"kind": "a", "x": Float(0, 1)}, {"kind": "b", "x": Float(0, 1)}])})
    assert recover(space, {"data": 7, "m/kind": "b", "m/x": 0.5}) == (1, None, 0.5)
    with pytest.raises(ConfigurationError, match="m: fits none"):
        recover(space, {"m/kind": "c", "m/x": 0.5})
    with pytest.raises(ConfigurationError):
        recover(space, {"m/kind": "a", "m/x": 7})
    with pytest.raises(ConfigurationError):
        recover(space, {"data": "old.csv"})


def test_of_two_branches_the_one_that_explains_more_is_meant():
    space = Space({"m": Categorical([{"x": Float(0, 1)}, {"x": Float(0, 1), "y": Float(0, 1)}])})
    assert recover(space, {"m/x": 0.1, "m/y": 0.2}) == (1, None, 0.1, 0.2)
    assert recover(space, {"m/x": 0.1}) == (0, 0.1, None, None)


def test_of_two_branches_that_explain_all_the_one_without_a_constant_that_is_not_there_is_meant():
    branches = [{"a": Float(0, 1), "constant": 1}, {"a": Float(0, 2)}]
    for order in (branches, branches[::-1]):
        space = Space({"x": Categorical(order)})
        for config in ({"x": {"a": 0.5}}, {"x": {"a": 0.5, "constant": 1}}):
            assert space.config(recover(space, config)) == config


def test_objects_of_an_own_space_come_back_as_copies():
    choices = [np.arange(2), {"x": Float(0, 1), "make": Thing(1)}, {"x": Float(0, 1), "make": Thing(2)}, First, {}]
    space = Space({"m": Categorical(choices), "plain": Categorical([Thing(1), Thing(2), len])})
    for point in points(space, 40):
        copied = pickle.loads(pickle.dumps(flatten_dict(space.config(point))))
        assert recover(space, copied) == point


# What Tune hides

HIDING = {
    "data": np.arange(3),
    "sampled": tune.sample_from(lambda: 7),
    "model": tune.choice(
        [{"make": First, "x": tune.uniform(0, 1)}, {"make": Second, "x": tune.uniform(0, 1)}, {"thing": Thing(3)}]
    ),
    "plain": tune.choice([Thing(1), Thing(2), None, "text"]),
    "list": [Thing(4), tune.uniform(0, 1)],
}


def hiding():
    """The space as a searcher sees it, and a function that turns its configurations into what a trial gets."""
    resolvers = create_resolvers_map()
    space = to_space(inject_placeholders(copy.deepcopy(HIDING), resolvers))

    def resolved(config):
        config = copy.deepcopy(config)
        resolve_placeholders(config, resolvers)
        return pickle.loads(pickle.dumps({k: v for k, v in config.items() if k != "sampled"})) | {"sampled": config["sampled"]}

    return space, resolved


def test_trials_with_objects_come_back_by_the_hashes_in_their_tag():
    space, resolved = hiding()
    assert space.hides
    for point in points(space, 30):
        config = space.config(point)
        tag = "3_" + format_vars({tuple(key.split("/")): value for key, value in flatten_dict(config).items()})
        assert recover(space, flatten_dict(resolved(config)), tag) == point


def test_without_a_tag_objects_that_were_seen_tell_and_others_are_not_guessed():
    space, resolved = hiding()
    some = points(space, 60)
    first = next(p for p in some if p[0] == 0)
    with pytest.raises(ConfigurationError, match="objects that no trial has shown"):
        recover(space, flatten_dict(resolved(space.config(first))))
    for point in some:
        config = space.config(point)
        space.reveal(seen(config, resolved(config)))
    for point in some:
        assert recover(space, flatten_dict(resolved(space.config(point)))) == point
        assert space.point(resolved(space.config(point))) == point


def seen(hidden_config, config):
    found = {}
    for key, value in flatten_dict(hidden_config).items():
        actual = flatten_dict(config)[key]
        if isinstance(value, tuple):
            found[value[1]] = Seen.of(actual)
        elif isinstance(value, list):
            found[value[0][1]] = Seen.of(actual[0])
    return found


def test_branches_are_named_after_what_was_seen():
    space, resolved = hiding()
    decision = next(j for j in space.decisions)
    assert space.cells[decision].labels == ("#0", "#1", "#2")
    for point in points(space, 40):
        config = space.config(point)
        space.reveal(seen(config, resolved(config)))
    assert space.cells[decision].labels == ("First", "Second", "Thing")
    shown = revealed(space.config(points(space, 1)[0]), space.objects)
    assert "__ref_ph" not in str(shown)


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        ([{"kind": "a", "x": 1}, {"kind": "b", "x": 2}], ("a", "b")),
        ([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}], ("a", "b")),
        ([{"x": 1, "make": First}, {"x": 1, "make": Second}], ("First", "Second")),
        ([First, Second, functools.partial(First), Thing(1)], ("First[0]", "Second", "First[2]", "Thing")),
        ([{"kind": "a"}, {"kind": "a"}, {}], ("a[0]", "a[1]", "#2")),
        ([np.arange(2), np.arange(3)], ("#0", "#1")),
        ([None, Float(0, 1), "text"], ("None", "[0, 1]", "text")),
        ([{"kind": "a", "x": Float(0, 1)}, None], ("a", "None")),
    ],
)
def test_names_of_branches(choices, names):
    assert branch_names(choices) == names


class Nasty:
    """Cannot be looked at."""

    def __getattribute__(self, name):
        if name == "__class__":
            return Nasty
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("no")


def test_objects_that_cannot_be_looked_at_do_no_harm():
    for value in (Nasty(), [Nasty()], {"a": Nasty()}):
        assert Seen.of(value).is_like(value)
        assert len(Seen.of(value).name) <= 24
        assert not alike(value, 3)
    wide = list(range(10**6))
    assert Seen.of(Thing(wide)).is_like(Thing(wide))
    assert not Seen.of(Thing(wide)).is_like(Thing([*wide, 1]))


def test_names_have_no_addresses():
    for value in (Thing(1), [Thing(1)], {"a": object()}, lambda: 1, functools.partial(int), np.arange(99), print):
        assert "0x" not in name_of(value)
        assert len(name_of(value)) <= 24


# Values after a journey


@pytest.mark.parametrize(
    "value",
    [(64, 64), [1, (2, None)], {"a": (1, {"b": None})}, {1: 2}, None, np.float64(0.5), np.int64(3), True, 0, "", float("nan")],
)
def test_values_survive_json(value):
    plain = json.loads(json.dumps(value, default=lambda number: number.item()))
    assert alike(value, plain)
    assert Space({"x": Categorical(["other", value])}).point({"x": plain}) == (1,)


@pytest.mark.parametrize("value", [Thing(1), First, np.arange(4), {"a": Thing([1, {"b": np.eye(2)}])}, len, {1, 2}])
def test_values_survive_a_pickle(value):
    assert alike(value, pickle.loads(pickle.dumps(value)))


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, True), (0, None), ("1", 1), ((1, 2), (1, 3)), ([1], [1, 2]), ({"a": 1}, {"a": 2}), ({"a": 1}, {"b": 1}),
     (Thing(1), Thing(2)),
     (First, Second), (np.arange(2), np.arange(3)), (np.array([]), 5), (lambda: 1, lambda: 2), ({}, []), (First(), Second())],
)  # fmt: skip
def test_different_values_stay_different(a, b):
    assert not alike(a, b)
    assert not alike(b, a)
    assert match(a, b, {}) is Match.NO


# Partial configurations


def test_what_a_partial_configuration_lacks_is_filled_in_and_what_it_has_is_kept():
    space = Space(MODELS)
    rng = np.random.default_rng(0)
    for _ in range(30):
        config = space.config(filled(space, {"model": {"kind": "svm", "C": 0.1 + 0.2}}, rng))
        assert config["model"]["kind"] == "svm"
        assert config["model"]["C"] == 0.1 + 0.2
    kinds = {str(space.config(filled(space, {"scaler": "none"}, rng))["model"]["kind"]) for _ in range(30)}
    assert kinds == {"svm", "knn", "gnb"}
    assert {space.config(filled(space, {"model": {"C": 1.0}}, rng))["model"]["kind"] for _ in range(9)} == {"svm"}


def test_a_partial_configuration_may_name_what_is_alive_only_sometimes():
    space = Space(LAYERS)
    config = space.config(filled(space, {"units_3": 7}, np.random.default_rng(0)))
    assert config["units_3"] == 7
    assert config["layers"] >= 3


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"scaler": "other"}, "scaler"),
        ({"model": {"kind": "knn", "C": 1.0}}, "model.C"),
        ({"unknown": 1}, "unknown"),
        (3, "conf"),
    ],
)
def test_a_partial_configuration_outside_the_space_is_refused_with_its_place(config, place):
    with pytest.raises(ConfigurationError) as caught:
        filled(Space(MODELS), config, np.random.default_rng(0))
    assert caught.value.where.startswith(place)


def test_partial_configurations_of_random_spaces_are_completed_inside_them():
    rng = np.random.default_rng(1)
    for _ in range(100):
        space = random_space(rng)
        point = space.decode(space.sample(rng, 1)[0])
        config = space.config(point)
        kept = {key: value for key, value in config.items() if rng.random() < 0.5}
        whole = space.config(filled(space, kept, rng))
        assert space.contains(whole)
        assert all(alike(whole[key], value) for key, value in kept.items())
