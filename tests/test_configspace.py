"""Spaces to and from ConfigSpace."""

from __future__ import annotations

import numpy as np
import pytest

from raytree.errors import SpaceError, UnsupportedDomainError
from raytree.searchers import TreeSearcher
from raytree.space import Categorical, Integer, Normal, Space
from raytree.space.configspace import default_configuration, from_configspace, named_values, to_configspace
from tests.spaces import LAYERS, MODELS, random_space

cs = pytest.importorskip("ConfigSpace", reason="ConfigSpace is optional; make test installs it")


def example():
    """Every kind of condition and parameter."""
    space = cs.ConfigurationSpace(seed=1)
    model = cs.CategoricalHyperparameter("model", ["svm", "forest", "net"], default_value="forest")
    c = cs.UniformFloatHyperparameter("C", 1e-3, 1e3, log=True)
    trees = cs.UniformIntegerHyperparameter("trees", 1, 512, log=True, default_value=64)
    layers = cs.UniformIntegerHyperparameter("layers", 1, 5)
    units = cs.UniformIntegerHyperparameter("units", 4, 64)
    rate = cs.UniformFloatHyperparameter("rate", 0.0, 1.0, default_value=0.25)
    size = cs.OrdinalHyperparameter("size", ["s", "m", "l"], default_value="m")
    bag = cs.CategoricalHyperparameter("bag", [True, False])
    fixed = cs.Constant("data", "iris")
    warm = cs.UniformFloatHyperparameter("warm", 0.0, 2.0)
    space.add([model, c, trees, layers, units, rate, size, bag, fixed, warm])
    space.add([
        cs.EqualsCondition(c, model, "svm"),
        cs.NotEqualsCondition(size, model, "svm"),
        cs.InCondition(trees, model, ["forest"]),
        cs.EqualsCondition(layers, model, "net"),
        cs.AndConjunction(cs.EqualsCondition(units, model, "net"), cs.GreaterThanCondition(units, layers, 2)),
        cs.OrConjunction(cs.LessThanCondition(bag, rate, 0.3), cs.EqualsCondition(bag, model, "forest")),
        cs.GreaterThanCondition(warm, size, "s"),
    ])  # fmt: skip
    return space


def test_a_configuration_space_becomes_a_space_with_its_conditions():
    source = example()
    space = from_configspace(source)
    for config in source.sample_configuration(300):
        assert space.contains({key: value.item() if hasattr(value, "item") else value for key, value in dict(config).items()})
    rng = np.random.default_rng(0)
    for row in space.sample(rng, 300):
        config = space.config(space.decode(row))
        cs.Configuration(source, values=config).check_valid_configuration()
        assert set(dict(cs.Configuration(source, values=config))) == set(config)


def test_defaults_become_a_point_to_evaluate():
    config = default_configuration(example())
    assert config == {"model": "forest", "trees": 64, "rate": 0.25, "size": "m", "bag": True, "data": "iris", "warm": 1.0}


def test_searchers_take_a_configuration_space():
    searcher = TreeSearcher(space=example(), metric="loss", mode="min", seed=0, num_initial=3)
    for k in range(5):
        config = searcher.suggest(str(k))
        assert searcher._space.contains(config)
        searcher.on_trial_complete(trial_id=str(k), result={"loss": config["rate"]})


def test_forbidden_clauses_and_unknown_distributions_are_refused_by_name():
    source = example()
    source.add(cs.ForbiddenEqualsClause(source["model"], "svm"))
    with pytest.raises(SpaceError, match="forbidden"):
        from_configspace(source)
    odd = cs.ConfigurationSpace()
    odd.add(cs.BetaFloatHyperparameter("b", alpha=2, beta=3, lower=0, upper=1))
    with pytest.raises(UnsupportedDomainError, match="b: "):
        from_configspace(odd)
    with pytest.raises(UnsupportedDomainError, match="normal"):
        to_configspace(Space({"x": Normal(0, 1)}))


def exportable(space: Space) -> bool:
    return not any(isinstance(p.domain, Normal) and np.isinf(p.domain.size) for p in space.parameters)


def test_random_spaces_go_there_and_back():
    rng = np.random.default_rng(0)
    spaces = [Space(MODELS), Space(LAYERS)]
    while len(spaces) < 40:
        space = random_space(rng)
        if space.d and exportable(space):
            spaces.append(space)
    for space in spaces:
        target = to_configspace(space)
        back = from_configspace(target)
        assert back.n_paths == space.n_paths or any(isinstance(p.domain, Categorical) for p in space.parameters)
        for row in space.sample(rng, 12):
            if space.point(space.config(space.decode(row))) != space.decode(row):
                continue  # two branches accept this value
            values = named_values(space, space.config(space.decode(row)))
            made = cs.Configuration(target, values=values)
            made.check_valid_configuration()
            assert set(dict(made)) == set(values)
            assert back.contains(values)
            numeric = [p for p in space.parameters if not isinstance(p.domain, Categorical)]
            assert all(
                back.parameters[k].domain == p.domain for p in numeric for k in [[q.name for q in back.parameters].index(p.name)]
            )


def test_stepped_domains_come_back_as_they_were():
    back = from_configspace(to_configspace(Space({"a": Integer(3, 30, step=3), "b": Integer(0, 5)})))
    assert [p.domain for p in back.parameters] == [Integer(3, 30, step=3), Integer(0, 5)]
