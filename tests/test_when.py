"""`when`: its spellings, what they mean, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune

from raytree.errors import SpaceError
from raytree.searchers import CondKernelSearcher, RandomSearcher, TreeSearcher
from raytree.searchers.tune_space import to_space
from raytree.space import Categorical, Float, Integer, Normal, Space, when
from raytree.space.serial import dump, load
from tests.spaces import LAYERS

DEEP: dict = {
    "pipeline": tune.choice(
        [
            {
                "kind": "net",
                "body": tune.choice(
                    [
                        {
                            "type": "conv",
                            "width": tune.lograndint(8, 256),
                            "head": tune.choice([{"h": "fc", "size": tune.randint(4, 64)}, {"h": "gap"}]),
                        },
                        {"type": "mlp", "width": tune.lograndint(8, 256), "act": tune.choice(["relu", "tanh", "gelu"])},
                    ]
                ),
            },
            {"kind": "boost", "rounds": tune.lograndint(10, 500), "shrinkage": tune.loguniform(1e-3, 1)},
        ]
    ),
    "layers": tune.randint(0, 5),
    **{f"units_{k}": when("layers", ge=k, then=tune.randint(1, 31)) for k in range(1, 5)},
    **{f"dropout_{k}": when([("layers", {"ge": k}), (f"units_{k}", {"gt": 10})], then=tune.uniform(0, 0.5)) for k in range(1, 5)},
    "rate": tune.loguniform(1e-5, 1e-1),
    "warmup": when("rate", gt=1e-3, then=tune.randint(1, 100)),
    "decay": when("rate", le=1e-2, then=tune.loguniform(1e-6, 1e-2)),
    "optimizer": tune.choice(["sgd", "adam", "lamb"]),
    "momentum": when("optimizer", eq="sgd", then=tune.uniform(0, 1)),
    "nesterov": when([("optimizer", {"eq": "sgd"}), ("momentum", {"gt": 0.5})], then=tune.choice([True, False])),
    "beta": when("optimizer", isin=["adam", "lamb"], then=tune.uniform(0.8, 0.999)),
    "clip": [when("optimizer", eq="lamb", then=tune.uniform(0, 10)), when("rate", ge=5e-2, then=tune.uniform(0, 10))],
    "augment": tune.choice([None, {"flip": tune.uniform(0, 1), "crop": tune.uniform(0, 1)}]),
    "batch": tune.qlograndint(16, 512, 16),
    "ema": when("batch", lt=64, then=tune.uniform(0.9, 0.9999)),
    "label_smoothing": tune.uniform(0, 0.2),
}  # fmt: skip
"""Three levels, ranges, several parents, OR, chains; more than thirty parameters of which few are alive at once."""


def test_when_is_the_condition_it_stands_for():
    flat = {
        "layers": Integer(0, 4),
        **{f"units_{k}": when("layers", ge=k, then=Integer(1, 30)) for k in range(1, 5)},
        "rate": Float(0, 1),
        "decay": [
            when([("rate", {"gt": 0.5}), ("layers", {"eq": 2})], then=Float(0, 1)),
            when("layers", isin={4}, then=Float(0, 1)),
        ],
    }
    assert Space(flat).parameters == Space(LAYERS).parameters
    assert str(Space(flat)) == str(Space(LAYERS))
    assert Space(load(dump(flat))).parameters == Space(LAYERS).parameters


def test_comparisons_in_one_call_must_all_hold():
    space = Space({"a": Integer(0, 9), "b": when("a", ge=3, lt=6, ne=4, then="here")})
    present = [a for a in range(10) if space.contains({"a": a, "b": "here"})]
    assert present == [3, 5]
    assert all(space.contains({"a": a}) for a in range(10) if a not in present)


def test_an_inactive_parent_makes_it_false():
    space = Space(
        {"a": Categorical(["x", "y"]), "b": when("a", eq="x", then=Integer(0, 3)), "c": when("b", ge=0, then=Float(0, 1))}
    )
    assert space.contains({"a": "y"})
    assert not space.contains({"a": "y", "c": 0.5})
    assert space.contains({"a": "x", "b": 0, "c": 0.5})


def test_it_guards_structures_and_constants_too():
    space = Space(
        {
            "a": Integer(0, 1),
            "b": when("a", eq=1, then={"c": Float(0, 1), "d": Categorical([{"e": Float(0, 1)}, {}])}),
            "k": when("a", eq=0, then=7),
        }
    )
    assert space.contains({"a": 1, "b": {"c": 0.1, "d": {}}})
    assert space.contains({"a": 0, "k": 7})
    assert space.n_paths == 3


def test_a_deep_space_is_searched_by_every_searcher():
    space = to_space(DEEP)
    assert space.d > 30
    assert space.dimension < space.d / 1.5
    rng = np.random.default_rng(0)
    for row in space.sample(rng, 200):
        config = space.config(space.decode(row))
        assert space.point(config) == space.decode(row)
        assert ("momentum" in config) == (config["optimizer"] == "sgd")
        assert ("nesterov" in config) == (config.get("momentum", 0) > 0.5)
        assert ("clip" in config) == (config["optimizer"] == "lamb" or config["rate"] >= 5e-2)
        assert ("ema" in config) == (config["batch"] < 64)
        assert sum(key.startswith("units_") for key in config) == config["layers"]
    for searcher_class in (RandomSearcher, TreeSearcher, CondKernelSearcher):
        searcher = searcher_class(space=DEEP, metric="loss", mode="min", seed=0, num_initial=6)
        for k in range(10):
            config = searcher.suggest(str(k))
            assert space.contains(config)
            searcher.on_trial_complete(trial_id=str(k), result={"loss": config["label_smoothing"] + 0.1 * config["layers"]})


def test_it_is_refused_in_param_space_with_the_remedy():
    for bad in (
        {"a": tune.randint(0, 3), "b": when("a", eq=1, then=tune.uniform(0, 1))},
        {"m": tune.choice([{"a": tune.randint(0, 3), "b": when("a", eq=1, then=2)}])},
    ):
        with pytest.raises(SpaceError, match="space="):
            RandomSearcher().set_search_properties("loss", "min", bad)


@pytest.mark.parametrize(
    "make",
    [
        lambda: when("a", then=1),
        lambda: when("a", like=3, then=1),
        lambda: when("a", isin="abc", then=1),
        lambda: when([], then=1),
        lambda: when([("a", {})], then=1),
        lambda: when(["a"], then=1),
        lambda: when([("a", {"eq": 1})], ge=2, then=1),
        lambda: Space({"a": Integer(0, 3), "b": [when("a", eq=1, then=Float(0, 1)), when("a", eq=2, then=Float(0, 2))]}),
        lambda: Space({"a": Integer(0, 3), "b": [when("a", eq=1, then=1), 2]}),
        lambda: Space({"b": when("a", eq=1, then=Float(0, 1))}),
    ],
)
def test_mistakes_are_refused(make):
    with pytest.raises(SpaceError):
        make()


# Cuts


UNEQUAL = [
    (Integer(1, 5, log=True), {"le": 1}),
    (Integer(3, 90, log=True, step=3), {"ge": 30}),
    (Float(1, 5, log=True, step=1), {"gt": 2}),
    (Normal(2, 2, step=1), {"le": 1}),
    (Float(0, 0.5), {"gt": 0}),
    (Float(0, 1), {"ge": 1.0}),
    (Float(0, 1), {"le": 0}),
    (Integer(0, 2**52), {"gt": 2**51}),
]


@pytest.mark.parametrize(("domain", "test"), UNEQUAL, ids=lambda part: str(part))
def test_rows_that_are_moved_to_a_path_are_on_it(domain, test):
    """Values of a logarithmic grid own intervals of unequal lengths; an end of a range may be a cell of its own."""
    space = Space({"n": domain, "a": when("n", then=Float(0, 1), **test)})
    units = np.vstack([np.random.default_rng(0).random((200, 2)), [[0.0, 0.0], [1.0, 1.0]]])
    assert len(space.paths()) == 2
    for path in space.paths():
        rows = space.on_path(path, units)
        assert {space.path_of(row) for row in rows} == {path}
        assert set(space.paths_of(rows)) == {path}


@pytest.mark.parametrize("searcher_class", [TreeSearcher, CondKernelSearcher])
def test_a_search_over_unequal_values_with_a_condition_never_falls_back(searcher_class):
    space = {
        "n": tune.lograndint(1, 5),
        "a": when("n", le=1, then=tune.uniform(0, 1)),
        "b": when("n", gt=1, then=tune.uniform(0, 1)),
    }
    searcher = searcher_class(space=space, metric="loss", mode="min", seed=1)
    for k in range(20):
        config = searcher.suggest(str(k))
        value = (config["n"] - 2) ** 2 / 9 + (config.get("a", 0.3) - 0.3) ** 2 + (config.get("b", 0.6) - 0.6) ** 2
        searcher.on_trial_complete(str(k), {"loss": value})
    assert searcher._optimizer.failures == 0
    assert searcher.observations()["value"].min() < 1e-3
