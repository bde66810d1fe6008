"""A small FAT file system with one program, which a firmware starts from a disk by itself."""

from __future__ import annotations

import struct

_SECTOR = 512
_CLUSTER = 4096
_CLUSTERS = 16_384
_ROOT_ENTRIES = 512
_END_OF_CHAIN = 0xFFFF
_FOLDER, _FILE = 0x10, 0x20
_FIRST = 2
"""The number of the first cluster; the first two entries of the table are no clusters'."""

_MEDIA = 0xF8
_HEADER = "<3s8sHBHBHHBHHHLLBBBL11s8s"
_ENTRY = "<11sB8xHHHHL"
_EPOCH = 0x21
"""The first day that the file system knows."""


def boot_partition(program: bytes) -> bytes:
    """Return a FAT16 file system of 64 MB with the program where UEFI looks for it.

    Raises ValueError if it is too large.
    """
    clusters = -(-len(program) // _CLUSTER)
    first = _FIRST + 2
    if clusters > _CLUSTERS - 2:
        message = f"a program of {len(program)} bytes is too large for the boot partition"
        raise ValueError(message)
    chain = [_MEDIA | 0xFF00, _END_OF_CHAIN, _END_OF_CHAIN, _END_OF_CHAIN]
    chain += [*range(first + 1, first + clusters), _END_OF_CHAIN]
    table = struct.pack(f"<{len(chain)}H", *chain)
    table_bytes = -(-(_FIRST + _CLUSTERS) * 2 // _SECTOR) * _SECTOR
    efi, boot = _FIRST, _FIRST + 1
    content = [
        _header(table_bytes // _SECTOR),
        table.ljust(table_bytes, b"\0"),
        _entry(b"EFI", _FOLDER, efi).ljust(_ROOT_ENTRIES * 32, b"\0"),
        _folder(efi, 0, _entry(b"BOOT", _FOLDER, boot)),
        _folder(boot, efi, _entry(b"BOOTX64 EFI", _FILE, first, len(program))),
        program,
    ]
    return b"".join(content).ljust(_sectors(table_bytes // _SECTOR) * _SECTOR, b"\0")


def _header(table_sectors: int) -> bytes:
    sectors = _sectors(table_sectors)
    header = struct.pack(
        _HEADER, b"\xeb\x3c\x90", b"MSWIN4.1", _SECTOR, _CLUSTER // _SECTOR, 1, 1, _ROOT_ENTRIES, 0, _MEDIA,
        table_sectors, 63, 255, 0, sectors, 0x80, 0, 0x29, 1, b"CI-DAEMON  ", b"FAT16   ",
    )  # fmt: skip
    return header.ljust(_SECTOR - 2, b"\0") + b"\x55\xaa"


def _sectors(table_sectors: int) -> int:
    return 1 + table_sectors + _ROOT_ENTRIES * 32 // _SECTOR + _CLUSTERS * (_CLUSTER // _SECTOR)


def _folder(own: int, parent: int, entry: bytes) -> bytes:
    return b"".join([_entry(b".", _FOLDER, own), _entry(b"..", _FOLDER, parent), entry]).ljust(_CLUSTER, b"\0")


def _entry(name: bytes, kind: int, cluster: int, size: int = 0) -> bytes:
    return struct.pack(_ENTRY, name.ljust(11), kind, _EPOCH, 0, _EPOCH, cluster, size)
