"""A storage on a clock that stands still, and a mail server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Storage
from tests.clock import ManualClock
from tests.mail_server import MailServer, mail_server
from tests.ports import reserved_port
from tests.state import new_storage


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", clock)
    yield storage
    storage.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which no server listens."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server
