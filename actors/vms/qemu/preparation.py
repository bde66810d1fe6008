"""The needs of all machines of a host, found and made before the first of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.vms.qemu.acceleration import Accelerator, find_accelerator, require_program
from actors.vms.qemu.boot_files import BootFiles
from storage import immutable

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.settings import QemuSettings


@immutable
class Prepared:
    """The path of QEMU, what machines boot, and how they run."""

    program: str
    boot: BootFiles
    accelerator: Accelerator


class Preparation:
    """The needs of machines, found when first asked for. Safe in any thread."""

    def __init__(self, folder: Path, settings: QemuSettings, idmap: IdMap) -> None:
        """Keep the files that machines boot in ``folder``."""
        self._folder = folder
        self._settings = settings
        self._idmap = idmap
        self._lock = threading.Lock()
        self._prepared: Prepared | None = None

    def done(self) -> Prepared:
        """Return what machines need, after a trial boot the first time. Raises VmError."""
        with self._lock:
            if self._prepared is None:
                program = require_program()
                boot = BootFiles.make(self._folder, self._settings.system)
                self._prepared = Prepared(program, boot, self._accelerator(program, boot))
            return self._prepared

    def _accelerator(self, program: str, boot: BootFiles) -> Accelerator:
        if self._settings.acceleration == "auto":
            return find_accelerator(program, boot, self._idmap)
        return Accelerator(self._settings.acceleration == "kvm", "the configuration says so")
