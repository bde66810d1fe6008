"""Rolling back: a deployment again, with what its build made (engine.md, "Rolling back")."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from actors.builds.adding import add_planned
from actors.builds.attempt.shared_workspaces import maker_of_workspace
from storage import Dependency, EdgeKind, NewJob, immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actors.builds.adding import AddedBuild
    from actors.ir import IrSettings
    from storage import Build, Edge, Job, NewBuild, Pipeline, Storage

_SHOWN = 5
_COPIED = {each.name for each in fields(NewJob)} - {"depends_on", "paths", "skipped", "taken", "taken_from"}


class NotKept(Exception):
    """Something that a deployment takes of its earlier build is no longer kept; the message says what."""


@immutable
class _Part:
    """The jobs of a build that run again, and those as whose end others of a new build count."""

    build: Build
    again: tuple[Job, ...]
    taken: tuple[Job, ...]
    edges: tuple[Edge, ...]

    @property
    def jobs(self) -> list[Job]:
        """All of them, in the order of the build."""
        return sorted((*self.again, *self.taken), key=lambda job: job.position)

    def planned(self) -> list[NewJob]:
        """Return the jobs of the new build, in the order of the earlier one."""
        places = {job.id: place for place, job in enumerate(self.jobs)}
        before: dict[int, list[Dependency]] = {}
        for edge in self.edges:
            if edge.from_id in places and edge.to_id in places:
                one = Dependency(places[edge.from_id], edge.kind, edge.continue_on_failure, edge.workspace)
                before.setdefault(edge.to_id, []).append(one)
        again = {job.id for job in self.again}
        return [self._new(job, sorted(before.get(job.id, ())), runs=job.id in again) for job in self.jobs]

    def _new(self, job: Job, depends_on: Sequence[Dependency], *, runs: bool) -> NewJob:
        copied = {name: getattr(job, name) for name in _COPIED}
        if runs:
            return NewJob(**copied, depends_on=tuple(depends_on))
        copied["preview"] = {}
        number = job.taken_from or self.build.number
        return NewJob(**copied, depends_on=tuple(depends_on), taken=job, taken_from=number)


def roll_back(
    storage: Storage, limits: IrSettings, pipeline: Pipeline, new: NewBuild, build: Build, job: Job
) -> AddedBuild:
    """Add a build that runs a job of an earlier build again, and those after it.

    The others end in it as they have ended there: it has their artifacts and outputs, and the disk that a job starts
    from. All is in one transaction. Raises NotKept, and SourceGone.
    """
    part = _part(build, storage.jobs.of_build(build.id), storage.jobs.edges(build.id), job)
    try:
        with storage.transaction():
            disks = _require_all(storage, part)
            added = add_planned(storage, limits, pipeline, new, refused=True, jobs=part.planned())
            if added.build.error_code is None:
                _hand_over(storage, part, added.build, disks)
    except FileNotFoundError as error:
        raise NotKept(f"a file of build {build.number} was deleted just now: {error.filename}") from None
    return added


def to_run_again(jobs: Iterable[Job], edges: Iterable[Edge], deployment: int) -> set[int]:
    """Return the jobs that run again with a deployment: it, what has not ended, and what follows."""
    after: dict[int, list[int]] = {}
    for edge in edges:
        after.setdefault(edge.from_id, []).append(edge.to_id)
    ahead = [deployment, *(job.id for job in jobs if not job.state.terminal)]
    again: set[int] = set()
    while ahead:
        job_id = ahead.pop()
        if job_id not in again:
            again.add(job_id)
            ahead += after.get(job_id, ())
    return again


def _part(build: Build, jobs: Sequence[Job], edges: Sequence[Edge], job: Job) -> _Part:
    """Divide the jobs of a build; those that a job generates which runs again are left to it."""
    again = to_run_again(jobs, edges, job.id)
    makers = {each.uuid for each in jobs if each.id in again}
    left: list[Job] = []
    for each in jobs:  # a generated job comes after its maker
        if each.generated_by in makers:
            makers.add(each.uuid)
        else:
            left.append(each)
    return _Part(
        build,
        tuple(each for each in left if each.id in again),
        tuple(each for each in left if each.id not in again),
        tuple(edges),
    )


def _require_all(storage: Storage, part: _Part) -> dict[int, str]:
    """Return the disks that jobs start from. Raises NotKept if they lack something of the build."""
    taken, disks = {job.id: job for job in part.taken}, {}
    for job in part.again:
        before = [(edge, taken[edge.from_id]) for edge in part.edges if edge.to_id == job.id and edge.from_id in taken]
        if before and part.build.logs_expired_at is not None:
            raise NotKept(
                f"what the jobs of build {part.build.number} told others was kept until"
                f" {part.build.logs_expired_at.date()}, like its logs (retention.logs_days)"
            )
        _require_files(storage, part.build, job, [each for _, each in before])
        for edge, each in before:
            if edge.kind is EdgeKind.BUILDS_IN:
                disks[each.id] = _disk(storage, job, each)
        maker = maker_of_workspace(storage, job)
        if maker is not None and maker.id in taken:
            why = "which is kept only until its build ends"
            raise NotKept(f'"{job.step_key}" takes the workspace that "{maker.step_key}" left, {why}')
    return disks


def _require_files(storage: Storage, build: Build, job: Job, before: Iterable[Job]) -> None:
    """Raise NotKept if files that a job takes are gone: of jobs before it, or of other builds."""
    for each in before:
        if each.plan_key in job.files:
            _require_kept(storage, build, (each,), each.plan_key, job.files)
    for source, globs in cast("Mapping[str, Mapping[str, object]]", job.files_of).items():
        taken_id = storage.taken_builds.get(build.id, source)
        other = None if taken_id is None else storage.builds.get(taken_id)
        if other is None:
            raise NotKept(f'"{job.step_key}" takes files of "{source}", whose build was deleted')
        jobs = storage.jobs.of_build(other.id)
        for key in globs:
            _require_kept(storage, other, [each for each in jobs if each.plan_key == key], key, globs)


def _require_kept(
    storage: Storage, build: Build, makers: Collection[Job], key: str, globs: Mapping[str, object]
) -> None:
    shown = ", ".join(cast("list[str]", globs[key])[:_SHOWN])
    expired_at = storage.artifacts.expired_at(build.id)
    if expired_at is not None:
        until = f"were kept until {expired_at.date()} (retention.artifacts_days)"
        raise NotKept(f'the files {shown} of "{key}" in {build.name} {until}')
    if not all(storage.artifacts.complete(each.id) for each in makers):
        raise NotKept(f'the files {shown} of "{key}" in {build.name} are missing on the disk, or incomplete')


def _disk(storage: Storage, job: Job, parent: Job) -> str:
    disk = storage.snapshots.of_job(parent.id)
    if disk is None:
        why = "which is no longer kept: the cache alone keeps disks of builds that have ended"
        raise NotKept(f'"{job.step_key}" starts from the disk that "{parent.step_key}" left, {why}')
    return disk.name


def _hand_over(storage: Storage, part: _Part, build: Build, disks: Mapping[int, str]) -> None:
    """Give a new build what its jobs take over. Part of the caller's transaction."""
    for one, job in zip(part.jobs, storage.jobs.of_build(build.id), strict=True):
        if job.taken_from is None:
            for source in job.files_of:
                if (other := storage.taken_builds.get(part.build.id, source)) is not None:
                    storage.taken_builds.take(build.id, source, other)
            continue
        storage.told.inherit(one.id, job.id, build.id)
        if storage.artifacts.complete(one.id):
            storage.artifacts.inherit(one.id, job.id)
        if one.id in disks:
            storage.snapshots.give(disks[one.id], job.id)


def ran_in(storage: Storage, build: Build, job: Job) -> tuple[Build, Job] | None:
    """Return a job that another build has taken over, with its build; None if they are gone."""
    if job.taken_from is None:
        return build, job
    origin = storage.builds.by_number(build.pipeline_id, job.taken_from)
    jobs = () if origin is None else storage.jobs.of_build(origin.id)
    found = next((each for each in jobs if each.step_key == job.step_key), None)
    return None if origin is None or found is None else (origin, found)
