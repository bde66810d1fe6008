"""Machines for the tests that need a whole one (`make test-system`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A fresh Debian, switched on."""
    with Machine() as made:
        yield made
