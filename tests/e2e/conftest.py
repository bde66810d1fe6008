"""One real daemon for the module, its VMs gone afterwards, and a user on it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage import Storage, SystemClock
from tests.e2e.daemon import Client, Daemon, Pipeline

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """What this module's daemon is configured with."""
    return {"CI_DAEMON_POOL_WARM": "1", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(scope="module")
def daemon(images_dir: Path, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Serve until the module is done, then see that it ends well and leaves no VM."""
    state = tmp_path_factory.mktemp("daemon") / "state"
    daemon = Daemon(state, {"CI_DAEMON_IMAGES_DIR": str(images_dir), **settings})
    Storage.create(state, SystemClock()).close()
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log
    finally:
        daemon.kill()
        daemon.command("lease", "kill", "--all")
    with closing(Storage.open(state, SystemClock())) as storage:
        assert storage.leases.live() == []
    assert "Traceback" not in daemon.log


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """A user of its own for each test."""
    return Client.join(daemon, f"user{next(_numbers)}@example.org")


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    """A pipeline of its own for each test."""
    return client.pipeline()
