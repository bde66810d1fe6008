"""A folder open to the VMs' root, for programs that open their files by path.

A note of its name lets a later process remove it if this one is killed.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.host.ids import run_mapped
from actors.vms.images.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.host.ids import IdMap

_PLACE = Path("/var/tmp")  # noqa: S108 - the state directory is closed to the VMs' ids
_MEMORY = Path("/dev/shm")  # noqa: S108 - as above
_NOTE = "scratch"


@contextmanager
def scratch(making: Path, idmap: IdMap, *, memory: int = 0) -> Iterator[Path]:
    """Yield such a folder; a file in ``making`` holds its name for as long as it may exist.

    If it takes at most ``memory`` bytes, and the host has four times these to spare, it is in memory.
    """
    place = _MEMORY if memory and _spare_memory() > 4 * memory else _PLACE
    folder = place / f"ci-daemon-image-{secrets.token_hex(8)}"
    (making / _NOTE).write_text(str(folder), encoding="ascii")
    folder.mkdir(mode=0o700)
    run_mapped(["chgrp", "0", folder.name], idmap=idmap.with_caller(), cwd=place)
    folder.chmod(0o710)
    try:
        yield folder
    finally:
        sweep_scratch(making, idmap)


def sweep_scratch(making: Path, idmap: IdMap) -> None:
    """Remove the scratch folder of ``making``, if any."""
    note = making / _NOTE
    try:
        folder = Path(note.read_text(encoding="ascii"))
    except FileNotFoundError:
        return
    if folder.parent in {_PLACE, _MEMORY}:  # otherwise the host crashed before the note was complete
        Tree(folder, idmap).remove()
    note.unlink()


def _spare_memory() -> int:
    """Return the bytes of memory that files may take; 0 if no programs may be run there."""
    try:
        place = os.statvfs(_MEMORY)
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    if place.f_flag & os.ST_NOEXEC:
        return 0
    available = next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)
    return min(place.f_bavail * place.f_frsize, available * 1024)
