"""Fleets of real members for tests (`make test-fleet`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.engine import INCUS, LXD
from tests.fleet.fleet import Fleet


@pytest.fixture
def lone() -> Iterator[Fleet]:
    """A new member of Incus alone."""
    with Fleet(INCUS) as fleet:
        yield fleet


@pytest.fixture
def lone_lxd() -> Iterator[Fleet]:
    """A new member of LXD alone."""
    with Fleet(LXD) as fleet:
        yield fleet


@pytest.fixture
def cluster() -> Iterator[Fleet]:
    """A new cluster of three members of Incus."""
    with Fleet(INCUS, 3) as fleet:
        yield fleet
