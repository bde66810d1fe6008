"""A fresh service for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api import HttpSettings, create_app
from storage import Storage
from tests.api.conformity import conformity
from tests.api.world import Account, DummyEngine, PipelinePath, TurnableClock, World


@pytest.fixture
def clock() -> TurnableClock:
    return TurnableClock()


@pytest.fixture
def storage(tmp_path: Path, clock: TurnableClock) -> Iterator[Storage]:
    storage = Storage.create(tmp_path / "state", clock)
    yield storage
    storage.close()


@pytest.fixture
def credit_required(storage: Storage) -> None:
    storage.billing = replace(storage.billing, require_credit=True)


@pytest.fixture
def settings() -> HttpSettings:
    return HttpSettings(base_url="https://ci.example.org/")


@pytest.fixture
def world(storage: Storage, clock: TurnableClock, settings: HttpSettings) -> World:
    engine = DummyEngine(storage, clock)
    app = create_app(storage, engine, settings, clock=clock)
    app.add_middleware(conformity())
    return World(storage, engine, clock, app)


@pytest.fixture
def ada(world: World) -> Account:
    return world.join("ada@example.org", "Ada")


@pytest.fixture
def bob(world: World) -> Account:
    return world.join("bob@example.org", "Bob")


@pytest.fixture
def pipeline(ada: Account) -> PipelinePath:
    return ada.pipeline()
