"""One real daemon for the module, which must leave no VMs, and a user on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from storage import Storage, SystemClock
from tests.e2e.browser import chromium
from tests.e2e.daemon import Client, Daemon, ForkedDaemon, Pipeline
from tests.measuring import unmeasured
from tests.state import new_storage

_numbers = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def _outside() -> Iterator[None]:
    """Measure no coverage: what runs here is the client of a daemon."""
    with unmeasured():
        yield


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """The configuration of this module's daemon, as environment variables."""
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(scope="module")
def daemon_type() -> type[Daemon]:
    """The class of this module's daemon."""
    return ForkedDaemon


@pytest.fixture(scope="module")
def daemon(
    daemon_type: type[Daemon], images_dir: Path, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    """Serve until the module is done; then check that the daemon ends well and leaves no VM."""
    state = tmp_path_factory.mktemp("daemon") / "state"
    daemon = daemon_type(state, {"CI_DAEMON_IMAGES_DIR": str(images_dir), **settings})
    new_storage(state, SystemClock()).close()
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log
    finally:
        daemon.kill()
        daemon.end_vms()
    with closing(Storage.open(state, SystemClock())) as storage:
        assert storage.leases.live() == []
    assert "Traceback" not in daemon.log


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the module: to start it takes seconds of the CPU."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """A new user for each test."""
    return Client.create(daemon, f"user{next(_numbers)}@example.org")


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    """A new pipeline for each test."""
    return client.pipeline()
