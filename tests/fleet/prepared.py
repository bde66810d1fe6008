"""Members that the product's own setup has prepared, and that stand as long as tests need them."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from actors.vms.incus import Engine, access_of
from actors.vms.sandbox import NetworkSettings
from ci_daemon.config import load
from ci_daemon.engine_setup import prepare_engine
from storage import SystemClock
from tests.fleet.fleet import POOL, Fleet

if TYPE_CHECKING:
    from tests.fleet import engine

__all__ = ["PreparedFleet", "StandingFleets"]

_FILE = "ci-daemon.toml"


class PreparedFleet:
    """A fleet's project for VMs, as the configuration in a folder describes it."""

    def __init__(self, folder: Path) -> None:
        """Use the configuration in ``folder``."""
        self._folder = folder
        self._allowed: tuple[str, ...] = ()
        self.config = load(folder, {})

    @classmethod
    def make(cls, fleet: Fleet, folder: Path, *, over_tls: bool) -> Self:
        """Prepare a fleet by its socket, or else with a token and over TLS, inside of its switch's network."""
        member = fleet.members[0]
        certificates = {"certificate": "client.crt", "key": "client.key", "server_certificate": "server.crt"}
        settings: dict[str, object] = {"storage": POOL, "socket": str(member.socket)}
        settings |= {name: str(folder / file) for name, file in certificates.items()}
        _write(folder, settings)
        token = _token(fleet) if over_tls else None
        prepared = prepare_engine(folder, load(folder, {}), token, SystemClock().now())
        if over_tls:
            _write(folder, {**settings, "addresses": prepared.addresses})
        return cls(folder)

    def configure(self, folder: Path) -> None:
        """Put the configuration into another folder."""
        folder.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self._folder / _FILE, folder)

    def allow(self, networks: tuple[str, ...]) -> None:
        """Repeat the setup if other networks are allowed than before."""
        if networks != self._allowed:
            sandbox = replace(self.config.sandbox, network=NetworkSettings(allow=networks))
            prepare_engine(self._folder, replace(self.config, sandbox=sandbox), None, SystemClock().now())
            self._allowed = networks

    def kill_instance(self, name: str) -> None:
        """Begin to kill an instance, as an administrator of the engine."""
        access = replace(access_of(self._folder, self.config.incus), addresses=())
        with closing(Engine(access, self.config.incus.project)) as administrator:
            administrator.begin("PUT", f"/1.0/instances/{name}/state", {"action": "stop", "force": True})


class StandingFleets(ExitStack):
    """Lone members that stand until the context is left, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        """Keep their certificates in ``folder``."""
        super().__init__()
        self._folder = folder
        self._fleets: dict[str, Fleet] = {}
        self._prepared: dict[str, PreparedFleet] = {}

    def of(self, kind: engine.Engine) -> Fleet:
        """Return the lone member of an engine."""
        if kind.name not in self._fleets:
            self._fleets[kind.name] = self.enter_context(Fleet(kind))
        return self._fleets[kind.name]

    def prepared(self, kind: engine.Engine, *, over_tls: bool) -> PreparedFleet:
        """Return the lone member of an engine, prepared; called inside of its switch's network."""
        name = f"{kind.name}-tls" if over_tls else kind.name
        if name not in self._prepared:
            folder = self._folder / name
            folder.mkdir()
            self._prepared[name] = PreparedFleet.make(self.of(kind), folder, over_tls=over_tls)
        return self._prepared[name]


def _write(folder: Path, settings: dict[str, object]) -> None:
    lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (folder / _FILE).write_text("\n".join(["[incus]", *lines, ""]), encoding="utf-8")


def _token(fleet: Fleet) -> str:
    """Return a token by which the fleet trusts a new client; the two engines' commands differ."""
    name = "ci-daemon" if fleet.engine.client == "incus" else "--name ci-daemon"
    return fleet.members[0].run(f"{fleet.engine.client} config trust add {name}").split()[-1]
