"""Faults of the host: the daemon reports them, loses nothing, and goes on once they are repaired."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from os import statvfs
from pathlib import Path

import pytest

from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.e2e.sources import archive
from tests.waiting import until

_LINES = 40
_SLOW = f"for i in $(seq {_LINES}); do echo line $i; sleep 0.1; done"
_LOG = "".join(f"line {number}\n" for number in range(1, _LINES + 1))
_DISK_MB = 64
_BASE = {
    "CI_DAEMON_POOL_PARKED": "0",
    "CI_DAEMON_POOL_LOW_DISK_GB": "0",
    "CI_DAEMON_JOBS_MIN_FREE_DISK_GB": "0",
    "CI_DAEMON_JOBS_KILL_GRACE": "1",
}


_ROOT_MOUNTS = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk that the daemon sees")


class SmallDisk:
    """A small file system at a folder, mounted in a mount namespace of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        script = f'mount -t tmpfs -o size={_DISK_MB}m,mode=700 tmpfs "$1" && echo mounted && exec sleep infinity'
        argv = ["unshare", "--mount", "sh", "-c", script, "sh", str(folder)]
        self._holder = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"mounted\n"
        self.prefix = ("nsenter", f"--target={self._holder.pid}", "--mount", "--wd")
        self._inside = Path(f"/proc/{self._holder.pid}/root{folder}")

    def fill(self) -> None:
        """Fill it to the last byte."""
        filler = self._inside / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        assert statvfs(filler).f_bavail == 0

    def free(self) -> None:
        """Make room again."""
        (self._inside / "filler").unlink()

    def remount(self, how: str) -> None:
        """Mount it ``ro`` or ``rw``; no process may have a file on it open for writing."""
        subprocess.run([*self.prefix, "mount", "-o", f"remount,{how}", str(self.folder)], check=True)

    def move_elsewhere(self, name: str) -> None:
        """Replace a folder of it by a link to a folder on the disk below."""
        beside = self.folder.with_name("elsewhere")
        beside.mkdir()
        (self._inside / name).symlink_to(beside)

    def close(self) -> None:
        """Release it: the kernel unmounts it with the last process that uses it."""
        self._holder.kill()
        self._holder.communicate()


Serve = Callable[..., Daemon]


@pytest.fixture
def serve(images_dir: Path, tmp_path: Path) -> Iterator[Serve]:
    """Make daemons without starting them; their VMs are destroyed afterwards."""
    made: list[Daemon] = []

    def make(state: Path, prefix: tuple[str, ...] = ()) -> Daemon:
        made.append(Daemon(state, {**_BASE, "CI_DAEMON_IMAGES_DIR": str(images_dir)}, prefix))
        made[-1].command("init")
        return made[-1]

    yield make
    for daemon in made:
        daemon.kill()
        daemon.end_vms()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.close()


def started(daemon: Daemon) -> Pipeline:
    daemon.start()
    return Client.create(daemon, "ada@example.org").pipeline()


def passes_whole(build: Build) -> None:
    """Check that a build passes at its first attempt, with its whole log and one debit."""
    assert build.finish()["state"] == "passed"
    assert (build.jobs()["only"]["attempt"], build.log()) == (1, _LOG)
    entries = build.client.get(f"/api/v0/billing/transactions/{build.client.org}")["data"]
    assert [entry["source"] for entry in entries].count("vm_lease_debit") == 1


def refused_to_start(daemon: Daemon) -> str:
    """Return the only line that a daemon prints when it refuses to start."""
    done = daemon.command("serve", check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


@_ROOT_MOUNTS
def test_a_full_disk_holds_jobs_up_and_costs_them_nothing(disk: SmallDisk, serve: Serve):
    daemon = serve(disk.folder / "state", disk.prefix)
    pipeline = started(daemon)
    build = pipeline.build(one(_SLOW))
    build.says("line 3")
    disk.fill()
    until(lambda: " waits" in daemon.log, "word of the full disk in the daemon's log")
    assert build.client.request("GET", "/healthz").status_code == 200
    new = {"branch": "main", "commit": "0" * 40, "pipeline_ir": one("true")}
    for path, body in (
        ("pipelines", {"name": "x", "repository": "r", "default_branch": "m"}),
        (f"pipelines/{pipeline.slug}/builds", new),
        (f"pipelines/{pipeline.slug}/builds", {**new, "source_b64": base64.b64encode(archive({"x": ""})).decode()}),
    ):
        refused = build.client.request("POST", path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy"), refused.text
    disk.free()
    passes_whole(build)
    assert "Traceback" not in daemon.log


def test_the_daemon_raises_its_file_limit_and_refuses_a_low_one(serve: Serve, tmp_path: Path):
    daemon = serve(tmp_path / "state", ("prlimit", "--nofile=64:4096"))
    started(daemon)
    (limit,) = (line for line in daemon.limits if line.startswith("Max open files"))
    assert limit.split()[3:5] == ["4096", "4096"]
    few = serve(tmp_path / "few", ("prlimit", "--nofile=64:64"))
    assert "only 64 files may be open" in refused_to_start(few)


@_ROOT_MOUNTS
def test_a_read_only_disk_prevents_a_start_but_the_job_continues(disk: SmallDisk, serve: Serve):
    daemon = serve(disk.folder / "state", disk.prefix)
    disk.move_elsewhere("state/sandbox")  # a disk that a VM writes to cannot be made read-only
    build = started(daemon).build(one(_SLOW))
    build.says("line 3")
    daemon.kill()
    disk.remount("ro")
    assert "Read-only file system" in refused_to_start(daemon)
    disk.remount("rw")
    daemon.start()
    passes_whole(build)


@pytest.mark.parametrize("how", ["open to others", "torn", "gone"])
def test_a_missing_key_prevents_a_start_but_the_job_continues(serve: Serve, tmp_path: Path, how: str):
    daemon = serve(tmp_path / "state")
    build = started(daemon).build(one(_SLOW))
    build.says("line 3")
    daemon.kill()
    key, kept = daemon.state / "secret.key", tmp_path / "kept.key"
    key.rename(kept)
    if how != "gone":
        key.write_bytes(kept.read_bytes() if how == "open to others" else kept.read_bytes()[:-9])
        key.chmod(0o644 if how == "open to others" else 0o600)
    assert str(key) in refused_to_start(daemon)
    kept.rename(key)
    daemon.start()
    passes_whole(build)


def set_clock(shift: Path, seconds: int) -> None:
    """Replace the file of the clock's offset at once, because the daemon reads it all the time."""
    new = shift.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(shift)


def test_a_clock_set_ahead_or_back_costs_and_stops_nothing(serve: Serve, tmp_path: Path):
    daemon, shift = serve(tmp_path / "state"), tmp_path / "shift"
    set_clock(shift, 0)
    launch = {"program": "tests.e2e.clock_offset", "CLOCK_OFFSET_FILE": str(shift)}
    daemon.start(**launch)
    for name, seconds in (("ada", 3 * 86_400), ("bob", -3600)):
        pipeline = Client.create(daemon, f"{name}@example.org").pipeline()
        build = pipeline.build(one(_SLOW))
        build.says("line 3")
        set_clock(shift, seconds)
        passes_whole(build)
        balance = build.client.get(f"/api/v0/billing/balance/{build.client.org}")["balance_cents"]
        assert 99_990 < balance <= 100_000
    endless = pipeline.build(one("echo begun; sleep 600", timeout_seconds=8))
    endless.says("begun")
    daemon.kill()
    set_clock(shift, -7200)
    daemon.start(**launch)
    assert endless.finish()["state"] == "failed"
    assert endless.jobs()["only"]["error_code"] == "step_timeout"
