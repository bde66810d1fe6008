"""Clusters prepared for VMs, reached over TLS by the certificate that the product's setup made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from actors.vms import Connection, SandboxSettings, in_job
from actors.vms.host import IdMap
from actors.vms.images import ImageStore
from actors.vms.incus import IncusProvider
from ci_daemon.config import load
from ci_daemon.engine import prepare_engine
from storage import SystemClock
from tests.fleet.fleet import POOL, Fleet

_SECONDS = 60.0


def prepare(fleet: Fleet, state: Path, **settings: object) -> None:
    """Prepare a fleet for VMs, and configure a state directory for it, inside of its switch's network."""
    configure(state, {"socket": str(fleet.members[0].socket)})
    addresses = prepare_engine(state, load(state, {}), None, SystemClock().now()).addresses
    configure(state, {"addresses": list(addresses), **settings})


@contextmanager
def provider_of(state: Path, images: ImageStore) -> Iterator[IncusProvider]:
    """Open the provider of a state directory."""
    config = load(state, {})
    ids, clock = IdMap.of_caller(), SystemClock()
    with closing(IncusProvider(state / "incus", images, ids, clock, config.incus, SandboxSettings())) as provider:
        yield provider


def says(provider: IncusProvider, vm_id: str, script: str) -> str:
    """Return what a script prints in a VM, with the files of its disk."""
    with Connection(provider.connect(vm_id), SystemClock(), timeout=_SECONDS) as connection:
        return connection.run(in_job(script), timeout=_SECONDS).stdout.decode().strip()


def configure(state: Path, settings: Mapping[str, object]) -> None:
    """Write the configuration of a service whose VMs are on a fleet."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in {"storage": POOL, **settings}.items()]
    state.mkdir(exist_ok=True)
    (state / "ci-daemon.toml").write_text("\n".join(["[incus]", *lines, "[pool]", 'provider = "incus"', ""]))
