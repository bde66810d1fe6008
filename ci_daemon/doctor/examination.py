"""All the checks, in the order in which a newcomer mends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.sandbox.limits import Limits
from ci_daemon.doctor import host, state
from ci_daemon.doctor.limits import enforcement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.config import Config
    from ci_daemon.doctor.check import Check

__all__ = ["examine"]


def examine(state_dir: Path, config: Config) -> Iterator[Check]:
    """Yield what was found, check by check, as it is found."""
    yield host.python()
    yield from host.packages()
    yield host.sub_ids()
    yield host.namespaces()
    yield host.overlay(state_dir)
    yield host.tun()
    yield host.clock()
    yield state.room(state_dir)
    yield state.state_directory(state_dir)
    yield state.default_image(state_dir, config)
    yield from enforcement(Limits.of_host(config.sandbox.processes))
