"""A mail server, and a port at which none listens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mail_server import MailServer, mail_server
from tests.ports import reserved_port


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port at which no server listens."""
    with reserved_port() as port:
        yield port


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server
