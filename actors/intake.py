"""Planning of a pipeline's IR into jobs for the storage. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from actors.ir import Limits, PlannedJob, load
from storage import EdgeKind, NewJob

__all__ = ["PlannedBuild", "plan_jobs"]


@dataclass(frozen=True, slots=True)
class PlannedBuild:
    """The jobs of a build in DAG creation order, and its time-out in seconds if the pipeline sets one."""

    jobs: tuple[NewJob, ...]
    timeout_seconds: int | None


def plan_jobs(pipeline_ir: str, limits: Limits) -> PlannedBuild:
    """Plan a pipeline's IR (pipeline-ir.md). Raises IrError, whose code and message are for the caller."""
    plan = load(pipeline_ir, limits)
    return PlannedBuild(tuple(_new_job(job) for job in plan.jobs), plan.timeout_seconds)


def _new_job(job: PlannedJob) -> NewJob:
    return NewJob(
        step_key=job.key,
        name=job.name,
        command=job.command,
        image=job.image,
        env=job.env,
        shape=job.shape,
        depends_on=tuple(
            (
                dependency.position,
                EdgeKind.BUILDS_IN if dependency.builds_in else EdgeKind.DEPENDS_ON,
                dependency.continue_on_failure,
            )
            for dependency in job.depends_on
        ),
        timeout_seconds=job.timeout_seconds,
        network=job.network,
        retry_policy=job.retry_policy,
        soft_fail_policy=job.soft_fail_policy,
        artifacts=job.artifacts,
        secrets=job.secrets,
        cache_policy=job.cache_policy,
        cache_key=job.cache_key,
    )
