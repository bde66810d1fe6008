"""The disk of the engine's machines: a partition that boots, and one with the base image's tree."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from typing import TYPE_CHECKING

from actors.vms.incus.machines.boot_partition import boot_partition
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.host.ids import IdMap

_PACKAGES = {"qemu-img": "qemu-utils", "mke2fs": "e2fsprogs"}
_MB = 1 << 20
_SECTOR = 512
_FIRST_BYTE = _MB
_EFI, _LINUX = 0xEF, 0x83
_PARTITION = "<B3sB3sII"
_PARTITIONS_AT = 446
_MEASURE = "du -sxB1 . && du -sx --inodes ."
_FILL = 'exec "$5" -q -F -t ext4 -O ^has_journal -b 4096 -m 0 -N "$2" -E "$3" -d . "$1" "$4"'


def make_machine_disk(boots: bytes, tree: Path, idmap: IdMap, target: Path) -> None:
    """Make a qcow2 image of two partitions: what ``boots``, and the tree's files as ext4. Raises VmError."""
    boot = boot_partition(boots)
    used, inodes = (int(line.split()[0]) for line in _mapped(idmap, tree, _MEASURE).splitlines())
    size = (used + used // 4 + inodes * 512 + 64 * _MB) // _MB * _MB
    start = _FIRST_BYTE + len(boot)
    start += -start % _MB
    with tempfile.NamedTemporaryFile(dir=target.parent) as raw:
        raw.write(_partition_table((_EFI, _FIRST_BYTE, len(boot)), (_LINUX, start, size)))
        raw.seek(_FIRST_BYTE)
        raw.write(boot)
        raw.truncate(start + size)
        raw.flush()
        os.fchmod(raw.fileno(), 0o666)  # for the ids of the tree; the folder above is closed to all others
        options = f"lazy_itable_init=1,nodiscard,root_owner=0:0,offset={start}"
        file = f"/proc/self/fd/{raw.fileno()}"
        _mapped(
            idmap,
            tree,
            _FILL,
            file,
            str(inodes * 2),
            options,
            f"{size // 1024}k",
            disk_program("mke2fs"),
            descriptor=raw.fileno(),
        )
        _run([disk_program("qemu-img"), "convert", "-f", "raw", "-O", "qcow2", raw.name, str(target)])


def disk_program(name: str) -> str:
    """Return the path of a program that makes the disk. Raises VmError."""
    if path := shutil.which(name):
        return path
    message = f"machines on members have no disk without {name}: run `sudo apt-get install -y {_PACKAGES[name]}`"
    raise VmError(message)


def _partition_table(*partitions: tuple[int, int, int]) -> bytes:
    """Return the first sector of a disk with partitions by type, first byte and bytes."""
    entries = (
        struct.pack(_PARTITION, 0, bytes(3), kind, bytes(3), at // _SECTOR, size // _SECTOR)
        for kind, at, size in partitions
    )
    return (bytes(_PARTITIONS_AT) + b"".join(entries)).ljust(_SECTOR - 2, b"\0") + b"\x55\xaa"


def _mapped(idmap: IdMap, tree: Path, script: str, *arguments: str, descriptor: int | None = None) -> str:
    argv = idmap.command(["sh", "-ec", script, "sh", *arguments])
    return _run(argv, tree, () if descriptor is None else (descriptor,))


def _run(argv: list[str], cwd: Path | None = None, descriptors: tuple[int, ...] = ()) -> str:
    done = subprocess.run(argv, cwd=cwd, pass_fds=descriptors, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        message = f"the disk of machines cannot be made: {done.stderr.strip()}"
        raise VmError(message)
    return done.stdout
