"""Choose steps of a plan, with all that they need. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from actors.ir import with_needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.ir import Plan
    from storage import Job, NewJob

S = TypeVar("S", "NewJob", "Job")


class UnknownStep(Exception):
    """The pipeline has no such step; the message lists those that it has."""


def step_named(jobs: Sequence[S], wanted: str) -> S:
    """Return the step with a key, or else the only one with that name. Raises UnknownStep."""
    by_key = [job for job in jobs if job.step_key == wanted]
    found = by_key or [job for job in jobs if job.name == wanted]
    if len(found) == 1:
        return found[0]
    known = ", ".join(job.step_key if job.step_key == job.name else f"{job.step_key} ({job.name})" for job in jobs)
    problem = f'several steps are named "{wanted}"' if found else f'the pipeline has no step "{wanted}"'
    raise UnknownStep(f"{problem}: give the key of one of {known}")


def select_steps(plan: Plan, wanted: Iterable[str]) -> Plan:
    """Return the plan of some steps, by key or name, and their ancestors. Raises UnknownStep."""
    return with_needed(plan, {plan.jobs.index(step_named(plan.jobs, each)) for each in wanted})


def without_deployments(plan: Plan, chosen: Iterable[str]) -> Plan:
    """Return the plan, with jobs that have a gate skipped unless they are chosen.

    Nobody approves anything here, and no pipeline deploys because somebody tried it.
    """
    wanted = {step_named(plan.jobs, each).step_key for each in chosen}
    return replace(plan, jobs=tuple(_without_gate(job, chosen=job.step_key in wanted) for job in plan.jobs))


def _without_gate(job: NewJob, *, chosen: bool) -> NewJob:
    if job.environment is None:
        return job
    if chosen:
        return replace(job, environment=None)
    why = f'it deploys to "{job.environment}": name the step to run it here, without an approval'
    return replace(job, environment=None, skipped=job.skipped or why)
