"""The room that a VM's files without a name take for as long as they are open."""

from __future__ import annotations

import marshal
import subprocess
from typing import TYPE_CHECKING

from actors.vms.sandbox.program import ENVIRONMENT, command

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["unlinked_bytes"]


def unlinked_bytes(process: int, place: Path) -> int:
    """Return the bytes of such files on the disk that ``process`` sees at ``place``, held by it and what it started.

    What is only mapped, or on its way between two processes, is not found. 0 where the process has ended.
    """
    done = subprocess.run(
        command("unlinked"),
        cwd="/",
        env=ENVIRONMENT,
        input=marshal.dumps({"process": process, "place": str(place)}),
        capture_output=True,
        check=False,
    )
    return int(done.stdout) if done.returncode == 0 else 0
