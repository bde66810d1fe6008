"""A folder open to the VMs' root, for programs that open their files by path.

A note of its name lets a later process remove it if this one is killed.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.images.tree import Tree
from actors.vms.sandbox.userns import run_mapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.sandbox.userns import IdMap

_PLACE = Path("/var/tmp")  # noqa: S108 - the state directory is closed to the VMs' ids
_NOTE = "scratch"


@contextmanager
def scratch(making: Path, idmap: IdMap) -> Iterator[Path]:
    """Yield such a folder; a file in ``making`` holds its name for as long as it may exist."""
    folder = _PLACE / f"ci-daemon-image-{secrets.token_hex(8)}"
    (making / _NOTE).write_text(str(folder), encoding="ascii")
    folder.mkdir(mode=0o700)
    run_mapped(["chgrp", "0", folder.name], idmap=idmap.with_caller(), cwd=_PLACE)
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
    if folder.parent == _PLACE:  # otherwise the host crashed before the note was complete
        Tree(folder, idmap).remove()
    note.unlink()
