"""The phases of one attempt of a job (engine.md, "A job attempt")."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from actors import vms
from actors.builds.attempt import told
from actors.builds.attempt.artifacts import ArtifactStore, Collection
from actors.builds.attempt.assignment import parent_disk, spec_of
from actors.builds.attempt.environment import builds_images, job_environment
from actors.builds.attempt.generating import generated_file
from actors.builds.attempt.kept_folders import JobFolders
from actors.builds.attempt.log import NO_ROOM, AttemptLog, LogNotKept, opening_notices, problems_of_logs
from actors.builds.attempt.services import JobServices
from actors.builds.attempt.shared_workspaces import SharedWorkspace
from actors.builds.attempt.vm import VmConnection, VmMaker
from actors.builds.attempt.workspace import lay_taken_files, populate_workspace
from actors.builds.gates import seconds_run
from actors.builds.outcome import DiskUse, TimeLimit, may_have_filled, time_limit
from storage import Annotation, ImageDigests, JobOutputs, JobSummary, Masker, error_reason, immutable, why_no_files
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from actors.builds.attempt.artifacts import Collected
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.disk_cache import CacheNames
    from actors.parts import VmParts
    from actors.settings import EngineSettings
    from storage import Job

_log = logging.getLogger(__name__)

_GB = 2**30
_OF_PROBLEMS = Bounds(cpu_seconds=20, memory_bytes=512 << 20, seconds=60)
_FLOOD_BYTES = 1 << 14
_HOST_PAUSE = 1.0
_FLOOD_PAUSE = 0.001
"""After a burst of this size more follows soon; the pause lets it be stored and announced together."""


@immutable
class Prepared:
    """A command that this or an earlier process started: its time limit, and whether it still runs."""

    limit: TimeLimit
    runs: bool
    digests: ImageDigests


class AttemptRunner:
    """The phases of one attempt, which block, one after the other on worker threads.

    `abandon`, `kill` and `measure` may be called from other threads during a phase. Another process can repeat every
    phase: it finds the VM, the command and the log that exist already.
    """

    def __init__(self, parts: VmParts, assignment: Assignment, *, settings: EngineSettings, names: CacheNames) -> None:
        self._assignment = assignment
        self._storage = parts.storage
        self._provider = parts.providers.of(assignment.lease)
        self._images = parts.images
        self._names = names
        self._clock = parts.clock
        self._settings = settings
        self._host_disk = parts.host_disk
        self._cpu_shares = parts.cpu_shares
        self._build, self._job, self._lease = assignment.build, assignment.job, assignment.lease
        self._seconds_unwatched = parts.timer.seconds_unwatched
        self._parked = parts.connections
        self._connection = VmConnection(self._provider, parts.clock, self._lease.uuid)
        self._maker = VmMaker(
            self._provider,
            self._connection,
            parts.clock,
            parts.metrics.making,
            seconds=settings.jobs.acquire_timeout,
            pauses=parts.timings.acquire,
            hindrance=self._hindrance,
        )
        self.log = AttemptLog(
            self._storage,
            self._build,
            self._job,
            self._connection,
            partial(parts.watchers.notify, self._job.uuid),
            clock=parts.clock,
            patience=settings.jobs.log_wait_seconds,
        )
        self._services = JobServices(
            self._storage,
            self._images,
            self._build,
            self._job,
            self._connection,
            self.log,
            partial(parts.watchers.notify, self._job.uuid),
        )
        self._folders = JobFolders(
            self._storage,
            self._build,
            self._job,
            settings.cache,
            timeout=settings.artifacts.timeout,
            free=lambda: self._free() - settings.jobs.min_free_bytes,
        )
        self._workspace = SharedWorkspace(
            self._storage,
            self._build,
            self._job,
            timeout=settings.jobs.source_timeout,
            free=lambda: self._free() - settings.jobs.min_free_bytes,
        )
        self._fresh = False
        self._last_use: DiskUse | None = None
        self._output: vms.CommandOutput | None = None

    @property
    def member(self) -> str | None:
        """The member of a cluster that the VM is on, None if all VMs are on one host."""
        return self._provider.member(self._lease.uuid)

    def acquire(self) -> None:
        """Make the VM, or find it, and connect.

        Raises ImageNotFound, SnapshotNotFound, VmError, VmLost and Abandoned.
        """
        self._cpu_shares.join(self._build.organization_id, self._lease.uuid, self._provider)
        if self._lease.started_at is not None:
            with self._ending_lost_log():
                self._connection.reconnect()
            return
        if self._connection.patiently(lambda: self._provider.alive(self._lease.uuid)):
            try:
                self._connection.patiently(self._connection.connect)
            except vms.VmError:  # half made by a process that died
                self._connection.disconnect()
            else:
                return
        if (connection := self._parked.take(self._lease.uuid)) is not None:
            self._connection.use(connection)
        services = self._services.images(int(self._settings.pool.low_disk_gb * _GB))
        self._maker.make(spec_of(self._lease, self._base(), services, containers=builds_images(self._job)))
        self._fresh = True
        self._connection.connected()

    def prepare(self) -> Prepared:
        """Populate the workspace and start the command, unless it was started before.

        While the host has no room for its files, the job waits for as long as it takes. Raises SecretNotFound,
        SecretNotAllowed, SecretUnavailable and EnvironmentTooLarge before anything is written there, SourceError,
        SnapshotNotFound, ServiceFailed, VmError and VmLost.
        """
        while True:
            try:
                return self._prepare()
            except (OSError, LogNotKept) as error:
                if isinstance(error, OSError) and error.errno not in NO_ROOM:
                    raise
                _log.warning("job %s waits, as the host cannot keep its files: %s", self._job.uuid, error)
                self.log.close()
                self._connection.pause(_HOST_PAUSE)

    def _prepare(self) -> Prepared:
        with self._ending_lost_log():
            connection = self._connection.patiently(self._connection.connected)
            state = vms.CommandState.NOT_STARTED if self._fresh else vms.inspect(connection)
        if state is vms.CommandState.NOT_STARTED:
            if self._lease.started_at is not None:
                message = "the VM no longer knows of its command"
                raise vms.CommandNotStarted(message)
            return Prepared(self._start(connection), runs=True, digests=self._digests())
        runs = state is vms.CommandState.RUNNING
        return Prepared(self._limit(), runs=runs, digests=self._digests())

    def _digests(self) -> ImageDigests:
        """Return the digests of the images; none is replaced while a VM is on it."""
        image = self._lease.image
        return ImageDigests(None if image is None else self._images.digest(image), self._services.digests())

    def _start(self, connection: vms.Connection) -> TimeLimit:
        """Populate the workspace and start the command; return the command's time limit."""
        hidden = self._storage.job_secrets.resolve(self._build, self._job, self._own_secrets)
        secrets, lay_logins = self._logins(hidden)
        image = self._lease.image
        of_jobs = self._settings.jobs.env
        of_needed, disputed = told.variables_of(self._storage.told.outputs_given_to(self._job.id))
        env = job_environment(
            self._build,
            self._job,
            self._settings.pages.page_of(self._build),
            of_jobs=of_jobs,
            of_image={} if image is None else self._images.environment(image),
            of_needed=of_needed,
            of_build=self._storage.builds.env(self._build.id),
            secrets=secrets,
        )
        self.log.hide(hidden.values())  # at most as many as an environment takes
        laid = [*disputed, *self._populate_workspace(connection)]
        self._connection.check()
        self._open_log(laid)
        for name in sorted(name for name, value in hidden.items() if not Masker.can_hide(value)):
            self.log.notice(f"the secret {name} is too short to be masked: set a longer one")
        self._services.start(connection, secrets)
        lay_logins(connection)
        self._last_use = DiskUse(written=0, free=self._free())
        limit, settings, share = self._limit(), self._settings.jobs, self.log.share_of_output
        end = share.tail + share.margin
        spec = vms.CommandSpec(
            command=self._job.command,
            program=() if self._job.command else self._program(),
            strict=self._build.strict_shell,
            env=env,
            seconds=limit.seconds,
            grace=settings.kill_grace,
            output_limit=share.head + end,
            output_tail=end,
            output_patience=settings.log_wait_seconds,
        )
        self._name_disk(of_jobs)
        if self._assignment.workspace_takers:
            self._workspace.discard()
        self._storage.told.discard(self._job.id)
        self._output = vms.start(connection, spec)
        return limit

    def _program(self) -> tuple[str, ...]:
        """Return the image's own program, for a job without a command. Raises ImageNotFound."""
        image = self._lease.image or ""
        program = self._images.program(image)
        argv = (*program.entry_point, *program.command)
        if not argv:
            message = f'the image "{image}" has no program of its own: give the step a command'
            raise vms.ImageNotFound(message)
        return argv

    def _logins(self, secrets: Mapping[str, str]) -> tuple[Mapping[str, str], Callable[[vms.Connection], None]]:
        """Return those secrets that are variables, and what lays the others, the logins, into the VM."""
        if not self._job.registries:
            return secrets, lambda _connection: None
        from actors.builds.attempt import registry_logins  # noqa: PLC0415 - as below

        return registry_logins.variables_in(secrets), partial(registry_logins.lay_logins, secrets=secrets)

    def _own_secrets(self, sources: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return the identity token of the attempt by its variable, its logins and fetched secrets.

        Raises SecretUnavailable and RegistryLoginMissing.
        """
        found: dict[str, str] = {}
        if self._job.registries:
            from actors.builds.attempt import registry_logins  # noqa: PLC0415 - few jobs have logins

            accounts = self._storage.registry_logins.for_build(self._build, self._job.registries)
            found = registry_logins.as_secrets(accounts)
        if self._job.identity_audience is None and not sources:
            return found
        from actors.builds.attempt import identity  # noqa: PLC0415 - few jobs have one

        if identity.is_identified(self._build, self._job):
            found[identity.TOKEN_VARIABLE] = self._token(self._job)
        if not sources:
            return found
        from actors.builds.attempt.secret_sources import SecretSources  # noqa: PLC0415 - few jobs have such secrets

        elsewhere = SecretSources(self._settings.jobs.allowed_secret_networks)
        for name, source in sources.items():
            self._connection.check()
            token = self._token(replace(self._job, identity_audience=source["audience"]))
            found[name] = elsewhere.fetch(name, source, token)
        return found

    def _token(self, job: Job) -> str:
        """Return an identity token for the audience of a job."""
        from actors.builds.attempt import identity  # noqa: PLC0415 - few jobs have one

        build = self._build
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        seconds = job.timeout_seconds or self._settings.jobs.step_timeout
        terms = identity.TokenTerms(self._settings.base_url, str(uuid4()), self._clock.now(), seconds)
        repository = "" if pipeline is None else pipeline.repository
        claims = identity.claims_of(build, job, terms, repository=repository, runner=self._lease.provider)
        return self._storage.issuer_keys.signed(claims)

    def _name_disk(self, of_jobs: Mapping[str, str]) -> None:
        """Note the name of the disk that the command will leave to the cache or another job."""
        build, job, lease = self._build, self._job, self._lease
        if job.cache_key is None and not self._assignment.disk_children:
            return
        name = self._names.of(build, job, provider=lease.provider, image=lease.image or "", of_jobs=of_jobs)
        if name is not None:
            self._storage.attempts.name_disk(job.id, name)

    def _limit(self) -> TimeLimit:
        """Return the command's time limit, counted from its recorded start, else from now."""
        build = self._storage.builds.get(self._build.id) or self._build
        step_seconds = self._job.timeout_seconds or self._settings.jobs.step_timeout
        return time_limit(step_seconds, build, seconds_run(self._storage, build, self._lease.started_at))

    def follow(self) -> vms.Exited:
        """Copy the command's output into the log until it has ended, over as many connections as needed.

        While the host's disk is full, the output waits in the VM. Raises LogNotKept if that lasts too long.
        """
        self._storage.let_go()
        with self._ending_lost_log():
            while True:
                try:
                    self._services.follow(self._connection.connected())
                    exited = self._at_its_time(self._follow())
                    exited = replace(exited, failed_service=self._services.failure() or "")
                    self._keep_told(exited.told)
                    return exited
                except vms.ConnectionLost:
                    self._connection.reconnect()
                except OSError as error:
                    self.log.wait_for_room(error)

    def _keep_told(self, names: Container[str]) -> None:
        """Store what the command has told by these files. Raises VmLost and Abandoned."""
        job, build, masker, stored = self._job.id, self._build.id, self.log.masker, self._storage.told
        if told.OUTPUTS in names:
            file = self._told(told.OUTPUTS, told.MAX_BYTES)
            outputs = told.written_outputs(file.content, file.size, masker)
            stored.store_outputs(JobOutputs(job, build, outputs.variables, outputs.error))
            self.log.notice(outputs.error or f"outputs: {', '.join(outputs.variables) or 'none'}")
        if told.SUMMARY in names:
            file = self._told(told.SUMMARY, told.MAX_BYTES)
            text, is_cut = told.written_summary(file.content, file.size, masker)
            stored.store_summary(JobSummary(job, build, text, is_cut))
            if is_cut:
                self.log.notice(f"the summary has {file.size:,} bytes, of which the first {told.MAX_BYTES:,} are kept")
        said: tuple[Annotation, ...] = ()
        if told.ANNOTATIONS in names:
            file = self._told(told.ANNOTATIONS, told.MAX_ANNOTATION_BYTES)
            written = told.written_annotations(file.content, file.size, masker)
            said = written.annotations
            if written.fault:
                self.log.notice(written.fault)
        found, more = self._problems()
        if said or found:
            stored.store_annotations(job, build, told.bounded((*said, *found), more))

    def _problems(self) -> tuple[tuple[Annotation, ...], int]:
        """Return the first problems that the log names, and the number of the others.

        Another process searches the log, which is masked already.
        """
        if not self._job.problems:
            return (), 0
        logs = self._storage.logs.reader(self._build.uuid, self._job.uuid).files
        try:
            rows, more = self._storage.confinement.run(
                problems_of_logs,
                list(map(str, logs)),
                list(self._job.problems),
                bounds=_OF_PROBLEMS,
                owner=self._build.organization_slug,
            )
        except WorkFailed as error:
            self.log.notice(f"the log is not searched for problems: {error}")
            return (), 0
        return tuple(map(told.of_problem, rows)), more

    def _told(self, name: str, most_bytes: int) -> vms.Told:
        """Return what the command has told by a file, over as many connections as needed."""
        while True:
            try:
                return vms.told(self._connection.connected(), name, most_bytes)
            except vms.ConnectionLost:
                self._connection.reconnect()

    def _follow(self) -> vms.Exited:
        log = self.log.opened()
        output, self._output = self._output, None
        following = output or vms.follow(self._connection.connected(), log.output_offset)
        pieces: list[memoryview] = []
        left_out, paused = 0, False
        for piece in following:
            pieces.append(piece)
            if not following.at_hand or (left_out, paused) != (following.left_out, following.paused):
                log.output(*pieces)
                if following.left_out != left_out:
                    left_out = following.left_out
                    log.leave_out(left_out)
                elif following.paused and not paused:
                    paused = True
                    log.notice_pause()
                self.log.written()
                if sum(map(len, pieces)) >= _FLOOD_BYTES:
                    self._connection.pause(_FLOOD_PAUSE)
                pieces.clear()
        log.output(*pieces)
        exited = following.exited
        assert exited is not None  # noqa: S101 - it was followed to its end
        self.log.end()
        self._note_end(exited, following.offset)
        return exited

    def _note_end(self, exited: vms.Exited, offset: int) -> None:
        """Say in the log what of the output is not there, and why."""
        if exited.unkept:
            self.log.notice(f"the rest of the output could not be kept: {os.strerror(exited.unkept)}")
        elif exited.truncated and offset == exited.size:  # by the supervisor of an older release
            self.log.notice("the rest of the output is not kept")
        if exited.cut_off:
            names = ", ".join(exited.cut_off)
            self.log.notice(f"processes that the command left behind still held its output, and were ended: {names}")

    def _at_its_time(self, exited: vms.Exited) -> vms.Exited:
        """Ask the VM again how long ago the command ended, if this process was stopped and has heard it late."""
        unwatched = self._seconds_unwatched()
        if unwatched is None:
            return exited
        again = vms.follow(self._connection.connected(), exited.size)
        try:
            for _ in again:
                pass
        except (vms.ConnectionLost, vms.CommandTimeout):
            return exited
        if again.exited is None or again.exited.seconds_ago is None:
            return exited
        return replace(exited, seconds_ago=min(again.exited.seconds_ago, unwatched), watched=False)

    @contextlib.contextmanager
    def _ending_lost_log(self) -> Iterator[None]:
        """End the log if the VM is lost, because no successor continues it.

        If an earlier process started the command, its log is opened first.
        """
        try:
            yield
        except (vms.VmLost, vms.ConnectionLost):
            if self._lease.started_at is not None:
                self.log.opened()
            self.log.end()
            raise

    def kill(self) -> None:
        """End the command: TERM to all its processes, a grace, KILL to the rest. Return when it is dead."""
        vms.terminate(self._connection.connected(), grace=self._settings.jobs.kill_grace)

    def measure(self) -> DiskUse:
        """Measure how much the VM has written and how much the host has left."""
        try:
            disk, free = self._provider.disk(self._lease.uuid), self._free()
        except vms.VmLost:
            self._connection.disconnect()  # no packet tells of a member that lost its power
            raise
        limit, min_free = self._lease.shape.disk_gb * 2**30, self._settings.jobs.min_free_bytes
        fills_host = self._host_disk.note(self._lease.uuid, disk, limit, free=free, min_free=min_free)
        self._last_use = DiskUse(disk.bytes, free, fills_host)
        return self._last_use

    def may_have_filled_disk(self) -> bool:
        """Tell whether the VM may have filled its disk since the last measurement. Cheap."""
        return may_have_filled(self._last_use, self._free(), self._lease.shape)

    def collect(self) -> Collected:
        """Collect the job's artifacts into files that have no rows yet, over as many connections as needed.

        While the host cannot keep them, they wait in the VM, until the time to collect them is up. Raises VmLost and
        Abandoned.
        """
        files, settings = self._storage.artifacts.files, self._settings
        store = ArtifactStore(files, self._build.uuid, lambda: self._free() - settings.jobs.min_free_bytes)
        rest_of = partial(self._cpu_shares.rest_of, self._build.organization_id)
        collection = Collection(self._job.artifacts, store, settings.artifacts, self._clock, rest_of)
        waits = False
        try:
            while True:
                try:
                    collected = collection.run(self._connection.patiently(self._connection.connected))
                    self._connection.check()
                except vms.VmLost:
                    raise
                except vms.VmError:
                    self._connection.reconnect()
                except OSError as error:
                    if not waits:
                        self.log.notice(f"the artifacts wait, as the host cannot keep them: {error_reason(error)}")
                    waits = True
                    self._connection.pause(_HOST_PAUSE)
                else:
                    return collected
        except BaseException:
            collection.discard()
            raise

    def generated_file(self) -> bytes:
        """Return the file by which the job generates others, over as many connections as needed.

        Raises NotGenerated, VmLost and Abandoned.
        """
        path, timeout = self._job.generates or "", self._settings.artifacts.timeout
        while True:
            try:
                connection = self._connection.patiently(self._connection.connected)
                return generated_file(connection, path, timeout=timeout)
            except vms.ConnectionLost:
                self._connection.reconnect()

    def keep_folders(self) -> list[str]:
        """Keep folders for later builds; return a line for each. Raises VmLost and Abandoned."""
        if not self._job.keep:
            return []
        return self._folders.keep(self._connection.patiently(self._connection.connected))

    def keep_workspace(self, *, needed: bool) -> None:
        """Keep the workspace for jobs that take it, over as many connections as needed.

        While the host has no room for one that is ``needed``, it waits in the VM, as long as artifacts may. Raises
        VmError, VmLost and Abandoned.
        """
        since: float | None = None
        while True:
            try:
                connection = self._connection.patiently(self._connection.connected)
                self._workspace.keep(connection, hashed=self._assignment.workspace_in_names)
            except (vms.ConnectionLost, vms.CommandTimeout):
                self._connection.reconnect()
            except OSError as error:
                now = self._clock.monotonic()
                if since is None:
                    since = now
                    self.log.notice(f"the workspace waits, as the host cannot keep it: {error_reason(error)}")
                if not needed or now - since >= self._settings.artifacts.timeout:
                    message = f"the host could not keep the workspace: {error_reason(error)}"
                    raise vms.VmError(message) from error
                self._connection.pause(_HOST_PAUSE)
            else:
                return

    def snapshot(self, *, passed: bool, needed: bool) -> None:
        """Snapshot the disk under the lease's id, for jobs that start from it. This ends the VM.

        While the host has no room for it, a disk that is ``needed`` waits in the VM, as long as artifacts may.

        The snapshot's row is written first, so that every snapshot in the provider's store has one. The disk of a
        command that has not ``passed`` is never cached, and neither is a disk on top of it.
        """
        self._connection.disconnect()
        name, provider = self._lease.uuid, self._provider
        cache_name = self._storage.attempts.cache_name(self._job.id) if passed else None
        self._storage.snapshots.add(name, self._job.id, provider.name, base=self._base(), cache_name=cache_name)
        since: float | None = None
        while True:
            try:
                self._connection.patiently(lambda: provider.snapshot(name, name))
            except vms.VmError as error:
                why, now = self._hindrance(error), self._clock.monotonic()
                if not needed or why is None or isinstance(error, vms.VmLost):
                    raise
                if since is None:
                    since = now
                    self.log.notice(f"the disk waits, as the host cannot keep it: {why}")
                elif now - since >= self._settings.artifacts.timeout:
                    message = f"the host could not keep the disk for {self._settings.artifacts.timeout:g} s: {why}"
                    raise vms.VmError(message) from error
                self._connection.pause(_HOST_PAUSE)
            else:
                break
        self._host_disk.forget(name, kept=True)

    def release(self) -> None:
        """Destroy the VM; return when it is gone."""
        self._connection.disconnect()
        try:
            self._provider.destroy(self._lease.uuid)
        finally:
            self._host_disk.forget(self._lease.uuid)
            self._cpu_shares.leave(self._lease.uuid)

    def abandon(self) -> None:
        """Make the phase under way raise soon; the VM and its command run on. Idempotent."""
        self._connection.abandon()
        self._parked.discard(self._lease.uuid)
        self.log.close()

    def _hindrance(self, error: vms.VmError) -> str | None:
        """Return why the host has no room for the files of a VM, as a phrase; None if it has.

        That may also be a file or folder of its own that cannot be written, which the ``error`` then comes from.
        """
        directory, cause = self._storage.directory, error.__cause__
        if self._free() < self._settings.jobs.min_free_bytes:
            return "the host's disk is full"
        if isinstance(cause, OSError) and cause.errno in NO_ROOM and _is_below(cause.filename, directory):
            return error_reason(cause)
        return why_no_files(directory)

    def _free(self) -> int:
        return shutil.disk_usage(self._storage.directory).free

    def _base(self) -> str | None:
        """Return the name of the snapshot to start from, None for the image. Raises SnapshotNotFound."""
        disk = parent_disk(self._assignment, self._storage)
        return None if disk is None else disk.name

    def _populate_workspace(self, connection: vms.Connection) -> list[str]:
        """Lay the source, files of other jobs and what builds kept; return what of them to log."""
        timeout = self._settings.jobs.source_timeout
        shared = self._workspace.lay(connection) if self._assignment.takes_workspace else None
        if shared is None:
            populate_workspace(
                self._storage,
                self._clock,
                self._build,
                self._lease,
                parent_disk(self._assignment, self._storage),
                self._connection,
                timeout=timeout,
            )
        taken = lay_taken_files(self._storage, self._clock, self._build, self._job, self._connection, timeout=timeout)
        return [*([] if shared is None else [shared]), *taken, *self._folders.lay(connection)]

    def _open_log(self, laid: list[str]) -> None:
        """Open the log before the command starts, so that the command waits for a log that cannot be written.

        The opening notices are written at once, so that a log that is not empty after a crash has all of them. Lines of
        a command that ran in another VM, and that the database lost in a power cut, are removed.
        """
        lines = opening_notices(self._assignment, self.member, self._images, self._storage)
        lines += laid
        self.log.opened().begin_anew()
        if lines and not self.log.opened().size:
            self.log.notice("\n".join(lines))


def _is_below(name: object, folder: Path) -> bool:
    return isinstance(name, str | Path) and Path(name).is_relative_to(folder)
