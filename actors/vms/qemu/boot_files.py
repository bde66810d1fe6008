"""The kernel and first root that machines boot from, made once for each release of both."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING

from actors.vms.qemu.initramfs import make_initramfs
from actors.vms.qemu.kernel_package import KernelPackage
from storage import immutable

if TYPE_CHECKING:
    from pathlib import Path


@immutable
class BootFiles:
    """A kernel and the archive of its first root."""

    kernel: Path
    initramfs: Path

    @classmethod
    def make(cls, folder: Path, system: Path) -> BootFiles:
        """Make both in ``folder``, unless they are there, from the newest kernel of ``system``.

        Raises VmError.
        """
        package = KernelPackage.newest(system)
        folder.mkdir(exist_ok=True)
        initramfs = make_initramfs(package)
        digest = hashlib.sha256(initramfs).hexdigest()[:16]
        made = cls(folder / f"{package.release}.kernel", folder / f"{package.release}-{digest}.initramfs")
        if not made.kernel.exists():
            _write(made.kernel, package.image.read_bytes())
        if not made.initramfs.exists():
            _write(made.initramfs, initramfs)
        for outdated in set(folder.iterdir()) - {made.kernel, made.initramfs}:  # running machines have theirs open
            outdated.unlink(missing_ok=True)
        return made


def _write(path: Path, content: bytes) -> None:
    """Write a file that QEMU, an ordinary user, may read: through a descriptor, for its folder is closed."""
    unfinished = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    unfinished.write_bytes(content)
    unfinished.chmod(0o644)
    unfinished.rename(path)
