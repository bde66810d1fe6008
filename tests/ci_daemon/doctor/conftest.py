from __future__ import annotations

from pathlib import Path

import pytest

from storage import SystemClock
from tests.state import new_storage


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    new_storage(tmp_path / "state", SystemClock()).close()
    return tmp_path / "state"
