"""All the checks, in the order in which a newcomer mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.sandbox.limits import Limits
from ci_daemon.doctor import host, service, state
from ci_daemon.doctor.isolation import isolation
from ci_daemon.doctor.limits import enforcement
from ci_daemon.doctor.sharing import sharing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_daemon.doctor.check import Check

__all__ = ["examine"]


def examine(state_dir: Path, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield the result of each check as soon as it is known."""
    config, configuration = state.configuration(state_dir, environ)
    yield host.python()
    yield from host.packages()
    yield host.sub_ids()
    namespaces = host.namespaces()
    yield namespaces
    if namespaces.ok:  # overlays are tried in one
        yield host.overlay(state_dir)
    yield host.tun()
    yield host.clock()
    yield from service.synchronized()
    yield state.room(state_dir)
    yield configuration
    yield state.state_directory(state_dir)
    yield state.database(state_dir)
    yield state.default_image(state_dir, config)
    yield service.address(state_dir, config.http.listen)
    yield from service.unit(state_dir)
    of_vms = service.environment(state_dir, environ)
    yield from enforcement(Limits.of_host(config.sandbox.processes, of_vms))
    yield from isolation(config.sandbox, of_vms)
    yield from sharing()
