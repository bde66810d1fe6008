"""Clean up after other projects: those whose command was killed, and those that are built no more."""

from __future__ import annotations

import logging
import os
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from actors.vms import VmError
from actors.vms.host import IdMap, run_mapped
from ci_daemon.host.lock import LOCK, AlreadyServed, serving
from ci_daemon.providers import has_vms, open_images, open_providers
from storage import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.config import Config
    from ci_daemon.local.folders import LocalFolders

_log = logging.getLogger(__name__)

UNUSED_SECONDS = 30 * 86_400
"""The state of a project that was not built for so long is removed; it only saves time."""


def clean_up(folders: LocalFolders, config: Config) -> None:
    """End the VMs that killed commands have left in any project, and remove the state of unused projects."""
    for state in folders.projects.iterdir():
        unused = time.time() - _last_used(state) > UNUSED_SECONDS
        if not unused and not has_vms(state):
            continue
        try:
            with suppress(AlreadyServed), serving(state):
                _destroy_vms(state, config)
                if unused:
                    _remove(state)
        except (VmError, OSError) as error:  # the next command tries again
            _log.warning("%s cannot be cleaned up: %s", state, error)


def _last_used(state: Path) -> float:
    """Return when a command last had a project: it truncates the lock file at its end."""
    try:
        return (state / LOCK).stat().st_mtime
    except FileNotFoundError:
        return state.stat().st_mtime


def _destroy_vms(state: Path, config: Config) -> None:
    if has_vms(state):
        with closing(open_providers(state, config, open_images(state, config), SystemClock())) as providers:
            for provider in providers:
                for vm in provider.list():
                    provider.destroy(vm)


def _remove(state: Path) -> None:
    """Remove a state directory; disks in it belong to the ids of VMs."""
    idmap = IdMap.of_caller().with_caller()
    run_mapped(["rm", "-rf", os.fspath(state)], idmap=idmap, cwd=state.parent)
