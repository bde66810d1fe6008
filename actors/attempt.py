"""The blocking steps of one attempt of a job (engine.md, "A job attempt")."""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors import vms
from actors.artifacts import Harvest, Store, collect
from actors.assignment import spec_of
from actors.environment import job_environment
from actors.link import Abandoned, Link
from actors.outcome import DiskUse, Limit, limit_of, may_have_filled
from actors.workspace import lay_source
from storage import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.assignment import Assignment
    from actors.runtime import Runtime
    from storage import LogWriter, Snapshot

__all__ = ["Attempt", "Prepared"]

_logger = logging.getLogger(__name__)

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_ROOM_PAUSE = 1.0
_FLOOD_BYTES = 1 << 14
_FLOOD_PAUSE = 0.004
"""More blocks follow one of that size at once; the pause lets them be stored and announced together."""

_ACQUIRE_WAITS = (0.2, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A command that this or an earlier process started: its time limit, and whether it still runs."""

    limit: Limit
    runs: bool


class Attempt:
    """The blocking steps of one attempt, taken one after the other on worker threads.

    `abandon`, `kill` and `measure` may be called from other threads during a step. Another process can repeat every
    step: it finds the VM, the command and the log that exist already.
    """

    def __init__(self, runtime: Runtime, assignment: Assignment, on_output: Callable[[], None]) -> None:
        self._runtime = runtime
        self._assignment = assignment
        self._build, self._job, self._lease = assignment.build, assignment.job, assignment.lease
        self._on_output = on_output
        self._link = Link(runtime.provider, runtime.clock, assignment.lease.uuid)
        self._lock = threading.Lock()
        self._fresh = False
        self._looked: DiskUse | None = None
        self._log: LogWriter | None = None
        self._masker: Masker | None = None

    def acquire(self) -> None:
        """Make the VM, or find it, and connect.

        Raises ImageNotFound, SnapshotNotFound, VmError, VmLost and Abandoned.
        """
        if self._lease.started_at is not None:
            with self._mending_log():
                self._link.reconnect()
            return
        if self._runtime.provider.alive(self._lease.uuid):
            try:
                self._link.connect()
            except vms.VmError:  # half made by a process that died
                self._link.disconnect()
            else:
                return
        self._create()
        self._link.connect()

    def prepare(self) -> Prepared:
        """Lay the source into the VM and start the command, unless it was started before.

        Raises SecretNotFound and EnvironmentTooLarge before anything is written there, SourceError, SnapshotNotFound,
        VmError and VmLost.
        """
        with self._mending_log():
            connection = self._link.connected()
            state = vms.CommandState.NOT_STARTED if self._fresh else vms.inspect(connection)
        if state is vms.CommandState.NOT_STARTED:
            if self._lease.started_at is not None:
                message = "the VM no longer knows of its command"
                raise vms.NotStarted(message)
            return Prepared(self._start(connection), runs=True)
        return Prepared(self._limit(), runs=state is vms.CommandState.RUNNING)

    def _start(self, connection: vms.Connection) -> Limit:
        """Lay the source and start the command; return the command's time limit."""
        secrets = self._runtime.storage.secrets.lend(self._build, self._job)
        self._masker = Masker.hiding(secrets.values())
        image = self._lease.image
        env = job_environment(
            self._build,
            self._job,
            self._runtime.settings.base_url,
            of_jobs=self._runtime.settings.jobs.env,
            of_image={} if image is None else self._runtime.images.environment(image),
            of_build=self._runtime.storage.builds.env(self._build.id),
            secrets=secrets,
        )
        self._lay_source()
        self._link.check()
        self._notices()
        self._looked = DiskUse(written=0, free=self._free())
        limit, settings = self._limit(), self._runtime.settings.jobs
        spec = vms.CommandSpec(
            command=self._job.command,
            env=env,
            seconds=limit.seconds,
            grace=settings.kill_grace,
            output_limit=settings.log_limit_bytes + 1,
        )
        vms.start(connection, spec)
        return limit

    def _limit(self) -> Limit:
        """Return the command's time limit, counted from its recorded start, else from now."""
        build = self._runtime.storage.builds.get(self._build.id) or self._build
        step_seconds = self._job.timeout_seconds or self._runtime.settings.jobs.step_timeout
        return limit_of(step_seconds, build, self._lease.started_at or self._runtime.clock.now())

    def follow(self) -> vms.Exited:
        """Copy the command's output into the log until it has ended, over as many connections as needed.

        While the host's disk is full, the output waits in the VM.
        """
        with self._mending_log():
            while True:
                try:
                    return self._follow()
                except vms.ConnectionLost:
                    self._link.reconnect()
                except OSError as error:
                    self._wait_for_room(error)

    def _follow(self) -> vms.Exited:
        log = self._opened_log()
        following = vms.follow(self._link.connected(), log.guest_offset)
        for block in following:
            log.output(block)
            self._on_output()
            if len(block) >= _FLOOD_BYTES:
                self._link.pause(_FLOOD_PAUSE)
        assert following.exited is not None  # noqa: S101 - it was followed to its end
        self._end_log()
        return following.exited

    def _end_log(self) -> None:
        """Write the output that was held back for masking, and close the log: no more output will come."""
        if self._log is not None:
            self._log.end()
        self._close_log()

    @contextlib.contextmanager
    def _mending_log(self) -> Iterator[None]:
        """End the log if the VM is lost, because no successor continues it.

        If an earlier process started the command, its log is opened first.
        """
        try:
            yield
        except (vms.VmLost, vms.ConnectionLost):
            if self._lease.started_at is not None:
                self._opened_log()
            self._end_log()
            raise

    def _close_log(self) -> None:
        """Close the log; the next writer opens it again."""
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()

    def _wait_for_room(self, error: OSError) -> None:
        """Close a log that could not be written, and pause if the disk is full.

        Raises Abandoned, and ``error`` if it has another cause.
        """
        with contextlib.suppress(OSError):
            self._close_log()
        self._link.check()
        if error.errno not in _NO_ROOM:
            raise error
        _logger.warning("job %s waits for room for its log: %s", self._job.uuid, error)
        self._link.pause(_ROOM_PAUSE)

    def kill(self) -> None:
        """End the command: TERM to its group, a grace, KILL to all that is left. Return when it is dead."""
        vms.terminate(self._link.connected(), grace=self._runtime.settings.jobs.kill_grace)

    def measure(self) -> DiskUse:
        """Measure how much the VM has written and how much the host has left."""
        disk, free = self._runtime.provider.disk(self._lease.uuid), self._free()
        limit, min_free = self._lease.shape.disk_gb * 2**30, self._runtime.settings.jobs.min_free_bytes
        fills_host = self._runtime.host_disk.note(self._lease.uuid, disk, limit, free=free, min_free=min_free)
        self._looked = DiskUse(disk.bytes, free, fills_host)
        return self._looked

    def may_have_filled_disk(self) -> bool:
        """Tell whether the VM may have filled its disk since the last measurement. Cheap."""
        return may_have_filled(self._looked, self._free(), self._lease.shape)

    def collect(self) -> Harvest:
        """Collect the job's artifacts into files that have no rows yet. Raises VmError and Abandoned."""
        storage, settings = self._runtime.storage, self._runtime.settings.artifacts
        room = shutil.disk_usage(storage.directory).free - self._runtime.settings.jobs.min_free_bytes
        store = Store(storage.artifacts.files, self._build.uuid, max(0, min(room, settings.max_bytes)))
        harvest = collect(self._link.connected(), self._job.artifacts, store, settings, self._runtime.clock)
        if self._link.abandoned:
            storage.artifacts.files.remove(self._build.uuid, (file.uuid for file in harvest.files.values()))
            raise Abandoned
        return harvest

    def snapshot(self) -> None:
        """Snapshot the disk under the lease's id, for jobs that start from it. This ends the VM.

        The snapshot's row is written first, so that every snapshot in the provider's store has one.
        """
        self._link.disconnect()
        name, provider = self._lease.uuid, self._runtime.provider
        self._runtime.storage.snapshots.add(name, self._job.id, provider.name, base=self._base())
        provider.snapshot(name, name)
        self._runtime.host_disk.forget(name, kept=True)

    def release(self) -> None:
        """Destroy the VM; return when it is gone."""
        self._link.disconnect()
        try:
            self._runtime.provider.destroy(self._lease.uuid)
        finally:
            self._runtime.host_disk.forget(self._lease.uuid)

    def notice(self, text: str) -> None:
        """Write a notice of the service into the log."""
        while True:
            try:
                self._opened_log().notice(text)
            except OSError as error:
                self._wait_for_room(error)
            else:
                break
        self._on_output()

    def masked(self, text: str) -> str:
        """Mask the job's secrets in a text, if this process gave them to the command or masked its output."""
        return text if self._masker is None else self._masker.masked(text)

    def abandon(self) -> None:
        """Make the step under way raise soon; the VM and its command run on. Idempotent."""
        self._link.abandon()
        self._close_log()

    def _create(self) -> None:
        """Make the VM; retry with pauses until the acquire time-out is over."""
        provider, clock = self._runtime.provider, self._runtime.clock
        spec = spec_of(self._lease, self._base())
        deadline = clock.monotonic() + self._runtime.settings.jobs.acquire_timeout
        waits = iter(_ACQUIRE_WAITS)
        while True:
            provider.destroy(self._lease.uuid)
            try:
                with self._runtime.observations.making():
                    provider.create(spec)
            except (vms.ImageNotFound, vms.SnapshotNotFound):
                raise
            except vms.VmError:
                wait = next(waits, None)
                if wait is None or clock.monotonic() + wait > deadline:
                    raise
                self._link.pause(wait)
            else:
                self._fresh = True
                return

    def _free(self) -> int:
        return shutil.disk_usage(self._runtime.storage.directory).free

    def _parent_disk(self) -> Snapshot | None:
        """Return the snapshot to start from, None for the image. Raises SnapshotNotFound."""
        parent = self._assignment.parent
        if parent is None:
            return None
        snapshot = self._runtime.storage.snapshots.of_job(parent.id)
        if snapshot is None:
            message = f'the step "{parent.name}" left no disk to build in'
            raise vms.SnapshotNotFound(message)
        return snapshot

    def _base(self) -> str | None:
        """Return the name of the snapshot to start from, None for the image. Raises SnapshotNotFound."""
        disk = self._parent_disk()
        return None if disk is None else disk.name

    def _lay_source(self) -> None:
        lay_source(self._runtime, self._build, self._lease, self._parent_disk(), self._link)

    def _notices(self) -> None:
        """Note a later attempt, or a substitute image, in the log before the first line of output.

        All notices are written at once, so that a log that is not empty after a crash has all of them.
        """
        wanted, used = self._job.image, self._lease.image
        lines: list[str] = []
        if self._job.attempt > 1:
            lines.append(f"attempt {self._job.attempt}")
        if self._assignment.parent is None and wanted and used and self._stands_in_first(wanted, used):
            lines.append(f'the image "{wanted}" is not on this host: "{used}" stands in for it in this build')
        if lines and not self._opened_log().size:
            self.notice("\n".join(lines))

    def _stands_in_first(self, wanted: str, used: str) -> bool:
        """Tell whether a substitute is used for the job's image, and no earlier attempt has said so."""
        if not self._runtime.images.stands_in(wanted, used):
            return False
        return self._runtime.storage.attempts.is_first_of_image(self._job.id, self._job.attempt)

    def _opened_log(self) -> LogWriter:
        with self._lock:
            if self._log is None:
                self._link.check()
                storage = self._runtime.storage
                if self._masker is None:
                    self._masker = Masker.hiding(storage.secrets.lent(self._job).values())
                self._log = storage.logs.writer(self._build.uuid, self._job.uuid, self._job.attempt, self._masker)
            return self._log
