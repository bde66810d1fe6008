"""Checks of the isolation of VMs from each other and from the host (docs/security.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.sandbox.launcher.filter import MACHINES
from actors.vms.sandbox.program import STARTER
from ci_daemon.doctor.check import Check, good

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.vms.sandbox import SandboxSettings

__all__ = ["isolation"]

_SYS_RESOURCE = 24


def isolation(
    settings: SandboxSettings, environ: Mapping[str, str], status: Path = Path("/proc/self/status")
) -> Iterator[Check]:
    """Describe the sandbox, and check each part of it that this host or its owner may leave open."""
    yield good(
        "sandbox",
        "VMs are Linux namespaces, not machines: all share this kernel and one range of host ids. Tenants who do not"
        " trust each other need a host each",
    )
    yield _system_calls(os.uname().machine)
    yield _user_namespaces(settings)
    yield _out_of_memory(environ, status)


def _system_calls(machine: str) -> Check:
    name = "system calls"
    if machine in MACHINES:
        return good(name, f"VMs may make those that are listed for {machine}, and no others")
    detail = f"there is no list of system calls for {machine}, so no VM starts: use {', '.join(MACHINES)}"
    return Check(name, ok=False, detail=detail, fixable=False)


def _user_namespaces(settings: SandboxSettings) -> Check:
    name = "nested namespaces"
    if not settings.user_namespaces:
        return good(name, "jobs can make no user namespaces (`sandbox.user_namespaces`)")
    detail = (
        "`sandbox.user_namespaces` lets jobs attack far more of the kernel: turn it off where you do not trust them"
    )
    return Check(name, ok=False, detail=detail, needed=False, fixable=False)


def _out_of_memory(environ: Mapping[str, str], status: Path) -> Check:
    name = "out of memory"
    capabilities = int(status.read_text(encoding="ascii").partition("CapEff:")[2].split()[0], 16)
    if STARTER in environ or capabilities & 1 << _SYS_RESOURCE:
        return good(name, "VMs are killed before the host's programs, and cannot change that")
    detail = (
        "VMs are killed first, but a job can change that: run the service by the units in systemd/, or as root with"
        " CAP_SYS_RESOURCE"
    )
    return Check(name, ok=False, detail=detail, needed=False, fixable=False)
