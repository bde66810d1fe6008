"""The size of an engine's members, as last known, in a file: caps need no answer of the engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from actors.vms.description import HostSize

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from actors.vms.incus.member import Member

_FILE = "size"
_MB = 1024


def known_size(folder: Path) -> HostSize:
    """Return the size of the members that take VMs; that of this host until it is known."""
    try:
        return HostSize(*json.loads((folder / _FILE).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return HostSize.here()


def note_size(folder: Path, size: HostSize) -> None:
    """Note a size for this process and others."""
    written = folder / f"{_FILE}.new"
    written.write_text(json.dumps([size.cpus, size.memory_gb]), encoding="utf-8")
    written.rename(folder / _FILE)


def size_of(members: Iterable[Member]) -> HostSize | None:
    """Return the size of those members that take VMs, all together; None if that of none is known."""
    sized = [each for each in members if each.takes_vms and each.cpus and each.memory_mb]
    if not sized:
        return None
    return HostSize(sum(each.cpus or 0 for each in sized), sum(each.memory_mb or 0 for each in sized) // _MB)
