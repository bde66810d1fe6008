"""A storage on real files, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import NewPipeline, Organization, Pipeline, Storage, User
from tests.storage.world import HandClock, World


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def storage(tmp_path: Path, clock: HandClock) -> Iterator[Storage]:
    storage = Storage.create(tmp_path / "state", clock)
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
def world(storage: Storage, clock: HandClock, pipeline: Pipeline) -> World:
    return World(storage, clock, pipeline)
