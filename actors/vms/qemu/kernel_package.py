"""The kernel of machines, found on the host with the drivers of their disks and network."""

from __future__ import annotations

import lzma
import os
import re
from typing import TYPE_CHECKING

from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4")
"""The drivers that a machine needs, unless they are built in."""

_DEPENDS = re.compile(rb"(?<![^\0])depends=([^\0]*)\0")
_NUMBERS = re.compile(r"\d+")


@immutable
class KernelPackage:
    """A kernel that boots directly, and the folder of its modules."""

    image: Path
    modules: Path

    @classmethod
    def newest(cls, system: Path, driver: str | None = None) -> KernelPackage:
        """Find the newest readable kernel below ``system`` whose modules are there, one that has a ``driver``.

        Raises VmError.
        """
        found = [
            cls(image, modules)
            for image in (system / "boot").glob("vmlinuz-*")
            for modules in [system / "lib" / "modules" / image.name.removeprefix("vmlinuz-")]
            if os.access(modules, os.R_OK | os.X_OK) and _readable(image)
            if driver is None or any(modules.rglob(f"{driver}.ko*"))
        ]
        if not found:
            package = "linux-image-cloud-amd64" if driver is None else "linux-image-amd64"
            message = (
                f"machines need a kernel, and {system / 'boot'} has none that can be read, with its modules"
                f"{'' if driver is None else f' and {driver} among them'}: "
                f"run `sudo apt-get install -y --no-install-recommends {package}`"
            )
            raise VmError(message)
        return max(found, key=lambda each: [int(number) for number in _NUMBERS.findall(each.image.name)])

    @property
    def release(self) -> str:
        """The kernel's release, such as 6.1.0-50-cloud-amd64."""
        return self.modules.name

    def drivers(self, modules: Iterable[str] = MODULES) -> list[tuple[str, bytes]]:
        """Return the modules to load for these, in order, by name and content. Raises VmError."""
        files = {
            path.name.partition(".")[0].replace("-", "_"): path
            for path in self.modules.rglob("*.ko*")
        }  # fmt: skip
        loaded: dict[str, bytes] = {}

        def load(name: str) -> None:
            if name in loaded or name not in files:  # what has no file is built in
                return
            content = _content(files[name])
            depends = _DEPENDS.search(content)
            for each in depends[1].decode().replace("-", "_").split(",") if depends else ():
                load(each)
            loaded[name] = content

        for name in modules:
            load(name)
        return list(loaded.items())


def _readable(path: Path) -> bool:
    try:
        with path.open("rb"):
            return True
    except OSError:
        return False


def _content(path: Path) -> bytes:
    match path.suffix:
        case ".ko":
            return path.read_bytes()
        case ".xz":
            return lzma.decompress(path.read_bytes())
        case suffix:
            message = f"{path} is packed as {suffix}, which cannot be read here: set qemu.system to another kernel's"
            raise VmError(message)
