"""Machines for tests of the whole system (`make test-system`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A new Debian machine that has booted."""
    with Machine() as made:
        yield made
