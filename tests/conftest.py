"""Fixtures and settings for all tests: the folder of VM images, and property tests without deadlines."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from actors import vms
from actors.vms import host
from tests.measuring import reached, unmeasured

pytest_plugins = ["tests.folders"]

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

_CHECKOUT = Path(__file__).parent.parent

_FROM_OUTSIDE = ("tests/crash/", "tests/docs/", "tests/e2e/", "tests/power/")
"""Tests of other processes than theirs, of which no coverage is measured."""

_IDLE_CASES = 2
"""Cases of a test that in turn reach nothing new, after which its further ones are not measured."""

_idle: Counter[str] = Counter()
"""Such cases of each test."""


def pytest_configure() -> None:
    """Restore SIGINT where a shell ignores it for background jobs, so that tests can interrupt programs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Measure imports in one worker: they take seconds, and are the same in all."""
    gc.disable()  # what is imported stays
    with nullcontext() if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" else unmeasured():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the files that take longest."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection_finish() -> None:
    """Keep the tests themselves, a million objects, out of searches for garbage; measure no other process.

    The coverage of programs that tests start would double their time, and other tests reach their code.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)  # searches take a third less of the CPU than with Python's 700 objects
    gc.enable()
    os.environ.pop("COVERAGE_PROCESS_START", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure coverage of a test while its cases reach something new.

    It is never measured of property tests or from outside. What further cases and examples alone reach counts as not
    covered, so the floor holds for less and is no lower. A case of the VMs' contract is a test for each type of host.
    """
    test = item.nodeid if "host_type" in getattr(item, "fixturenames", ()) else item.nodeid.partition("[")[0]
    property_test = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if _idle[test] == _IDLE_CASES or property_test or test.startswith(_FROM_OUTSIDE):
        with unmeasured():
            return (yield)
    before = reached()
    try:
        return (yield)
    finally:
        _idle[test] = _idle[test] + 1 if reached() == before else 0


@pytest.fixture(scope="session")
def images_dir() -> Path:
    """The image store that `make setup` filled."""
    return Path(os.environ.get("CI_DAEMON_IMAGES_DIR") or _CHECKOUT / ".run" / "images")


@pytest.fixture(scope="session")
def idmap() -> host.IdMap:
    return host.IdMap.of_caller()


@pytest.fixture(scope="session")
def image_store(images_dir: Path, idmap: host.IdMap) -> vms.ImageStore:
    """The checkout's image store; the default image is made if `make setup` has not made it."""
    store = vms.ImageStore(images_dir, idmap)
    store.build("debian:12")
    return store
