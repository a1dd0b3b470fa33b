"""Space: paths, activity, round trips, drawing, limits, refusals."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from raytree.errors import MissingKeyError, OutOfDomainError, SpaceError, SpaceTooLargeError, UnknownKeyError
from raytree.space import Categorical, Conditional, Constant, Float, Integer, Space, Test, when
from raytree.space.serial import dump, fingerprint, load, storable
from tests.spaces import LAYERS, MODELS, random_space


def brute_force_paths(space: Space) -> set:
    """Paths met by sampling a lot."""
    rng = np.random.default_rng(0)
    return {space.path_of(row) for row in space.sample(rng, 3000)}


def test_nested_space_has_one_path_per_leaf_and_knows_what_is_alive():
    space = Space(MODELS)
    assert space.n_paths == 4
    assert set(space.paths()) == brute_force_paths(space)
    svm_rbf = space.path(
        space.point({"scaler": "none", "model": {"kind": "svm", "C": 1.0, "kernel": {"name": "rbf", "gamma": 1.0}}})
    )
    assert space.names(np.flatnonzero(space.active(svm_rbf))) == [
        "scaler", "model", "model[0].C", "model[0].kernel", "model[0].kernel[0].gamma",
    ]  # fmt: skip
    assert space.path_label(svm_rbf) == "model=svm, model[0].kernel=rbf"
    assert space.dimension == 3


def test_conditions_cut_numeric_decisions_into_cells():
    space = Space(LAYERS)
    layers, rate = (next(i for i, p in enumerate(space.parameters) if p.name == name) for name in ("layers", "rate"))
    assert space.cells[layers].labels == ("0", "1", "2", "3", "4")
    assert space.cells[rate].labels == ("[0, 0.5]", "(0.5, 1]")
    assert not space.cells[layers].wide(2)
    assert space.cells[rate].wide(1)
    assert space.n_paths == 10
    assert set(space.paths()) == brute_force_paths(space)
    assert "decay" in space.config(space.point({"layers": 2, "units_1": 1, "units_2": 1, "rate": 0.6, "decay": 0.1}))
    space.point({"layers": 2, "units_1": 1, "units_2": 1, "rate": 0.5})  # exactly on the cut: not above it
    with pytest.raises(MissingKeyError, match="decay"):
        space.point({"layers": 2, "units_1": 1, "units_2": 1, "rate": np.nextafter(0.5, 1)})


@pytest.mark.parametrize("operator", ["eq", "ne", "isin", "ge", "gt", "le", "lt"])
@pytest.mark.parametrize("domain", [Integer(0, 9), Integer(3, 30, step=3), Float(0, 3, step=0.3), Integer(1, 50, log=True)])
def test_every_comparison_means_what_it_says(operator, domain):
    values = list(domain.codes())
    pivot = values[3]
    space = Space(
        {"a": domain, "b": Conditional(((Test("a", operator, [pivot] if operator == "isin" else pivot),),), Float(0, 1))}
    )
    meaning = {
        "eq": lambda v: v == pivot, "ne": lambda v: v != pivot, "isin": lambda v: v == pivot, "ge": lambda v: v >= pivot,
        "gt": lambda v: v > pivot, "le": lambda v: v <= pivot, "lt": lambda v: v < pivot,
    }[operator]  # fmt: skip
    for value in values:
        config = {"a": value, "b": 0.5} if meaning(value) else {"a": value}
        assert space.contains(config)
        row = space.encode(space.point(config))
        assert space.path_of(row) == space.path(space.point(config))


def test_random_spaces_round_trip_between_configurations_points_and_rows():
    rng = np.random.default_rng(7)
    for _ in range(150):
        space = random_space(rng)
        rows = space.sample(rng, 8)
        for row in rows:
            point = space.decode(row)
            config = space.config(point)
            assert space.key(space.point(config)) == space.key(point) or space.config(space.point(config)) == config
            assert space.admits(point)
            np.testing.assert_allclose(space.encode(point), row, atol=1e-9)
            np.testing.assert_array_equal(~np.isnan(row), space.active(space.path(point)))
        restored = Space(load(dump(space.structure)))
        assert restored.parameters == space.parameters
        assert fingerprint(restored) == fingerprint(space)


def test_shared_parameters_are_those_alive_on_several_paths():
    rng = np.random.default_rng(9)
    for _ in range(80):
        space = random_space(rng)
        if 1 < space.n_paths < 500:
            counts = np.zeros(space.d, dtype=int)
            for path in space.paths():
                counts[list(space.free(path))] += 1
            settled = {j for j in space.decisions if not any(space.cells[j].wide(c) for c in range(len(space.cells[j])))}
            alive = sum(space.active(path).astype(int) for path in space.paths())
            assert space.shared == {i for i in range(space.d) if alive[i] > 1 and i not in settled}
            assert all(counts[i] > 0 for i in space.shared)


def test_path_counts_agree_with_listing_on_random_spaces():
    rng = np.random.default_rng(3)
    for _ in range(150):
        space = random_space(rng)
        if space.n_paths < 2000:
            paths = space.paths()
            assert len(paths) == len(set(paths)) == space.n_paths
            assert space.dimension == max(
                sum(
                    1 for i in np.flatnonzero(space.active(p)) if i not in space.cells or space.cells[i].wide(space.cell_of(p)[i])
                )
                for p in paths
            )


def test_finite_spaces_list_their_points():
    rng = np.random.default_rng(5)
    listed = 0
    for _ in range(200):
        space = random_space(rng)
        if space.size <= 2000:
            listed += 1
            points = list(space.points())
            assert len(points) == space.size
            assert len({space.key(p) for p in points}) == len(points) or any(
                isinstance(p.domain, Categorical) and i in space.cells for i, p in enumerate(space.parameters)
            )
    assert listed > 10


def test_points_on_a_path_stay_on_it():
    rng = np.random.default_rng(11)
    for _ in range(60):
        space = random_space(rng)
        for path in space.paths(limit=12):
            for edge in (0.0, 1.0, None):
                units = rng.random((4, space.d)) if edge is None else np.full((1, space.d), edge)
                for row in space.on_path(path, units):
                    assert space.path_of(row) == path


def test_twelve_sibling_decisions_are_quick():
    began = time.process_time()
    space = Space({f"d{k}": Categorical([{"a": Float(0, 1)}, {"b": Integer(1, 5)}]) for k in range(12)})
    assert space.n_paths == 4096
    assert time.process_time() - began < 1.0
    rows = space.sample(np.random.default_rng(0), 10_000)
    assert len({space.path_of(row) for row in rows[:500]}) > 300


def test_containers_survive():
    space = Space({"a": [Float(0, 1), (1, Categorical([[1, 2], (3,)]))], "b": {"c": {"d": Integer(1, 3)}}, "e": ["x", {"y": 1}]})
    config = space.config(space.decode(space.sample(np.random.default_rng(0), 1)[0]))
    assert isinstance(config["a"], list)
    assert isinstance(config["a"][1], tuple)
    assert type(config["a"][1][1]) in (list, tuple)
    assert config["e"] == ["x", {"y": 1}]
    config["e"].append(1)  # the caller may do what it likes with its copy
    assert space.config(space.decode(np.array([0.5, 0.2, 0.5])))["e"] == ["x", {"y": 1}]


def test_one_value_domains_become_constants():
    space = Space({"a": Integer(3, 3), "b": Categorical(["x"]), "c": Float(2, 2), "d": Categorical([{"e": Float(0, 1)}])})
    assert space.d == 1
    assert space.config((0.5,)) == {"a": 3, "b": "x", "c": 2, "d": {"e": 0.5}}


def test_a_constant_may_hold_anything():
    assert Space({"a": Constant({"x": Float(0, 1)})}).d == 0


def test_equal_names_and_the_same_domain_object_in_two_branches_are_two_parameters():
    shared = Float(0, 1)
    space = Space({"m": Categorical([{"x": shared}, {"x": shared}])})
    assert space.d == 3


@pytest.mark.parametrize(
    ("config", "error", "place"),
    [
        ({"model": {"kind": "gnb"}}, MissingKeyError, "scaler"),
        ({"scaler": "none", "model": {"kind": "gnb", "C": 1.0}}, UnknownKeyError, "model.C"),
        ({"scaler": "none", "model": {"kind": "knn", "n_neighbors": 31}}, OutOfDomainError, "model.n_neighbors"),
        ({"scaler": "none", "model": {"kind": "tree"}}, OutOfDomainError, "model"),
        ({"scaler": "max", "model": {"kind": "gnb"}}, OutOfDomainError, "scaler"),
        ({"scaler": "none", "model": {"kind": "gnb"}, "seed": 1}, UnknownKeyError, "seed"),
        ([], OutOfDomainError, "configuration"),
    ],
)
def test_a_configuration_outside_the_space_is_refused_with_its_place(config, error, place):
    with pytest.raises(error) as caught:
        Space(MODELS).point(config)
    assert caught.value.where == place


def test_constants_may_be_left_out_where_nothing_is_in_doubt():
    space = Space({"data": "iris", "m": Categorical([{"kind": "a", "x": Float(0, 1)}, {"kind": "b"}])})
    assert space.point({"m": {"x": 0.5}}) == space.point({"data": "iris", "m": {"kind": "a", "x": 0.5}})


def cyclic() -> dict:
    structure: dict = {"a": Float(0, 1)}
    structure["self"] = structure
    return structure


def deep() -> dict:
    structure: dict = {"x": Float(0, 1)}
    for _ in range(80):
        structure = {"down": structure}
    return structure


@pytest.mark.parametrize(
    ("structure", "error", "words"),
    [
        (cyclic(), SpaceError, "contains itself"),
        (deep(), SpaceTooLargeError, "64"),
        ({f"d{k}": Categorical([{"a": Float(0, 1)}, {}]) for k in range(25)}, SpaceTooLargeError, "33,554,432 paths"),
        ({"a": Conditional(((Test("b", "eq", 1),),), Float(0, 1))}, SpaceError, "no parameter called 'b'"),
        ({"a": Float(0, 1), "b": Conditional(((Test("a", "eq", 0.5),),), Float(0, 1))}, SpaceError, "continuous"),
        ({"a": Categorical(["x", "y"]), "b": Conditional(((Test("a", "eq", "z"),),), 1)}, SpaceError, "never hold"),
        ({"a": Categorical(["x", "y"]), "b": Conditional(((Test("a", "ge", "x"),),), 1)}, SpaceError, "eq, ne or isin"),
        (
            {
                "a": Conditional(((Test("b", "eq", 1),),), Integer(1, 2)),
                "b": Conditional(((Test("a", "eq", 1),),), Integer(1, 2)),
            },
            SpaceError,
            "cycle: ",
        ),
        ({"l": [Conditional(((Test("b", "eq", 1),),), 1)]}, SpaceError, "value of a dict key"),
        ({f"p{k}": Float(0, 1) for k in range(10_001)}, SpaceTooLargeError, "10,000"),
    ],
)
def test_spaces_that_cannot_be_searched_are_refused(structure, error, words):
    with pytest.raises(error, match=words):
        Space(structure)


def test_the_drawing_shows_types_bounds_conditions_and_paths():
    assert str(Space(MODELS)).splitlines() == [
        "4 paths, 6 parameters, 2 of them decisions",
        "├─ scaler  {none, standard}",
        "└─ model",
        "   ├─ svm",
        "   │  ├─ kind = svm",
        "   │  ├─ C  log[0.001, 1000]",
        "   │  └─ kernel",
        "   │     ├─ rbf",
        "   │     │  ├─ name = rbf",
        "   │     │  └─ gamma  log[0.0001, 10]",
        "   │     └─ linear",
        "   │        └─ name = linear",
        "   ├─ knn",
        "   │  ├─ kind = knn",
        "   │  └─ n_neighbors  int[1, 30]",
        "   └─ gnb",
        "      └─ kind = gnb",
    ]
    assert "units_2  int[1, 30]  if layers >= 2" in str(Space(LAYERS))


def test_opaque_objects_have_fingerprints_but_cannot_be_stored():
    structure = {"a": Categorical([object(), np.arange(3)])}
    assert not storable(dump(structure))
    assert fingerprint(Space(structure)) == fingerprint(Space({"a": Categorical([object(), np.arange(4)])}))


@pytest.mark.parametrize("comparison", ["gt", "ge", "lt", "le"])
@pytest.mark.parametrize(
    ("domain", "cut", "values"),
    [
        (Float(0.0, 1.0), 0.5, [0.5, math.nextafter(0.5, 0.0), math.nextafter(0.5, 1.0), 0.4, 0.6]),
        (Integer(0, 10), 5, [4, 5, 6]),
        (Float(1e-4, 1.0, log=True), 0.01, [0.01, 0.009, 0.011]),
    ],
)
def test_rows_and_points_agree_on_the_path_at_a_cut(domain, cut, values, comparison):
    space = Space({"x": domain, "y": when("x", **{comparison: cut}, then=Float(0.0, 1.0))})
    x = next(i for i, p in enumerate(space.parameters) if p.name == "x")
    for value in values:
        units = np.full((1, space.d), 0.5)
        units[0, x] = domain.unit(value)
        rows = space.mask(units)
        path = space.path(space.decode(units[0]))
        assert space.paths_of(rows) == [path] == [space.path_of(rows[0])]
        np.testing.assert_array_equal(~np.isnan(rows[0]), space.active(path))


def test_rows_on_several_paths_are_those_on_each():
    rng = np.random.default_rng(0)
    for structure in (MODELS, LAYERS):
        space = Space(structure)
        paths, units = space.paths(), rng.random((5, space.d))
        for path, rows in zip(paths, space.on_paths(paths, units), strict=True):
            np.testing.assert_array_equal(rows, space.on_path(path, units))
