"""Adding of builds: whether there is credit, the plan, and the build that is created or rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir import Built, IrError, concerns, load
from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.ir import IrSettings
    from storage import Build, NewBuild, NewJob, Pipeline, Storage


_NUMBER = "build.number"


class NotConcerned(Exception):
    """No step of a pipeline is about the files that changed."""


@immutable
class AddedBuild:
    """A build that was added. If it ``needs_vms``, no cache, gate or condition lets it go on without one."""

    build: Build
    needs_vms: bool = False


def has_credit(storage: Storage, organization_id: int) -> bool:
    """Tell whether an organization may build: it has credit, or the service requires none."""
    return not storage.billing.require_credit or storage.ledger.balance(organization_id) > 0


def add_planned(
    storage: Storage,
    limits: IrSettings,
    pipeline: Pipeline,
    new: NewBuild,
    *,
    refused: bool = False,
    jobs: Sequence[NewJob] | None = None,
) -> AddedBuild:
    """Plan and add a build that has a pipeline; if that is invalid, one rejected with an error code.

    It is ``refused`` if a request asked for it. If ``jobs`` are given, it has these in place of those of its pipeline.
    """
    return _add(storage, limits, pipeline, new, rejected=new, refused=refused, jobs=jobs)


def add_or_reject(
    storage: Storage,
    limits: IrSettings,
    pipeline: Pipeline,
    new: NewBuild,
    definition: str | None,
    *,
    no_credit: str,
    failure: str | None,
    code: BuildErrorCode = BuildErrorCode.RENDER_FAILED,
    changed: Collection[str] | None = None,
) -> Build:
    """Add a build for which nobody waits: if it is rejected, it says why.

    It is rejected with ``no_credit`` or for a ``failure`` with its ``code``, and then without its source and
    environment. Without a definition of its pipeline it is rendered first. Raises NotConcerned if the files that
    ``changed`` are known, and the pipeline's steps are about others.
    """
    rejected = replace(new, env={}, source_archive=None, source_of=None)
    if not has_credit(storage, pipeline.organization_id):
        broke = BuildErrorCode.BILLING_INSUFFICIENT_BALANCE
        return storage.builds.create_rejected(pipeline, rejected, broke, no_credit)
    if failure is not None:
        return storage.builds.create_rejected(pipeline, rejected, code, failure)
    if not definition:
        return storage.renders.begin(pipeline, new, None)
    planned = replace(new, pipeline_ir=definition)
    return _add(storage, limits, pipeline, planned, rejected=rejected, changed=changed).build


def _add(
    storage: Storage,
    limits: IrSettings,
    pipeline: Pipeline,
    new: NewBuild,
    *,
    rejected: NewBuild,
    changed: Collection[str] | None = None,
    refused: bool = False,
    jobs: Sequence[NewJob] | None = None,
) -> AddedBuild:
    if _NUMBER in (new.pipeline_ir or ""):
        with storage.transaction():  # so that the next number is still that of this build when it gets it
            now = storage.pipelines.by_id(pipeline.id) or pipeline
            return _add_planned(storage, limits, now, new, jobs, rejected=rejected, changed=changed, refused=refused)
    return _add_planned(storage, limits, pipeline, new, jobs, rejected=rejected, changed=changed, refused=refused)


def _add_planned(
    storage: Storage,
    limits: IrSettings,
    pipeline: Pipeline,
    new: NewBuild,
    given: Sequence[NewJob] | None,
    *,
    rejected: NewBuild,
    changed: Collection[str] | None,
    refused: bool,
) -> AddedBuild:
    try:
        planned = load(new.pipeline_ir or "", limits, _built(pipeline, new, changed))
    except IrError as error:
        failed = storage.builds.create_rejected(pipeline, rejected, error.code, error.message, refused=refused)
        return AddedBuild(failed)
    if not concerns(planned, changed):
        raise NotConcerned("none of the changed files is among the paths of its pipelines' steps")
    planned_build = replace(
        new,
        timeout_seconds=planned.timeout_seconds,
        warnings=planned.warnings,
        strict_shell=planned.strict_shell,
        concurrency=planned.concurrency,
    )
    jobs = planned.jobs if given is None else given
    build = storage.builds.create(pipeline, planned_build, jobs)
    return AddedBuild(build, needs_vms=_need_vms(jobs))


def _need_vms(jobs: Sequence[NewJob]) -> bool:
    """Tell whether no job of a new build can be cached, at a gate, or skipped with all others."""
    return all(job.cache_key is None and job.environment is None for job in jobs) and not all(
        job.skipped for job in jobs
    )


def built_of(storage: Storage, build: Build, pipeline: Pipeline) -> Built:
    """Return the source, event and variables of a stored build, for its plan."""
    return Built.of(
        branch=build.branch or "",
        commit=build.commit or "",
        source=build.source,
        env=storage.builds.env(build.id),
        fork=build.from_fork,
        default_branch=pipeline.default_branch,
        repository=pipeline.repository,
        number=build.number,
        inputs=build.inputs,
        changed=storage.builds.changed_files(build.id),
    )


def _built(pipeline: Pipeline, new: NewBuild, changed: Collection[str] | None) -> Built:
    return Built.of(
        branch=new.branch,
        commit=new.commit,
        source=new.source,
        env=new.env,
        fork=new.from_fork,
        default_branch=pipeline.default_branch,
        repository=pipeline.repository,
        number=pipeline.build_count + 1,
        inputs=new.inputs,
        changed=new.changed_files if changed is None else changed,
    )
