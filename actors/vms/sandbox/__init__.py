"""VMs as sandboxes of namespaces: the default provider (engine.md, "Leases")."""

from __future__ import annotations

from actors.vms.sandbox.disks import SnapshotInUse
from actors.vms.sandbox.limits import Enforcement, Limits
from actors.vms.sandbox.network import NetworkSettings
from actors.vms.sandbox.provider import ImageRoots, SandboxProvider, SandboxSettings
from actors.vms.sandbox.userns import IdMap, MappedFailed, NoSubIds, run_mapped

__all__ = [
    "Enforcement",
    "IdMap",
    "ImageRoots",
    "Limits",
    "MappedFailed",
    "NetworkSettings",
    "NoSubIds",
    "SandboxProvider",
    "SandboxSettings",
    "SnapshotInUse",
    "run_mapped",
]
