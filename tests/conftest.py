"""One local Ray per test module that asks for it."""

from __future__ import annotations

import logging
import os

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")


@pytest.fixture(scope="module")
def local_ray(request):
    """A Ray of its own for a module, with four slots or what the module's SLOTS says; gone after it."""
    import ray

    slots = getattr(request.module, "SLOTS", 4)
    ray.init(address="local", num_cpus=slots, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()
