"""The room that a VM's files without a name take for as long as they are open or mapped."""

from __future__ import annotations

import marshal
import subprocess
from typing import TYPE_CHECKING

from actors.vms.provider import VmDisk
from actors.vms.sandbox.program import ENVIRONMENT, command

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["unlinked"]


def unlinked(process: int, place: Path) -> VmDisk:
    """Return what such files take of the disk that ``process`` sees at ``place``, held by it and what it started.

    Nothing where the process has ended.
    """
    done = subprocess.run(
        command("unlinked"),
        cwd="/",
        env=ENVIRONMENT,
        input=marshal.dumps({"process": process, "place": str(place)}),
        capture_output=True,
        check=False,
    )
    return VmDisk(*map(int, done.stdout.split())) if done.returncode == 0 else VmDisk(0)
