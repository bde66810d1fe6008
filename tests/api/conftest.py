"""A fresh service for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api import HttpSettings
from storage import Storage
from tests.api.world import Account, PipelinePath, World
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


@pytest.fixture
def credit_required(storage: Storage) -> None:
    storage.billing = replace(storage.billing, require_credit=True)


@pytest.fixture
def settings() -> HttpSettings:
    return HttpSettings(base_url="https://ci.example.org/")


@pytest.fixture
def world(storage: Storage, clock: ManualClock, settings: HttpSettings) -> World:
    return World.create(storage, clock, settings)


@pytest.fixture
def ada(world: World) -> Account:
    return world.sign_up("ada@example.org", "Ada")


@pytest.fixture
def bob(world: World) -> Account:
    return world.sign_up("bob@example.org", "Bob")


@pytest.fixture
def pipeline(ada: Account) -> PipelinePath:
    return ada.pipeline()
