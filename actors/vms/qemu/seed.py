"""The seed of a machine: a small disk from which its PID 1 learns who may enter, and later of its job."""

from __future__ import annotations

import marshal
import resource
from typing import TYPE_CHECKING

from actors.vms.host.network import RESOLVER
from actors.vms.launcher.words import SEED_PART_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.host.vm_folder import KeyPair
    from actors.vms.provider import VmSpec

_GB = 1 << 30
_OPEN_FILES = 65_536
_JOB_LIMITS = ((resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),)


class Seed:
    """The file of a seed. Its first part is read at boot, its second one when the job's disk has come."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "seed"

    def make(self, host: KeyPair, caller: KeyPair, processes: int) -> None:
        """Write the machine's own key, the key that may enter, and the most processes."""
        self.path.touch(mode=0o600, exist_ok=False)
        entry = {"host_key": host.private, "authorized_key": caller.public, "processes": processes}
        self.path.write_bytes(marshal.dumps(entry).ljust(2 * SEED_PART_BYTES, b"\0"))

    def add_job(self, spec: VmSpec, now: float) -> None:
        """Write what a job brings, and the time."""
        job = {
            "cpu": spec.shape.cpu,
            "limits": list(_JOB_LIMITS),
            "memory_bytes": spec.shape.memory_gb * _GB,
            "network": spec.network,
            "resolver": RESOLVER if spec.network else None,
            "time": now,
        }
        with self.path.open("r+b") as file:
            file.seek(SEED_PART_BYTES)
            file.write(marshal.dumps(job))
