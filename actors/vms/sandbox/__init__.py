"""VMs as sandboxes of namespaces: the default provider (engine.md, "Leases").

Modules that make VMs are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from actors.vms.sandbox.network import NetworkSettings
from actors.vms.sandbox.settings import SandboxSettings
from actors.vms.sandbox.userns import IdMap, run_mapped

if TYPE_CHECKING:
    from actors.vms.sandbox.disks import SnapshotInUse
    from actors.vms.sandbox.limits import Limits
    from actors.vms.sandbox.provider import SandboxProvider

__all__ = [
    "IdMap",
    "Limits",
    "NetworkSettings",
    "SandboxProvider",
    "SandboxSettings",
    "SnapshotInUse",
    "run_mapped",
]

_LATER = {
    "Limits": "actors.vms.sandbox.limits",
    "SandboxProvider": "actors.vms.sandbox.provider",
    "SnapshotInUse": "actors.vms.sandbox.disks",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)
