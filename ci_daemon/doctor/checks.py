"""All checks, in the order in which a new owner fixes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.host import VmLimits
from ci_daemon.doctor import host, service, state
from ci_daemon.doctor.isolation import isolation
from ci_daemon.doctor.limits import shared_limits, vm_limits
from ci_daemon.doctor.providers import machines, members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_daemon.doctor.check import Check


def run_checks(state_dir: Path, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield the result of each check as soon as it is known."""
    config, configuration = state.configuration(state_dir, environ)
    yield from host.needed_by_vms(state_dir)
    yield host.clock()
    yield from service.clock_synchronization()
    yield state.disk_space(state_dir)
    yield configuration
    yield state.state_directory(state_dir)
    yield state.database(state_dir)
    yield from state.retention(state_dir)
    yield state.default_image(state_dir, config)
    yield service.address(state_dir, config.http.listen)
    yield service.mail_server(config.mail)
    yield from service.hooks(state_dir, config.http.url)
    yield from service.unit(state_dir)
    vm_environ = service.environment(state_dir, environ)
    yield from vm_limits(VmLimits.of_host(config.sandbox.processes, vm_environ))
    yield from isolation(config.sandbox, vm_environ)
    yield from shared_limits()
    yield from machines(state_dir, config)
    yield from members(state_dir, config)
