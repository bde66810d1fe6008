"""The host as every provider of VMs uses it: its ids, control groups, network, folders and processes.

Modules that make VMs are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.host.boot import BootFiles, KernelPackage, static_busybox
    from actors.vms.host.control_groups import VmLimits
    from actors.vms.host.ids import IdMap, NoSubIds, run_mapped
    from actors.vms.host.vms import SnapshotInUse
    from actors.vms.launcher.broker import BROKER_VARIABLE
    from actors.vms.launcher.syscall_filter import MACHINES
else:
    __getattr__ = on_first_use(__name__)
