"""The store: what becomes of a trial, event by event."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from raytree.optimizers.bosh import BOSHOptimizer
from raytree.optimizers.htbo import HTBOOptimizer
from raytree.space import Float, Space
from raytree.store import Observations, Status, as_value

SPACE = Space({"x": Float(0, 1)})


def store(count: int = 1, **settings) -> Observations:
    """A store with some running trials, called a, b, c, ..."""
    made = Observations(SPACE, **settings)
    for k in range(count):
        made.add("abcdefghijkl"[k], (0.05 * k,))
    return made


def known(made: Observations, trial_id: str = "a") -> tuple:
    trial = made.trials[trial_id]
    return str(trial.status), trial.value, trial.t


# Trials that are taken up again


def test_a_report_of_an_errored_trial_counts_even_if_its_end_is_never_told():
    made = store()
    made.report("a", 5.0, 1)
    made.fail("a")
    assert known(made) == ("errored", None, None)
    made.report("a", 0.3, 1)
    assert known(made) == ("finished", 0.3, 1)
    made.report("a", 0.2, 2)
    assert known(made) == ("finished", 0.2, 2)


def test_what_was_reported_before_an_error_beyond_the_new_start_is_forgotten():
    made = store()
    for t in (1, 2, 3):
        made.report("a", 10.0 * t, t)
    made.fail("a")
    made.report("a", 0.4, 2)
    assert known(made) == ("finished", 0.4, 2)
    assert made.trials["a"].reports == {1: 10.0, 2: 0.4}


def test_a_proper_end_replaces_what_counted_provisionally_and_an_error_takes_it_back():
    made = store()
    made.fail("a")
    made.report("a", 0.3, 1)
    made.fail("a")
    assert known(made) == ("errored", None, None)
    made.report("a", 0.3, 1)
    made.finish("a", 0.1, 2)
    assert known(made) == ("finished", 0.1, 2)
    made.fail("a")
    assert known(made) == ("finished", 0.1, 2)


def test_a_trial_that_may_never_be_told_to_have_ended_counts_from_its_first_report():
    made = Observations(SPACE)
    made.add("a", (0.5,), provisional=True)
    assert known(made)[0] == "running"
    made.report("a", math.nan, 1)
    assert known(made)[0] == "invalid"
    made.report("a", 0.5, 2)
    assert known(made) == ("finished", 0.5, 2)


def test_a_running_trial_stays_running_whatever_it_reports():
    made = store()
    made.report("a", 0.5, 1)
    made.report("a", math.nan, 2)
    assert known(made) == ("running", None, None)


# Ends


def test_a_trial_that_was_stopped_before_it_said_anything_is_not_held_against_its_configuration():
    made = store(2, on_error="penalize")
    made.end("a")
    made.finish("b", 1.0)
    assert made.outcomes() == ["stopped", "finished"]
    assert [trial.id for trial in made.losses().trials] == ["b"]
    assert made.with_status(Status.RUNNING) == []


def test_a_trial_that_came_to_its_end_without_a_word_is_invalid():
    made = store()
    made.end("a", by_itself=True)
    assert known(made) == ("invalid", None, None)


@pytest.mark.parametrize("max_t", [None, "auto", 9])
def test_who_was_stopped_is_told_from_who_came_to_the_end(max_t):
    made = store(5, max_t=max_t)
    for t in range(1, 10):
        made.report("a", 1.0, t)
    made.finish("a", 1.0, 9)  # told at 9 before: came to its own end
    made.finish("b", 1.0, 9)  # ended by a rule, but nobody got further
    made.finish("c", 1.0, 3)  # ended at a report that was not told before
    made.report("d", 1.0, 3)
    made.finish("d", 1.0, 3)  # short, but by itself
    made.report("e", 1.0, 9)
    made.end("e")  # ended while it was paused
    assert made.outcomes() == ["finished", "finished", "stopped", "finished", "stopped"]
    made.finish("c", 1.0, 3)  # told again
    assert made.outcomes()[2] == "stopped"


# Complete trials


def test_while_no_trial_is_complete_the_longest_ones_are():
    made = store(4, max_t=100)
    for trial_id, t in zip("abcd", (99, 98, 40, 33), strict=True):
        made.finish(trial_id, 1.0, t)
    assert [trial.id for trial in made.complete()] == ["a", "b", "c"]  # within a factor of 3
    assert len(made.losses().losses) == 3
    made.finish("d", 1.0, 100)
    assert [trial.id for trial in made.complete()] == ["d"]


@pytest.mark.parametrize("make", [HTBOOptimizer, BOSHOptimizer])
def test_methods_without_a_model_of_fidelity_leave_the_design_when_no_trial_reaches_max_t(make, monkeypatch):
    optimizer = make({"x": Float(0, 1)}, seed=0, num_initial=4, max_t=100)
    proposed = []
    propose = optimizer.strategy.propose
    monkeypatch.setattr(optimizer.strategy, "propose", lambda ask, rng: proposed.append(ask) or propose(ask, rng))
    for _ in range(8):
        suggestion = optimizer.ask()
        optimizer.tell(suggestion.id, (suggestion.config["x"] - 0.3) ** 2, t=99)
    assert len(proposed) == 4
    assert optimizer.failures == 0


# Values


class Explosive:
    def __float__(self) -> float:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (0.5, 0.5), (3, 3.0), (True, 1.0), (np.True_, 1.0), (np.float32(0.5), 0.5), (np.int64(3), 3.0), (Decimal("0.5"), 0.5),
        (np.array(0.5), 0.5), (np.array([0.5]), 0.5), (np.array([[2]]), 2.0), (np.array([1.0, 2.0]), None), (np.array([]), None),
        ("0.5", None), (b"2.5", None), (bytearray(b"2.5"), None), (None, None), (math.nan, None), (math.inf, None),
        (np.array([np.nan]), None), (1j, None), (10**400, None), (Explosive(), None), ([0.5], None), ({}, None), (object(), None),
    ],
)  # fmt: skip
def test_a_metric_is_a_number_or_nothing(raw, expected):
    assert as_value(raw) == expected


def test_a_value_that_explodes_makes_a_trial_invalid_not_running():
    made = store()
    made.report("a", Explosive(), 1)
    made.finish("a", Explosive(), 1)
    assert made.trials["a"].status is Status.INVALID
