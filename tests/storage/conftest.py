"""A storage on real files, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import NewPipeline, Organization, Pipeline, Storage, User
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.state import database_in, new_storage
from tests.storage.world import START, World


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def database(tmp_path: Path, clock: ManualClock) -> Database:
    """The database of the storage."""
    return database_in(tmp_path / "state", clock)


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock, database: Database) -> Iterator[Storage]:
    storage = new_storage(tmp_path / "state", clock, database=database)
    yield storage
    storage.close()


@pytest.fixture
def user(storage: Storage) -> User:
    return storage.users.create("ann@example.org", "Ann")


@pytest.fixture
def organization(storage: Storage, user: User) -> Organization:
    return storage.organizations.create("Acme", "https://acme.example", user.id)


@pytest.fixture
def pipeline(storage: Storage, organization: Organization) -> Pipeline:
    return storage.pipelines.create(organization.id, NewPipeline("web", "Web", "https://git.example/acme/web", "main"))


@pytest.fixture
def world(storage: Storage, clock: ManualClock, pipeline: Pipeline) -> World:
    return World(storage, clock, pipeline)
