"""The space that a VM's unlinked files take while they are open or mapped."""

from __future__ import annotations

import marshal
import subprocess
from typing import TYPE_CHECKING

from actors.vms.provider import VmDisk
from actors.vms.sandbox.programs import ENVIRONMENT, launcher_argv

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["unlinked"]


def unlinked(process: int, place: Path) -> VmDisk:
    """Return the space of unlinked files that ``process`` and its descendants hold.

    Counts files on the disk that ``process`` sees at ``place``. Zero if the process has ended.
    """
    done = subprocess.run(
        launcher_argv("unlinked"),
        cwd="/",
        env=ENVIRONMENT,
        input=marshal.dumps({"process": process, "place": str(place)}),
        capture_output=True,
        check=False,
    )
    return VmDisk(*map(int, done.stdout.split())) if done.returncode == 0 else VmDisk(0)
