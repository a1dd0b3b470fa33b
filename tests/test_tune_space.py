"""Nested Tune spaces: what they become, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders
from ray.tune.search import sample
from ray.tune.search.variant_generator import generate_variants

from raytree.errors import BoundsError, SpaceError, SpaceTooLargeError, UnsupportedDomainError
from raytree.searchers.tune_space import to_space

NESTED = {
    "lr": tune.loguniform(1e-5, 1e-1),
    "data": {"path": "iris.csv", "rows": tune.qrandint(100, 1000, 100)},
    "model": tune.choice(
        [
            {
                "kind": "svm",
                "C": tune.loguniform(1e-3, 1e3),
                "kernel": tune.choice([{"n": "rbf", "g": tune.uniform(0, 1)}, {"n": "lin"}]),
            },
            {"kind": "mlp", "layers": [tune.randint(1, 9), tune.randint(1, 9)], "C": tune.uniform(0, 1)},
            ("pair", tune.uniform(0, 1)),
            tune.randint(1, 9),
            None,
            "constant",
            {"only": ["constants", 1]},
        ]
    ),
}


def test_every_sample_of_ours_is_one_that_tune_could_draw_and_the_other_way_round():
    space = to_space(NESTED)
    rng = np.random.default_rng(0)
    ours = [space.config(space.decode(row)) for row in space.sample(rng, 400)]
    theirs = [
        next(iter(generate_variants({"config": NESTED}, random_state=np.random.default_rng(k))))[1]["config"] for k in range(400)
    ]
    for config in theirs:
        assert space.contains(config)

    def shape(value):
        if isinstance(value, dict):
            return {key: shape(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(shape(item) for item in value)
        return type(value).__name__

    assert {str(shape(c)) for c in ours} == {str(shape(c)) for c in theirs}


def test_no_domain_is_left_in_a_configuration():
    def walk(value):
        assert not isinstance(value, sample.Domain)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
            walk(item)

    space = to_space(NESTED)
    for row in space.sample(np.random.default_rng(1), 100):
        walk(space.config(space.decode(row)))


def test_placeholders_that_tune_puts_in_are_constants():
    marker = object()
    given = inject_placeholders(
        {"f": tune.sample_from(lambda: 1), "o": marker, "m": tune.choice([{"fn": marker, "x": tune.uniform(0, 1)}, marker])},
        create_resolvers_map(),
    )
    space = to_space(given)
    assert space.n_paths == 2
    config = space.config(space.decode(space.sample(np.random.default_rng(0), 1)[0]))
    assert config["f"][0] == "__fn_ph"
    assert config["o"][0] == "__ref_ph"


class Foreign(sample.Domain):
    def get_sampler(self):
        return sample.BaseSampler()


def cyclic():
    branch: dict = {"x": tune.uniform(0, 1)}
    branch["again"] = branch
    return {"m": branch}


def deep():
    space: dict = {"x": tune.uniform(0, 1)}
    for _ in range(100):
        space = {"a": space}
    return space


@pytest.mark.parametrize(
    ("space", "error", "place", "remedy"),
    [
        ({"a": {"b": tune.grid_search([1, 2])}}, UnsupportedDomainError, "a.b", "tune.choice"),
        ({"m": tune.choice([{"lr": tune.sample_from(lambda: 1)}, 2])}, UnsupportedDomainError, "m[0].lr", "tune.uniform"),
        ({"m": [1, sample.Categorical([1, 2]).grid()]}, UnsupportedDomainError, "m[1]", "tune.choice"),
        ({"a": Foreign()}, UnsupportedDomainError, "a", "tune."),
        ({"a": {"lr": tune.uniform(2, 1)}}, BoundsError, "a.lr", "Swap"),
        ({"a": tune.randint(3, 3)}, BoundsError, "a", "exclusive"),
        ({"a": tune.choice([])}, BoundsError, "a", "at least one"),
        ({"a": sample.Float(None, None)}, BoundsError, "a", "normal"),
        (cyclic(), SpaceError, "m.again", "Copy"),
        (deep(), SpaceTooLargeError, "a", "Flatten"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_its_place_and_the_remedy(space, error, place, remedy):
    with pytest.raises(error) as caught:
        to_space(space)
    assert caught.value.where.startswith(place)
    assert remedy in caught.value.remedy


def test_quantised_bounds_follow_tune():
    space = to_space({"a": tune.qrandint(2, 11, 3), "b": tune.qrandint(1, 5, 1), "c": tune.quniform(0.2, 0.6, 0.2)})
    assert [list(p.domain.codes()) for p in space.parameters] == [[3, 6, 9], [1, 2, 3, 4], [0.2, 0.4, 0.6]]
