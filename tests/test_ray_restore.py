"""The driver is killed with SIGKILL at random moments, and the experiment is restored."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kills import survive


@pytest.mark.parametrize(("name", "moments"), [("TreeSearcher", [0.2, 0.6])])
def test_killing_the_driver_loses_nothing_older_than_the_snapshot(name, moments, tmp_path):
    report = survive(name, tmp_path, moments, np.random.default_rng(len(name)))
    assert report.kills == len(moments)
    assert report.known >= 0.2 * 14
    assert (report.lost, report.doubled, report.missing) == (0, 0, 0)
