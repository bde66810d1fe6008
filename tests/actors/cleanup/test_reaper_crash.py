"""A process dies while it makes, freezes, merges or destroys VMs: one round leaves what has a row."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from actors import JobSettings, PoolSettings
from actors.cleanup.reaper import Reaper
from actors.parts import VmParts
from actors.settings import LiveSettings
from actors.vms import Images, ImageStore, SandboxProvider
from actors.vms.host import IdMap
from storage import LeaseState, NewBuild, Storage
from tests.actors.conftest import settings_with
from tests.clock import LaterClock
from tests.memory.provider import only
from tests.processes import ended
from tests.records import new_job, new_pipeline
from tests.state import new_storage
from tests.waiting import until

KILLS = 50
MOST_KILLS = 5 * KILLS
SEED = 7


@dataclass(frozen=True)
class VmChurn:
    """A state directory, and the program that starts processes over it."""

    storage: Storage
    provider: SandboxProvider
    reaper: Reaper
    process: subprocess.Popen[str]

    def kill_after(self, seconds: float) -> None:
        """Let a process run for a time, kill it, and wait until nothing that it started is at work."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin
        assert stdout
        print(file=stdin, flush=True)
        pid = int(stdout.readline())
        threading.Event().wait(seconds)
        os.kill(pid, signal.SIGKILL)
        assert stdout.readline() == "killed\n"
        until(self._is_idle, "the end of what the dead process had started")

    def _is_idle(self) -> bool:
        """True if no program works on disks, and every living VM has its supervisor."""
        folder, provider = self.storage.directory / "sandbox", self.provider
        alive = {vm for vm in provider.list() if provider.alive(vm)}
        return not _working_in(folder / "trees") and alive <= _vms_of(folder.parent)

    @property
    def kinds(self) -> set[str]:
        """The kinds of resources of VMs on this host; control groups are not available everywhere."""
        groups = {"groups"} if self.provider.limits.hierarchies else set()
        return {"folders", "disks", "processes", "snapshots", "trash"} | groups

    def left(self) -> dict[str, set[str]]:
        """Return the names of all resources on the host, by kind."""
        folder = self.storage.directory / "sandbox"
        prefix = self.provider.group_name("")
        groups = [group for each in self.provider.limits.hierarchies for group in each.groups(prefix)]
        return {
            "folders": {path.name for path in (folder / "vms").iterdir()},
            "disks": {path.name for path in (folder / "trees" / "disks").iterdir()},
            "trash": {path.name for kind in (folder / "trees" / "trash").iterdir() for path in kind.iterdir()},
            "groups": {group.name.removeprefix(prefix).removesuffix("@service") for group in groups},
            "processes": _vms_of(folder.parent),
            "snapshots": {path.name for path in (folder / "trees" / "snapshots").iterdir()},
        }


def _working_in(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = (process / "cwd").readlink()
        except OSError:
            continue
        if where.is_relative_to(folder):
            found.append(int(process.name))
    return found


def _vms_of(directory: Path) -> set[str]:
    """Return the VMs with a row and a living supervisor, known by its title, which every user may read."""
    with apsw.Connection(str(directory / "ci-daemon.sqlite3"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        known = {uuid for (uuid,) in database.execute("SELECT uuid FROM leases")}
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            title = (process / "cmdline").read_bytes().partition(b"\0")[0]
            found.add(title.decode(errors="replace").removeprefix("ci-daemon VM "))
    return known & found


@pytest.fixture
def churn(tmp_path: Path, images_dir: Path) -> Iterator[VmChurn]:
    clock = LaterClock()
    storage = new_storage(tmp_path / "state", clock)
    idmap = IdMap.of_caller()
    images = Images(ImageStore(images_dir, idmap), "debian:12", {})
    provider = SandboxProvider(storage.directory / "sandbox", images, idmap, clock)
    reaper = Reaper(
        VmParts(
            storage=storage,
            providers=only(provider),
            images=images,
            clock=clock,
            live_settings=LiveSettings(settings_with(PoolSettings(), JobSettings())),
        )
    )
    storage.builds.create(new_pipeline(storage), NewBuild("main", "c0ffee"), [new_job()])
    argv = [sys.executable, "-m", "tests.actors.cleanup.vm_churn", str(storage.directory), str(images_dir)]
    cwd = Path(__file__).parents[3]
    with ended(subprocess.Popen(argv, cwd=cwd, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as process:
        yield VmChurn(storage, provider, reaper, process)
        assert process.stdin
        process.stdin.close()
    for vm in provider.list():
        provider.destroy(vm)
    storage.close()


@pytest.mark.timeout(900)
def test_a_kill_at_any_moment_leaves_nothing_that_no_row_names(churn: VmChurn):
    """Kill at least `KILLS` times, and until a kill has left each kind of resource behind.

    The processes live longer in each further series of kills: on a busy host they make little in a short time.
    """
    moments, storage = random.Random(SEED), churn.storage
    unseen = churn.kinds - {"trash"}
    for number in range(MOST_KILLS):
        if number >= KILLS and not unseen:
            break
        churn.kill_after(moments.uniform(0.02, 0.5 * (1 + number // KILLS)))
        unseen -= {kind for kind, names in churn.left().items() if names}
        churn.reaper.reap()
        left = churn.left()
        leases = {lease.uuid: lease.state for lease in storage.leases.live()}
        rows = {snapshot.name for snapshot in storage.snapshots.all()}

        assert set(leases.values()) <= {LeaseState.PARKED}, number
        for kind in ("folders", "disks", "groups", "processes"):
            assert left[kind] == (set(leases) if kind in churn.kinds else set()), (number, kind)
        assert left["snapshots"] == rows, number
        assert left["trash"] == set(), number
    assert not unseen
