"""Members that the product's own setup has prepared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Self

from actors.vms.incus import Access, Engine, EngineSetup, access_of
from ci_daemon.config import load
from ci_daemon.engine import prepare_engine
from storage import SystemClock
from tests.fleet.fleet import POOL, Fleet

CERTIFICATES = {"certificate": "client.crt", "key": "client.key", "server_certificate": "server.crt"}
"""The files of a way to an engine, by the settings that name them."""

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
        settings: dict[str, object] = {"storage": POOL, "socket": str(member.socket)}
        settings |= {name: str(folder / file) for name, file in CERTIFICATES.items()}
        write_settings(folder, settings)
        token = _token(fleet) if over_tls else None
        prepared = prepare_engine(folder, load(folder, {}), token, SystemClock().now())
        if over_tls:
            write_settings(folder, {**settings, "addresses": prepared.addresses})
        return cls(folder)

    def configure(self, folder: Path) -> None:
        """Put the configuration into another folder."""
        folder.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self._folder / _FILE, folder)

    def allow(self, networks: tuple[str, ...]) -> None:
        """Repeat the setup if other networks are allowed than before."""
        if networks != self._allowed:
            with administered(self.administrator()) as engine:
                list(EngineSetup(engine, self.config.incus, networks).steps(None))
            self._allowed = networks

    def kill_instance(self, name: str) -> None:
        """Begin to kill an instance, as an administrator of the engine."""
        with administered(self.administrator(), self.config.incus.project) as engine:
            engine.begin("PUT", f"/1.0/instances/{name}/state", {"action": "stop", "force": True})

    def administrator(self) -> Access:
        """Return the way of an administrator to the engine."""
        return replace(access_of(self._folder, self.config.incus), addresses=())


@contextmanager
def administered(access: Access, project: str = "default") -> Iterator[Engine]:
    """Open an engine by the way of an administrator."""
    with closing(Engine(access, project)) as engine:
        yield engine


def write_settings(folder: Path, settings: Mapping[str, object]) -> None:
    """Write the settings of the provider to the configuration in a folder."""
    lines = (f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (folder / _FILE).write_text("\n".join(["[incus]", *lines, ""]), encoding="utf-8")


def _token(fleet: Fleet) -> str:
    """Return a token by which the fleet trusts a new client; the two engines' commands differ."""
    name = "ci-daemon" if fleet.engine.client == "incus" else "--name ci-daemon"
    return fleet.members[0].run(f"{fleet.engine.client} config trust add {name}").split()[-1]
