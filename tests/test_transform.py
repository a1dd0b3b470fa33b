"""Losses to what a Gaussian process can model, and back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from raytree.gp.transform import BEYOND, REFERENCE, TRANSFORMS, bent, candidates, straight

ODD = [
    [1.0], [2.0, 2.0], [1e12, 1e12 + 1], [1e-12, 3e-12], [-1e300, 1e300], [0.0, 0.0, 0.0, 1e9], [5e-324, 0.0],
    [0.0, 0.0, 0.0, 0.0, 1.0], [1e14] * 12 + [0.1, 0.3, 0.2, 0.7], [0.1, 0.5, 1e20, 0.3, 1e20, 0.2],
]  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "name"), [*((losses, "robust") for losses in ODD), *((losses, "linear") for losses in ODD[:6])]
)
def test_losses_of_any_scale_keep_their_order_and_come_back(losses, name):
    for transform in TRANSFORMS[name](np.array(losses)).values():
        z = transform.forward(np.array(losses))
        assert np.isfinite(z).all()
        assert (np.argsort(z, kind="stable") == np.argsort(losses, kind="stable")).all()
        np.testing.assert_allclose(transform.backward(z), losses, rtol=1e-6, atol=1e-9 * np.max(np.abs(losses)))


@pytest.mark.parametrize("losses", [np.random.default_rng(0).normal(size=20), np.exp(np.linspace(0.0, 30.0, 20))])
def test_the_log_slope_is_that_of_the_transform(losses):
    for transform in candidates(losses).values():
        inside = np.sort(losses)[1:-1] + 1e-4 * np.ptp(losses[:2])
        step = 1e-7 * np.maximum(1.0, np.abs(inside))
        slow = (transform.forward(inside + step) - transform.forward(inside - step)) / (2.0 * step)
        np.testing.assert_allclose(transform.log_slope(inside), np.log(slow), atol=1e-4)


def test_the_bend_joins_the_linear_half_smoothly_and_is_left_out_where_losses_allow_it():
    losses = np.random.default_rng(3).normal(size=32)
    transform = bent(losses)
    near = transform.centre + transform.spread * np.array([-1e-6, 1e-6])
    np.testing.assert_allclose(np.exp(transform.log_slope(near)) * transform.spread, [1.0, 1.0], atol=0.01)
    assert straight(losses) is not None
    assert straight(np.append(losses, 1e6)) is None


def test_the_better_half_is_linear_and_the_worse_half_goes_through_quantiles_of_ranks():
    losses = np.random.default_rng(0).normal(3.0, 2.0, size=15)
    transform = bent(losses)
    ranked = np.sort(losses)
    z = transform.forward(ranked)
    better = ranked <= np.median(losses)
    steps = np.diff(z[better]) / np.diff(ranked[better])
    np.testing.assert_allclose(steps, steps[0])
    middle, worst = ranked[~better][3], ranked[-1]  # of seven
    np.testing.assert_allclose(transform.forward(np.array([middle, worst])), norm.ppf([0.75, 1.0 - 0.25 / 7]))
    assert (np.diff(z) > 0.0).all()
    worse = losses.copy()
    worse[np.argmax(losses)] = 1e20  # how bad the worst is makes no difference
    np.testing.assert_allclose(bent(worse).forward(np.sort(worse))[[*range(8), 11, 14]], z[[*range(8), 11, 14]], atol=0.2)


def test_later_results_and_worse_ones_do_not_change_the_scale():
    rng = np.random.default_rng(1)
    first, later = rng.normal(size=REFERENCE), rng.normal(-3.0, 0.01, size=40)
    a, b = bent(first), bent(np.append(first, later))
    assert (a.centre, a.spread) == (b.centre, b.spread)
    top = a.forward(np.array([first.max()]))[0]
    assert top < a.forward(np.array([1e20]))[0] <= top + BEYOND


def test_a_region_that_has_diverged_does_not_hide_the_others():
    rng = np.random.default_rng(2)
    for share in (0.1, 0.5, 0.7):
        losses = np.append(np.where(rng.random(12) < share, 1e14, rng.random(12)), [0.1, 0.4, 0.6, 0.9])
        z = bent(losses).forward(losses)
        assert np.ptp(z[losses < 1.0]) > 1.0
        assert np.ptp(z) < 8.0


def test_a_loss_at_the_end_of_all_numbers_does_no_harm():
    losses = np.array([1e308, 0.1, 0.2, 0.3, 0.4, 0.5, -1e308])
    for transform in candidates(losses).values():
        z = transform.forward(losses)
        assert np.isfinite(z).all()
        assert (np.diff(z[np.argsort(losses)]) >= 0.0).all()
        assert np.isfinite(transform.backward(z)).all()


def test_what_is_far_beyond_all_results_keeps_its_order_and_can_be_squared():
    """As a report on the way may be: the scale comes from what trials said last."""
    first = np.random.default_rng(4).normal(size=REFERENCE)
    far = np.array([-1e300, -1e9, -1e4, -1e2, 0.0])
    for transform in candidates(first).values():
        z = transform.forward(far)
        assert (np.diff(z) > 0.0).all()
        assert np.max(z**2) < 1e18
        np.testing.assert_allclose(transform.backward(z), far, rtol=1e-6, atol=1e-9)
        steps = np.array([1e3, 1e-2, 1e-4, 1e-4])
        slow = (transform.forward(far[1:] + steps) - transform.forward(far[1:] - steps)) / (2.0 * steps)
        np.testing.assert_allclose(transform.log_slope(far[1:]), np.log(slow), atol=1e-3)
    assert straight(first).forward(np.array([1e300]))[0] < 1e9
