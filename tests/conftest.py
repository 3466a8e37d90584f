"""What all tests share: which of them run where and beside which, and how Hypothesis behaves."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared and noisy: a slow example is no failure.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # What they install lies in one place: one process at a time, where several run tests.
        if {"interop", "conformance"} & set(item.path.parts):
            item.add_marker(pytest.mark.xdist_group("packages"))
    if os.environ.get("CONVMEM_TEST_ALL"):
        return
    skip = pytest.mark.skip(reason="runs in .ci/run, or with CONVMEM_TEST_ALL=1")
    for item in items:
        if item.get_closest_marker("ci"):
            item.add_marker(skip)
