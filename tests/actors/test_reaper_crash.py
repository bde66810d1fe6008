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
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import pytest

from actors import Settings
from actors.reaper import reap
from actors.runtime import Configuration, Runtime
from actors.timer import Timer
from actors.vms import Images, ImageStore, SandboxProvider
from actors.vms.sandbox.userns import IdMap
from storage import LeaseState, NewBuild, NewPipeline, Storage, SystemClock
from tests.actors.conftest import until
from tests.storage.world import new_job

KILLS = 50
SEED = 7


class Later(SystemClock):
    """A clock that is two hours ahead, so that unfinished work counts as abandoned."""

    def now(self) -> datetime:
        return super().now() + timedelta(hours=2)


@dataclass(frozen=True)
class Nursery:
    """A state directory, and the program that starts processes over it."""

    runtime: Runtime
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
        until(lambda: self._settled() or None, "the end of what the dead process had started")

    def _settled(self) -> bool:
        """True if no program works on disks, and every living VM has its supervisor."""
        folder, provider = self.runtime.storage.directory / "sandbox", self.runtime.provider
        alive = {vm for vm in provider.list() if provider.alive(vm)}
        return not _working_in(folder / "trees") and alive <= _vms_of(folder.parent)

    @property
    def kinds(self) -> set[str]:
        """The kinds of resources of VMs on this host; control groups are not available everywhere."""
        provider = self.runtime.provider
        assert isinstance(provider, SandboxProvider)
        groups = {"groups"} if provider.limits.hierarchies else set()
        return {"folders", "disks", "processes", "snapshots", "trash"} | groups

    def left(self) -> dict[str, set[str]]:
        """Return the names of all resources on the host, by kind."""
        folder = self.runtime.storage.directory / "sandbox"
        provider = self.runtime.provider
        assert isinstance(provider, SandboxProvider)
        prefix = provider._group_name("")
        groups = [group for each in provider.limits.hierarchies for group in each.groups(prefix)]
        return {
            "folders": {path.name for path in (folder / "vms").iterdir()},
            "disks": {path.name for path in (folder / "trees" / "disks").iterdir()},
            "trash": {path.name for kind in (folder / "trees" / "trash").iterdir() for path in kind.iterdir()},
            "groups": {group.name.removeprefix(prefix) for group in groups},
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
def nursery(tmp_path: Path, images_dir: Path) -> Iterator[Nursery]:
    clock = Later()
    storage = Storage.create(tmp_path / "state", clock)
    idmap = IdMap.of_caller()
    images = Images(ImageStore(images_dir, idmap), "debian:12", {})
    provider = SandboxProvider(storage.directory / "sandbox", images, idmap, clock)
    runtime = Runtime(storage, provider, images, clock, Timer(clock), Configuration(Settings()))
    owner = storage.users.create("ann@example.org", "Ann")
    organization = storage.organizations.create("Acme", "", owner.id)
    pipeline = storage.pipelines.create(organization.id, NewPipeline("web", "Web", "r", "main"))
    storage.builds.create(pipeline, NewBuild("main", "c0ffee"), [new_job()])
    argv = [sys.executable, "-m", "tests.actors.nursery", str(storage.directory), str(images_dir)]
    cwd = Path(__file__).parents[2]
    with subprocess.Popen(argv, cwd=cwd, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Nursery(runtime, process)
        assert process.stdin
        process.stdin.close()
    for vm in provider.list():
        provider.destroy(vm)
    storage.close()


def test_a_kill_at_any_moment_leaves_nothing_that_no_row_names(nursery: Nursery):
    moments, storage = random.Random(SEED), nursery.runtime.storage
    seen = set()
    for number in range(KILLS):
        nursery.kill_after(moments.uniform(0.02, 0.5))
        seen |= {kind for kind, names in nursery.left().items() if names}
        reap(nursery.runtime)
        left = nursery.left()
        leases = {lease.uuid: lease.state for lease in storage.leases.live()}
        rows = {snapshot.name for snapshot in storage.snapshots.all()}

        assert set(leases.values()) <= {LeaseState.WARM}, number
        for kind in ("folders", "disks", "groups", "processes"):
            assert left[kind] == (set(leases) if kind in nursery.kinds else set()), (number, kind)
        assert left["snapshots"] == rows, number
        assert left["trash"] == set(), number
    assert seen >= nursery.kinds - {"trash"}
