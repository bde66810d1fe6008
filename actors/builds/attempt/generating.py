"""Jobs that a job generates: its file, their plan and their rows (engine.md, "Generated jobs")."""

from __future__ import annotations

import json
import posixpath
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from actors import vms
from actors.builds.adding import built_of
from actors.builds.outcome import JobFailure
from actors.ir.language.beside import Beside, KnownJob
from storage import Dependency, EdgeKind, JobErrorCode, immutable
from storage.files import Bounds, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actors.ir import IrSettings
    from storage import Build, Edge, Job, Masker, NewJob, Storage

MAX_BYTES = 256 << 10
_MAX_LEVELS = 3
_BOUNDS = Bounds(cpu_seconds=10, memory_bytes=512 << 20, seconds=30)
_MAX_MESSAGE_CHARS = 4_000


class NotGenerated(Exception):
    """The file of a job generates no jobs; the message says why, with a line for each mistake."""


def generated_file(connection: vms.Connection, path: str, *, timeout: float) -> bytes:
    """Return a file of the workspace. Raises NotGenerated, ConnectionLost and VmError."""
    name = posixpath.normpath(path)
    try:
        listed = list(vms.list_below(connection, [name.encode()], deep=False, timeout=timeout))
        kind = listed[0].kind if listed else "-"
        if kind != "f":
            found = {"-": "no such file", "d": "a folder", "l": "a link"}.get(kind, "no file of the usual kind")
            raise NotGenerated(f"{path}: expected a file that the command has written, and there is {found}")
        with closing(vms.download_files(connection, [name], max_bytes=MAX_BYTES, timeout=timeout)) as packed:
            file = next(packed, None)
            if file is None or file.path != name or file.same_as is not None:
                raise NotGenerated(f"{path}: the file was removed as it was read")
            if file.file_size > MAX_BYTES:
                raise NotGenerated(f"{path}: the file has {file.file_size:,} bytes of at most {MAX_BYTES:,}")
            return b"".join(file.chunks)
    except vms.CommandTimeout:
        raise NotGenerated(f"{path}: it could not be read within {timeout:g} s") from None
    except vms.InvalidDownload as error:
        raise NotGenerated(f"{path}: {error}") from None


@immutable
class _Planned:
    """The planned ``jobs`` of a file, the document ``read``, and the number of jobs ``known`` before."""

    known: int
    read: dict[str, Any]
    jobs: tuple[NewJob, ...]


class JobGeneration:
    """The jobs that join a build when a job of it passes. Another process can repeat `read`, which blocks."""

    def __init__(self, storage: Storage, limits: IrSettings, build: Build, job: Job) -> None:
        self._storage = storage
        self._limits = limits
        self._build = build
        self._job = job
        self._planned: _Planned | None = None

    def read(self, fetch: Callable[[], bytes], masker: Masker) -> tuple[JobFailure | None, str]:
        """Keep the job's file and plan the jobs in it; return why it has failed, and a notice for the log.

        A job that runs again in a build which has its jobs generates no others. ``fetch`` gets the file from the VM,
        and its errors are passed on, but for NotGenerated.
        """
        if self._storage.generated.has_generated(self._job):
            return None, "the jobs that it has generated are in the build already: its file is not read again"
        try:
            text = self._storage.generated.text(self._job.id)
            if text is None:
                text = self._text(fetch(), masker)
                self._storage.generated.keep(self._job.id, text)
            self._planned = planned = self._plan(text)
        except NotGenerated as error:
            failure = _failure(error)
            return failure, failure.message
        keys = [each.step_key for each in planned.jobs]
        return None, f"generated jobs: {', '.join(keys)}"

    @property
    def needs_disk(self) -> bool:
        """True if one of them starts from the disk of the job."""
        jobs = () if self._planned is None else self._planned.jobs
        own = self._job.position, EdgeKind.BUILDS_IN
        return any((each.position, each.kind) == own for job in jobs for each in job.depends_on)

    def settle(self) -> JobFailure | None:
        """Plan again if other jobs have joined since; return the failure if both have jobs of one name."""
        planned = self._planned
        if planned is None or len(self._storage.jobs.of_build(self._build.id)) == planned.known:
            return None
        try:
            self._planned = self._plan_read(planned.read)
        except NotGenerated as error:
            self._planned = None
            return _failure(error)
        return None

    def add(self) -> None:
        """Add the jobs to the build, in the transaction in which the job ends. Raises JobsJoined."""
        if self._planned is not None:
            self._storage.generated.add(self._build, self._job, self._planned.known, self._planned.jobs)

    @property
    def _name(self) -> str:
        return posixpath.normpath(self._job.generates or "")

    def _text(self, content: bytes, masker: Masker) -> str:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise NotGenerated(f"{self._name}:{line}:1: the file is not UTF-8") from None
        if masker.masked(text) != text:  # commands are shown to people who may not see secrets
            message = f"{self._name}: the file has a secret in it: name it in the `secrets` of the jobs that need it"
            raise NotGenerated(message)
        return text

    def _plan(self, text: str) -> _Planned:
        from actors.ir.language.generating import declared_inputs, read_generated  # noqa: PLC0415 - pydantic

        storage, owner = self._storage, self._build.organization_slug
        inputs = declared_inputs(storage.builds.pipeline_ir(self._build.id) or "{}")
        given = self._name, text, asdict(self._beside()), inputs
        try:
            read = storage.confinement.run(read_generated, *given, bounds=_BOUNDS, owner=owner)
        except WorkFailed as error:
            raise NotGenerated(f"{self._name} cannot be read: {error}") from error
        if read["mistakes"]:
            raise NotGenerated("\n".join(read["mistakes"]))
        return self._plan_read(read)

    def _plan_read(self, read: dict[str, Any]) -> _Planned:
        from actors.ir.language.generating import plan_generated  # noqa: PLC0415 - pydantic
        from actors.ir.language.yaml_text import FileInvalid  # noqa: PLC0415 - as above

        pipeline = self._storage.pipelines.by_id(self._build.pipeline_id)
        if pipeline is None:
            raise NotGenerated("the pipeline was deleted")
        beside, built = self._beside(), built_of(self._storage, self._build, pipeline)
        try:
            jobs = plan_generated(self._name, read, beside, self._limits, built)
        except FileInvalid as error:
            raise NotGenerated(str(error)) from error
        return _Planned(len(beside.jobs), read, jobs)

    def _beside(self) -> Beside:
        """Return the jobs of the build as they are now.

        The disk of the job itself counts as there: it is kept if one starts from it.
        """
        storage = self._storage
        jobs, edges = storage.jobs.of_build(self._build.id), storage.jobs.edges(self._build.id)
        awaits = _awaited(jobs, edges)
        known = tuple(
            KnownJob(
                each.step_key,
                each.plan_key,
                each.image,
                keeps_files=bool(each.artifacts),
                has_disk=each.id == self._job.id or storage.snapshots.of_job(each.id) is not None,
                skipped=each.skipped_by_condition,
                awaits=awaits.get(each.id, ()),
                bytes=len(each.command.encode()) + len(json.dumps([dict(each.env), dict(each.services)]).encode()),
            )
            for each in jobs
        )
        makers = {each.uuid: each.generated_by for each in jobs}
        level, maker = 1, self._job.generated_by
        while maker is not None:
            level, maker = level + 1, makers.get(maker)
        return Beside(known, self._job.position, may_generate=level < _MAX_LEVELS)


def _awaited(jobs: Sequence[Job], edges: Iterable[Edge]) -> dict[int, tuple[Dependency, ...]]:
    """Return the dependencies of the jobs that were skipped by their conditions, by the ids of these jobs."""
    positions = {each.id: each.position for each in jobs}
    skipped = {each.id for each in jobs if each.skipped_by_condition}
    found: dict[int, tuple[Dependency, ...]] = {}
    for edge in edges:
        if edge.to_id in skipped:
            awaited = Dependency(positions[edge.from_id], edge.kind, edge.continue_on_failure)
            found[edge.to_id] = (*found.get(edge.to_id, ()), awaited)
    return found


def _failure(error: NotGenerated) -> JobFailure:
    return JobFailure(JobErrorCode.GENERATED_INVALID, str(error)[:_MAX_MESSAGE_CHARS])
