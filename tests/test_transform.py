"""Losses to what a Gaussian process can model, and back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from raytree.gp.transform import BEYOND, REFERENCE, TRANSFORMS, robust

ODD = [
    [1.0], [2.0, 2.0], [1e12, 1e12 + 1], [1e-12, 3e-12], [-1e300, 1e300], [0.0, 0.0, 0.0, 1e9], [5e-324, 0.0],
    [0.0, 0.0, 0.0, 0.0, 1.0], [1e14] * 12 + [0.1, 0.3, 0.2, 0.7], [0.1, 0.5, 1e20, 0.3, 1e20, 0.2],
]  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "name"), [*((losses, "robust") for losses in ODD), *((losses, "linear") for losses in ODD[:6])]
)
def test_losses_of_any_scale_keep_their_order_and_come_back(losses, name):
    transform = TRANSFORMS[name](np.array(losses))
    z = transform.forward(np.array(losses))
    assert np.isfinite(z).all()
    assert (np.argsort(z, kind="stable") == np.argsort(losses, kind="stable")).all()
    np.testing.assert_allclose(transform.backward(z), losses, rtol=1e-6, atol=1e-9 * np.max(np.abs(losses)))


def test_the_better_half_is_linear_and_the_worse_half_are_ranks():
    losses = np.random.default_rng(0).normal(3.0, 2.0, size=15)
    transform = robust(losses)
    ranked = np.sort(losses)
    z = transform.forward(ranked)
    better = ranked <= np.median(losses)
    steps = np.diff(z[better]) / np.diff(ranked[better])
    np.testing.assert_allclose(steps, steps[0])
    slow = [norm.ppf(0.5 + 0.5 * (k + 0.5) / 7) for k in range(7)]
    np.testing.assert_allclose(z[~better], slow)
    worse = losses.copy()
    worse[np.argmax(losses)] = 1e20  # how bad the worst is makes no difference
    np.testing.assert_allclose(robust(worse).forward(np.sort(worse)), z)


def test_later_results_and_worse_ones_do_not_change_the_scale():
    rng = np.random.default_rng(1)
    first, later = rng.normal(size=REFERENCE), rng.normal(-3.0, 0.01, size=40)
    a, b = robust(first), robust(np.append(first, later))
    assert (a.centre, a.spread) == (b.centre, b.spread)
    top = a.forward(np.array([first.max()]))[0]
    assert top < a.forward(np.array([1e20]))[0] <= top + BEYOND


def test_a_region_that_has_diverged_does_not_hide_the_others():
    rng = np.random.default_rng(2)
    for share in (0.1, 0.5, 0.7):
        losses = np.append(np.where(rng.random(12) < share, 1e14, rng.random(12)), [0.1, 0.4, 0.6, 0.9])
        z = robust(losses).forward(losses)
        assert np.ptp(z[losses < 1.0]) > 1.0
        assert np.ptp(z) < 8.0
