"""The store: what becomes of a trial, event by event."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from raytree.optimizers.bosh import BOSHOptimizer
from raytree.optimizers.htbo import HTBOOptimizer
from raytree.optimizers.random import RandomOptimizer
from raytree.space import Float, Space
from raytree.store import FAILED, KEPT_REPORTS, Observations, Status, as_value, fidelity

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


def test_the_longest_trial_is_the_longest_that_is_known_now_also_after_a_restore():
    """A trial that is tried again from an earlier t takes back how far it got."""
    optimizer = RandomOptimizer(SPACE, seed=0, max_t="auto")
    for last in (5, 4):
        suggestion = optimizer.ask()
        optimizer.report(suggestion.id, 1.0, 10)
        assert optimizer.observations.full_t == 10.0
        optimizer.tell(suggestion.id, 1.0, t=last)
        assert optimizer.observations.full_t == 5.0
    again = RandomOptimizer.from_state(optimizer.state())
    for store in (optimizer.observations, again.observations):
        assert store.full_t == 5.0
        assert [trial.id for trial in store.complete()] == ["0"]


@pytest.mark.parametrize("last", [1.0, math.nan])
def test_of_many_reports_the_last_and_the_last_finite_one_stay_when_a_trial_has_ended(last):
    made = store(1, max_t=100)
    for t in range(1, 60):
        made.report("a", 1.0 / t, t)
    made.report("a", last, 60)
    made.end("a")
    trial = made.trials["a"]
    assert len(trial.reports) <= KEPT_REPORTS + 1
    assert max(trial.reports) == 60
    assert trial.reports[trial.t] == trial.value == (1.0 / 59 if math.isnan(last) else last)
    assert made.curves().losses[-1] == trial.value
    assert made.curves().rows[-1, -1] == pytest.approx(fidelity(trial.t, 100))


def test_what_is_asked_of_all_trials_is_what_each_of_them_says():
    """Rows, values and states are kept in arrays: after any events they are those of the trials, however many there are."""
    rng = np.random.default_rng(0)
    made = Observations(SPACE, "max", max_t=9)
    for k in range(70):
        made.add(str(k), (float(rng.random()),))
        for _ in range(3):
            trial_id = str(rng.integers(k + 1))
            event = int(rng.integers(4))
            if event == 0:
                made.report(trial_id, float(rng.normal()), int(rng.integers(1, 10)))
            elif event == 1:
                made.finish(trial_id, float(rng.normal()) if rng.random() < 0.8 else math.nan, int(rng.integers(1, 10)))
            elif event == 2:
                made.end(trial_id, by_itself=bool(rng.integers(2)))
            else:
                made.fail(trial_id)
        for status in Status:
            each = [trial.id for trial in made if trial.status is status]
            assert [trial.id for trial in made.with_status(status)] == each
            assert made.count(status) == len(each)
        for data in (made.losses(), made.curves()):
            for row, loss, path, trial, number, failed in zip(*data, strict=True):
                np.testing.assert_array_equal(row[:1], trial.row)
                assert (path, number, failed) == (trial.path, int(trial.id), trial.status in FAILED)
                assert failed or -loss in trial.reports.values()
        best = made.best()
        assert best is None or best.value == max(trial.value for trial in made.complete())


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
