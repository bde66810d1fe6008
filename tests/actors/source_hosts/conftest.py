"""A storage on a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Storage
from tests.clock import ManualClock
from tests.state import new_storage


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", clock)
    yield storage
    storage.close()
