"""VMs as sandboxes of namespaces, which need no KVM and no privileges (engine.md, "Leases").

Modules that make VMs are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.sandbox.disks import SnapshotInUse
    from actors.vms.sandbox.launcher.syscall_filter import MACHINES
    from actors.vms.sandbox.limits import VmLimits
    from actors.vms.sandbox.programs import BROKER_VARIABLE
    from actors.vms.sandbox.provider import SandboxProvider
    from actors.vms.sandbox.settings import NetworkSettings, SandboxSettings
    from actors.vms.sandbox.userns import IdMap, NoSubIds, run_mapped
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "BROKER_VARIABLE",
    "MACHINES",
    "IdMap",
    "NetworkSettings",
    "NoSubIds",
    "SandboxProvider",
    "SandboxSettings",
    "SnapshotInUse",
    "VmLimits",
    "run_mapped",
]
