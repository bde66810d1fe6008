"""Checks of the isolation of VMs from each other and from the host (docs/security.md)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host import BROKER_VARIABLE, MACHINES
from ci_daemon.doctor.check import Check, passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.vms import SandboxSettings

_SYS_RESOURCE = 24
_ALL_IDS = ["0", "0", "4294967295"]
"""The id map of the initial user namespace."""


def isolation(
    settings: SandboxSettings, environ: Mapping[str, str], process: Path = Path("/proc/self")
) -> Iterator[Check]:
    """Describe the sandbox, and check the parts of its isolation that depend on this host or its owner."""
    yield passed(
        "sandbox",
        "VMs are Linux namespaces, not machines: all share this kernel and one range of host ids. Tenants who do not"
        " trust each other need a host each",
    )
    yield _system_calls(os.uname().machine)
    yield _user_namespaces(settings)
    yield _out_of_memory(environ, process)


def _system_calls(machine: str) -> Check:
    name = "system calls"
    if machine in MACHINES:
        return passed(name, f"VMs may make only the system calls that are listed for {machine}")
    detail = f"no VM can start, because no system calls are listed for {machine}: use {', '.join(MACHINES)}"
    return Check(name, ok=False, detail=detail, fixable=False)


def _user_namespaces(settings: SandboxSettings) -> Check:
    name = "nested namespaces"
    if not settings.user_namespaces:
        return passed(name, "jobs cannot create user namespaces (`sandbox.user_namespaces`)")
    detail = "`sandbox.user_namespaces` exposes much more of the kernel to jobs: turn it off if you do not trust them"
    return Check(name, ok=False, detail=detail, needed=False, fixable=False)


def _out_of_memory(environ: Mapping[str, str], process: Path) -> Check:
    name = "out of memory"
    # With a broker systemd fixes the least score, so what counts is what root has here, not this process.
    if _has_sys_resource(process, "CapBnd" if BROKER_VARIABLE in environ else "CapEff"):
        return passed(name, "the kernel kills VMs before the host's programs, and jobs cannot change that")
    detail = (
        "the kernel kills VMs first, but a job can change that: run the service with the units in systemd/ or as root,"
        " on a host whose root has CAP_SYS_RESOURCE"
    )
    return Check(name, ok=False, detail=detail, needed=False, fixable=False)


def _has_sys_resource(process: Path, capabilities: str) -> bool:
    """Tell whether these capabilities of a process include CAP_SYS_RESOURCE, and over the whole host."""
    status = (process / "status").read_text(encoding="ascii")
    held = int(status.partition(f"{capabilities}:")[2].split()[0], 16)
    return bool(held & 1 << _SYS_RESOURCE) and (process / "uid_map").read_text().split() == _ALL_IDS
