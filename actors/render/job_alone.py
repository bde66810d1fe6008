"""The plan of one job and all that it needs. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir import with_needed
from actors.render.envelope import RenderFailed

if TYPE_CHECKING:
    from actors.ir import Plan


def job_alone(plan: Plan, step_key: str) -> Plan:
    """Return the plan with one job and what it needs.

    That may come from the cache, the job itself does not. Raises RenderFailed if the pipeline has no such job, or
    something would be deployed.
    """
    position = next((place for place, job in enumerate(plan.jobs) if job.step_key == step_key), None)
    if position is None:
        raise RenderFailed(f'the pipeline of this commit has no step "{step_key}"')
    alone = with_needed(plan, {position})
    for job in alone.jobs:
        if job.environment is not None:
            raise RenderFailed(f'"{job.step_key}" deploys to "{job.environment}", so that no search runs it')
    *needed, last = alone.jobs
    return replace(alone, jobs=(*needed, replace(last, cache_key=None)), concurrency=None)
