"""The chance of success: where trials fail, on a path and inside it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from raytree import BOSHOptimizer, CondKernelOptimizer, HTBOOptimizer, TreeOptimizer
from raytree.acquisition.maximize import box_of, numeric_slope
from raytree.models.success import CAUTION, Success
from raytree.space import Categorical, Float, Space
from raytree.store import Status
from tests.spaces import MODELS

SQUARE = Space({"x": Float(0, 1), "y": Float(0, 1)})


def model_of(space, rule, n=60):
    rows = space.sample(np.random.default_rng(0), n)
    failed = np.array([rule(space.config(space.decode(row))) for row in rows])
    return Success(space, rows, space.paths_of(rows), failed)


def test_a_region_inside_a_path_is_told_from_the_rest():
    model = model_of(SQUARE, lambda config: config["x"] < 0.4)
    grid = np.array([[x, y] for x in (0.1, 0.2, 0.6, 0.9) for y in (0.1, 0.5, 0.9)])
    chance = model.log_chance((), grid)
    assert chance[:6].max() < -3.0
    assert chance[6:].min() > -0.5


def test_a_path_that_always_fails_is_told_from_the_others():
    space = Space({"m": Categorical([{"x": Float(0, 1)}, {"y": Float(0, 1)}])})
    model = model_of(space, lambda config: "x" in config["m"], 20)
    middle = [space.on_path(path, np.full((1, space.d), 0.5)) for path in space.paths()]
    bad, good = (float(model.log_chance(path, row)[0]) for path, row in zip(space.paths(), middle, strict=True))
    assert bad < -3.0 < -0.5 < good


def test_what_is_unknown_is_expected_to_work():
    rows = np.array([[0.1, 0.1], [0.12, 0.1], [0.1, 0.12], [0.3, 0.3], [0.32, 0.3]])
    model = Success(SQUARE, rows, [()] * 5, np.array([True, True, True, False, False]))
    assert math.exp(model.log_chance((), np.array([[0.9, 0.9]]))[0] / CAUTION) > 0.4


def test_gradients_by_differences():
    rng = np.random.default_rng(1)
    for space, rule in ((SQUARE, lambda c: c["x"] + c["y"] < 0.8), (Space(MODELS), lambda c: c["model"]["kind"] == "svm")):
        model = model_of(space, rule, 30)
        for path in space.paths()[:3]:
            box = box_of(space, path)
            row = space.on_path(path, rng.random((1, space.d)))[0]
            value, gradient = model.log_chance_slope(path, row)
            slow, by_row = numeric_slope(model.log_chance, box)(path, row)
            assert value == pytest.approx(slow)
            np.testing.assert_allclose(gradient[box.continuous], by_row[box.continuous], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make", [TreeOptimizer, CondKernelOptimizer, HTBOOptimizer, BOSHOptimizer])
@pytest.mark.parametrize("how", ["error", "nan"])
def test_few_trials_go_where_the_others_have_failed(make, how):
    """The loss falls towards x = 0, and everything below 0.4 fails: random search would fail 12 times in 30."""
    optimizer = make(SQUARE, seed=0, num_initial=6)
    failed = 0
    for k in range(36):
        suggestion = optimizer.ask()
        x, y = suggestion.config["x"], suggestion.config["y"]
        if x >= 0.4:
            optimizer.tell(suggestion.id, x + (y - 0.5) ** 2)
        elif how == "error":
            optimizer.fail(suggestion.id)
        else:
            optimizer.tell(suggestion.id, math.nan)
        failed += k >= 6 and x < 0.4
    assert failed <= 8
    assert optimizer.recommend().config["x"] < 0.6


@pytest.mark.parametrize("make", [TreeOptimizer, CondKernelOptimizer, HTBOOptimizer, BOSHOptimizer])
def test_failures_whose_values_are_unknown_keep_the_search_away_by_their_chance_alone(make):
    """With "ignore" nothing else does: without a model of success 21 to 29 of these 30 trials fail."""
    optimizer = make(SQUARE, seed=0, num_initial=6, on_error="ignore")
    failed = 0
    for k in range(36):
        suggestion = optimizer.ask()
        x, y = suggestion.config["x"], suggestion.config["y"]
        if x < 0.4:
            optimizer.fail(suggestion.id)
            failed += k >= 6
        else:
            optimizer.tell(suggestion.id, (x - 0.7) ** 2 + (y - 0.5) ** 2)
    assert failed <= 12


def test_a_search_with_failures_goes_on_the_same_after_a_restore():
    optimizer = TreeOptimizer(SQUARE, seed=0, num_initial=4)
    for k in range(20):
        suggestion = optimizer.ask()
        optimizer.fail(suggestion.id) if suggestion.config["x"] < 0.3 else optimizer.tell(suggestion.id, suggestion.config["x"])
        if k == 12:
            other = TreeOptimizer.from_state(optimizer.state())
        elif k > 12:
            again = other.ask()
            assert again.config == suggestion.config
            other.fail(again.id) if again.config["x"] < 0.3 else other.tell(again.id, again.config["x"])


@pytest.mark.parametrize("make", [TreeOptimizer, CondKernelOptimizer])
def test_what_fails_by_accident_is_not_taken_for_bad(make):
    """A third fails wherever it is: the search goes to the optimum all the same, and no good trial's neighbour is feared."""
    rng = np.random.default_rng(3)
    optimizer = make({"x": Float(0, 1), "y": Float(0, 1)}, seed=0)
    for k in range(30):
        suggestion = optimizer.ask()
        if k > 2 and rng.random() < 0.33:
            optimizer.fail(suggestion.id)
        else:
            optimizer.tell(suggestion.id, (suggestion.config["x"] - 0.3) ** 2 + (suggestion.config["y"] - 0.6) ** 2)
    assert optimizer.observations.count(Status.ERRORED) > 5
    best = optimizer.recommend()
    assert abs(best.config["x"] - 0.3) + abs(best.config["y"] - 0.6) < 0.1
    assert best.value == pytest.approx(0.0, abs=0.02)


def test_where_most_trials_fail_none_of_them_is_an_accident():
    """One of eight has succeeded, so that places explain nothing yet; failures forgotten, 38 of these 40 trials fail."""
    optimizer = TreeOptimizer({"x": Float(0, 1), "y": Float(0, 1), "z": Float(0, 1)}, seed=1002, budget=60)
    failed = 0
    for k in range(48):
        suggestion = optimizer.ask()
        loss = sum((suggestion.config[key] - best) ** 2 for key, best in zip("xyz", (0.3, 0.6, 0.45), strict=True))
        optimizer.fail(suggestion.id) if loss > 0.35**2 else optimizer.tell(suggestion.id, loss)
        failed += k >= 8 and loss > 0.35**2
    assert failed < 30


@pytest.mark.filterwarnings("error")
def test_failures_that_are_long_past_still_count_as_bad():
    """The model of success knows only the latest trials: without a failure among them it cannot call any an accident."""
    rows = np.random.default_rng(0).random((6, 2))
    assert Success(SQUARE, rows, [()] * 6, np.zeros(6, dtype=bool)).by_place()


def test_the_model_of_success_is_made_once_for_what_is_known():
    """One suggestion asks twice, an explanation as well; with the next trial there is another one."""
    optimizer = TreeOptimizer(SQUARE, seed=0, num_initial=3)
    chances = optimizer.strategy.chances
    assert chances.now() is None
    models = []
    for _ in range(4):
        suggestion = optimizer.ask()
        optimizer.fail(suggestion.id)
        models += [chances.now(remember=False), chances.now()]
    assert all(one is other for one, other in zip(models[::2], models[1::2], strict=True))
    assert len({id(model) for model in models}) == 4


@pytest.mark.parametrize("make", [TreeOptimizer, CondKernelOptimizer, BOSHOptimizer])
def test_answers_go_by_what_was_measured_not_by_what_failures_are_taken_for(make):
    """Without noise the recommended value is the measured one, however many trials have failed and wherever."""
    optimizer = make(SQUARE, seed=1, num_initial=6)
    for k in range(18):
        suggestion = optimizer.ask()
        x, y = suggestion.config["x"], suggestion.config["y"]
        optimizer.fail(suggestion.id) if k % 3 else optimizer.tell(suggestion.id, 5.0 + (x - 0.3) ** 2 + (y - 0.7) ** 2)
    best = optimizer.recommend()
    measured = optimizer.observations.trials[best.trial_id].value
    assert best.value == pytest.approx(measured, abs=0.06)
    assert best.sd < 0.1
