"""GitHub Actions workflows as pipelines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import literals
from ci_daemon.convert.github_job import JobReader
from ci_daemon.convert.github_triggers import triggers_of
from ci_daemon.convert.jobs import Job, circular, levels
from ci_daemon.draft import DraftPipeline
from storage import slugify

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

__all__ = ["convert_github"]

_KNOWN = frozenset({"name", "on", "env", "jobs", "defaults"})


def convert_github(document: Located, slug: str, omissions: Omissions) -> tuple[DraftPipeline, ...]:
    """Return the pipeline of a workflow; none if no job of it can be converted."""
    omissions.unknown(document, _KNOWN)
    env = literals(document.get("env"), "env", omissions)
    reader = JobReader(omissions, env, document.get("defaults", "run"))
    jobs = document.get("jobs").mapping()
    converted: dict[str, Job] = {}
    for name, job in jobs.items():
        steps = reader.steps(name, job)
        if steps is not None:
            converted[name] = Job(name, steps, job.get("needs").texts() or ())
    for name in sorted(circular({name: job.needs for name, job in converted.items()})):
        why = "the whole job is left out: it needs itself, through others"
        omissions.add(jobs[name].get("needs"), f"jobs.{name}.needs", why)
        del converted[name]
    while lost := [job for job in converted.values() if set(job.needs) - set(converted)]:
        for unmet in lost:
            why = "the whole job is left out: it needs one that is left out"
            omissions.add(jobs[unmet.name].get("needs"), f"jobs.{unmet.name}.needs", why)
            del converted[unmet.name]
    triggers = triggers_of(document.get("on"), omissions)
    stages = levels(tuple(converted.values()))
    if not stages:
        return ()
    return (DraftPipeline(slugify(slug) or "ci", stages, document.get("name").text, env, triggers),)
