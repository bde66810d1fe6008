"""A program that cuts the power of a real service under load, and looks what is left each time.

`python -m tests.power.power_run FOLDER IMAGES CUTS SEED` runs in a mount namespace of its own, so that nothing else on
the machine holds the disk that is cut off.
"""

from __future__ import annotations

import os
import random
import sys
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

from storage import Build, JobState, Storage, SystemClock, check_database
from storage.files.kinds import DATABASE
from storage.files.log_index import LogKind, read_records, record_count
from tests.e2e.daemon import Client, Daemon
from tests.power.cut_disk import CutDisk
from tests.power.load import Load, Planned
from tests.power.witness import Witness
from tests.state import new_storage
from tests.waiting import until

_MEGABYTES = 16_000
_LIFE_SECONDS = (0.2, 4.0)
_SERVICE_RETRIES = 2
_END_SECONDS = 120.0
_SETTINGS = {
    "CI_DAEMON_POOL_PARKED": "2",
    "CI_DAEMON_POOL_MAX_VMS": "4",
    "CI_DAEMON_POOL_MAX_CPU": "100",
    "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
    "CI_DAEMON_JOBS_MIN_FREE_DISK_GB": "0.1",
}
_AS_HOST = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child=KILL",
    "--mount-proc",
    "sh",
    "-c",
    '"$@" & wait $!',
    "sh",
)
"""Run a program, and all that it leaves, in a process namespace; the shell is its init."""


class Host:
    """A service on a disk of its own, which loses its power with all of its VMs."""

    def __init__(self, folder: Path, images_dir: Path) -> None:
        self.disk = CutDisk(folder, _MEGABYTES)
        self._boot_id = folder / "boot-id"
        settings = {"CI_DAEMON_IMAGES_DIR": str(images_dir), "BOOT_ID": str(self._boot_id), **_SETTINGS}
        self.state = self.disk.mount / "state"
        self.daemon = Daemon(self.state, settings, _AS_HOST, log=folder / "daemon.log")
        new_storage(self.state, SystemClock()).close()
        os.sync()

    def boot(self) -> None:
        """Start the service in a boot of its own."""
        self._boot_id.write_text(f"{uuid4()}\n")
        self.daemon.start("tests.power.booted")

    def cut(self) -> None:
        """Cut the power, and plug the disk in again."""
        self.disk.cut()
        self.daemon.kill()
        self.disk.unplug()
        self.disk.plug_in()

    def close(self) -> None:
        """End all, and remove the disk."""
        self.daemon.kill()
        self.disk.close()


def run(folder: Path, images_dir: Path, cuts: int, seed: int) -> None:
    """Cut the power that many times, let all builds end, and cut it once more. Raises AssertionError."""
    rng, witness, host = random.Random(seed), Witness(), Host(folder, images_dir)
    try:
        host.boot()
        client = Client.create(host.daemon, "power@example.org")
        pipeline = client.pipeline()
        load = Load(client, pipeline, witness)
        for _ in range(cuts):
            load.start()
            time.sleep(rng.uniform(*_LIFE_SECONDS))
            host.cut()
            load.stop()
            _check_told(host, witness)
            host.boot()
        until(lambda: all(map(load.watch, witness.open_builds())), "the ends of all builds", _END_SECONDS)
        host.cut()
        _check_told(host, witness)
        _check_ends(host)
        assert not load.failures, load.failures
    except BaseException:
        sys.stdout.write(f"{host.daemon.log}\n")
        raise
    finally:
        sys.stdout.write(f"POWER_SEED={seed}: {cuts} cuts, told: {witness.summary()}\n")
        host.close()


def _check_told(host: Host, witness: Witness) -> None:
    """Check the database, and all that clients were told, before the service looks at it."""
    check_database(host.state / DATABASE)
    with closing(Storage.open(host.state, SystemClock())) as storage:
        contradictions = list(witness.contradictions(storage, 1))
        assert not contradictions, "\n".join(contradictions)


def _check_ends(host: Host) -> None:
    """Check that each build ended as it should, and that each attempt's log has its own lines alone."""
    with closing(Storage.open(host.state, SystemClock())) as storage:
        for build in storage.builds.page(1, 100_000, None).rows:
            failed = False
            for job in storage.jobs.of_build(build.id):
                attempts = storage.attempts.of_job(job.id)
                lost = sum(attempt.error_code is not None for attempt in attempts)
                behind = job.state is JobState.SKIPPED and failed
                assert job.state is JobState.PASSED or lost > _SERVICE_RETRIES or behind, (build, job, attempts)
                failed |= job.state is JobState.FAILED
                for attempt in attempts:
                    printed = _output(host, build, job.uuid, attempt.number)
                    whole = Planned.output(build.message or "", job.step_key, build.number, attempt.number)
                    assert whole.startswith(printed), (job.name, attempt, printed)
                    assert printed == whole or attempt.exit_code is None or attempt.error_code is not None


def _output(host: Host, build: Build, job: str, attempt: int) -> bytes:
    """Return what an attempt's command printed, as its log has it."""
    log = host.state / "logs" / build.uuid / job / f"{attempt}.log"
    if not log.exists():
        return b""
    content, printed, start = log.read_bytes(), b"", 0
    with log.with_suffix(".idx").open("rb") as index:
        for record in read_records(index.fileno(), 0, record_count(index.fileno())):
            printed += content[start : record.end] if record.kind is LogKind.OUTPUT else b""
            start = record.end
    return printed


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
