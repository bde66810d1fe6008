"""An organization, and a forge in this process that it connects repositories at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import Storage
from tests.actors.source_hosts.forges import KINDS, Forged, forged
from tests.records import new_owner


@pytest.fixture
def org(storage: Storage) -> int:
    return new_owner(storage).organization.id


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest, storage: Storage, tmp_path: Path) -> Iterator[Forged]:
    with forged(request.param, storage, tmp_path / "forge") as forge:
        yield forge


@pytest.fixture
def forgejo(storage: Storage, tmp_path: Path) -> Iterator[Forged]:
    with forged("forgejo", storage, tmp_path / "forge") as forge:
        yield forge
