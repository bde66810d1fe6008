"""Services that are configured for identity providers on the loopback, in real time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from api import HttpSettings, IdentitySettings
from storage import Storage
from tests.api.world import World
from tests.clock import ManualClock
from tests.identity.issuer import ScriptedIssuer
from tests.identity.local_server import LocalServer, local_server


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still at the time of the providers."""
    return ManualClock(datetime.now(UTC))


@pytest.fixture
def settings() -> HttpSettings:
    return HttpSettings(base_url="https://ci.example.org/", cors_origins=("https://console.example.org",))


@pytest.fixture
def open_world(storage: Storage, clock: ManualClock, settings: HttpSettings) -> Callable[..., World]:
    """Make a service with an owner; anybody may sign up unless ``signup`` says otherwise."""

    def make(**identity: Any) -> World:
        keys = {"signup": "open", "provider_timeout": 5.0, **identity}
        world = World.create(storage, clock, settings, identity=IdentitySettings(**keys))
        world.sign_up("owner@example.org", "Owner")
        return world

    return make


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


@pytest.fixture
def issuer(server: LocalServer, clock: ManualClock) -> ScriptedIssuer:
    return ScriptedIssuer(server, int(clock.now().timestamp()))


@pytest.fixture
def world(open_world: Callable[..., World], issuer: ScriptedIssuer) -> World:
    return open_world(oidc={"corp": issuer.settings})
