"""A program that starts processes to make, freeze and destroy VMs, for a test to kill at any moment.

Its arguments are a state directory and an image store. For each line on standard input it forks a process that
continues with the state of the last one, and prints its id; when that process has been killed, it prints ``killed``.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from actors.vms import ImageStore, SandboxProvider, VmError, VmSpec
from actors.vms.host import IdMap
from storage import Shape, Storage, SystemClock

SMALL = Shape(cpu=1, memory_gb=1, disk_gb=1)
IMAGE = "debian:12"


def churn(state: Path, images: Path) -> NoReturn:
    """Make VM after VM, each on the disk of the last one, and keep the newest disks.

    A row is added before its resource is made, and removed or ended after the resource is gone.
    """
    clock = SystemClock()
    storage = Storage.open(state, clock)
    idmap = IdMap.of_caller()
    # Every second snapshot is merged.
    provider = SandboxProvider(state / "sandbox", ImageStore(images, idmap), idmap, clock, max_layers=2)
    kept = [snapshot.name for snapshot in storage.snapshots.all() if snapshot.name in set(provider.snapshots())]
    (build,) = storage.builds.unfinished()
    (job,) = storage.jobs.of_build(build.id)
    while True:
        lease = storage.leases.reserve_unclaimed(str(uuid4()), provider="sandbox", image=IMAGE, shape=SMALL)
        provider.create(VmSpec(lease.uuid, IMAGE, kept[-1] if kept else None, SMALL, network=False))
        storage.leases.parked(lease.id)
        storage.snapshots.add(lease.uuid, job.id, "sandbox")
        provider.snapshot(lease.uuid, lease.uuid)
        provider.destroy(lease.uuid)
        storage.leases.end(lease.id)
        kept.append(lease.uuid)
        if len(kept) > 3:
            with suppress(VmError):
                provider.remove_snapshot(kept[0])
                storage.snapshots.remove(kept.pop(0))


def say(line: str) -> None:
    """Print a line for the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Fork one process after the other."""
    state, images = map(Path, sys.argv[1:])
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            churn(state, images)
        say(str(pid))
        os.waitpid(pid, 0)
        say("killed")


if __name__ == "__main__":
    main()
