"""A fresh service for each test."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api import HttpSettings
from storage import Storage
from tests.api.world import Account, PipelinePath, World
from tests.clock import ManualClock
from tests.measuring import unmeasured
from tests.state import new_storage

_measured: set[tuple[Path, Callable[..., Any]]] = set()
"""The fixtures below that have been set up, by file."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Measure the coverage of each fixture below once in a file: for later tests it does the same again.

    Others may start threads, which would not be measured either.
    """
    this = (request.path, fixturedef.func)
    known = this in _measured and fixturedef.func.__module__ == __name__
    with unmeasured() if known else nullcontext():
        _measured.add(this)
        return (yield)


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
