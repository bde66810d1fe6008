"""The image of outer layers that are machines: a disk with what boots, and the base image's tree."""

from __future__ import annotations

import platform
import shutil
import tarfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.vms.incus.machines.boot import boot_digest, machine_boot
from actors.vms.incus.machines.disk import make_machine_disk
from actors.vms.incus.tarballs import METADATA, unended_tar
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.host.ids import IdMap

_DISK = "rootfs.img"
_BLOCK_BYTES = 1 << 20


@immutable
class MachineImage:
    """The image of machines; it is made in a folder, with a kernel of the files below ``system``."""

    idmap: IdMap
    system: Path
    folder: Path
    kind: str = "machine"

    def digest(self) -> str:
        """Return a digest of all that is added to the tree. Raises VmError if a part is missing here."""
        return boot_digest(self.system)

    def blocks(self, tree: Path) -> Iterator[bytes]:
        """Yield the image as the engine takes it. Raises VmError."""
        with self._scratch() as folder:
            disk = folder / _DISK
            make_machine_disk(machine_boot(self.system), tree, self.idmap, disk)
            yield unended_tar({"metadata.yaml": METADATA.format(machine=platform.machine())})
            entry = tarfile.TarInfo(_DISK)
            entry.size = disk.stat().st_size
            yield entry.tobuf(tarfile.GNU_FORMAT)
            with disk.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
            yield bytes(-entry.size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Give an empty folder until the end of the block; one that a killed service left goes first."""
        folder = self.folder / "machine-image"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
