"""VMs as sandboxes of namespaces: the default provider (engine.md, "Leases")."""

from __future__ import annotations

from actors.vms.sandbox.disks import SnapshotInUse
from actors.vms.sandbox.limits import Limits
from actors.vms.sandbox.network import NetworkSettings
from actors.vms.sandbox.provider import SandboxProvider, SandboxSettings
from actors.vms.sandbox.userns import IdMap, run_mapped

__all__ = [
    "IdMap",
    "Limits",
    "NetworkSettings",
    "SandboxProvider",
    "SandboxSettings",
    "SnapshotInUse",
    "run_mapped",
]
