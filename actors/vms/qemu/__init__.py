"""VMs as machines, each with a kernel of its own (engine.md, "Leases").

Modules that make VMs are imported on first use, because most commands only read the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.qemu.program import find_accelerator, require_program
    from actors.vms.qemu.provider import QemuProvider
else:
    __getattr__ = on_first_use(__name__)
