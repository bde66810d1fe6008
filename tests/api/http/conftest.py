from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.http.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "state") as served:
        yield served
