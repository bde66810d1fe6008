"""Workflows of GitHub Actions, and of Forgejo and Gitea, as pipelines. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import Environment
from ci_daemon.convert.github_job import JobReader
from ci_daemon.convert.github_triggers import triggers_of
from ci_daemon.convert.jobs import Job, circular, levels, waits_in_vain
from ci_daemon.convert.jobs import label as one_line
from ci_daemon.convert.omissions import LeftOut
from ci_daemon.draft import DraftPipeline
from storage import slugify

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

__all__ = ["convert_github"]

_NOTES = MappingProxyType(
    {
        "permissions": "jobs here get no token of the other system, so that there is nothing to permit",
        "concurrency": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` "
        "lets them take turns, and --cancel-superseded cancels older ones",
        "run-name": "builds have the commit's message as their title",
    }
)
_KNOWN = frozenset({"name", "on", "env", "jobs", "defaults", *_NOTES})


def convert_github(document: Located, slug: str, omissions: Omissions) -> tuple[DraftPipeline, ...]:
    """Return the pipeline of a workflow; none if no job of it can be converted."""
    omissions.unknown(document, _KNOWN)
    omissions.told(document, _NOTES, "")
    env = Environment()
    try:
        env.add(document.get("env"), "env", {})
    except LeftOut as left_out:
        omissions.add(left_out.at, left_out.key, f"all jobs are left out: {left_out.why}")
        return ()
    jobs = document.get("jobs").mapping()
    converted: dict[str, Job] = {}
    notes: dict[str, Omissions] = {}
    for name, job in jobs.items():
        part = notes[name] = omissions.of_a_part()
        try:
            needs = job.get("needs").texts()
            if needs is None:
                raise LeftOut(job.get("needs"), f"jobs.{name}.needs", "what it needs is no list of names")
            steps = JobReader(part, env, document.get("defaults", "run")).steps(name, job)
            converted[name] = Job(name, steps, needs)
        except LeftOut as left_out:
            omissions.add_job(left_out)
    for name in sorted(circular({name: job.needs for name, job in converted.items()})):
        omissions.add_job(LeftOut(jobs[name].get("needs"), f"jobs.{name}.needs", "it needs itself, through others"))
        del converted[name]
    while lost := [job for job in converted.values() if set(job.needs) - set(converted)]:
        for unmet in lost:
            why = f"it needs {', '.join(each for each in unmet.needs if each not in converted)}, which is left out"
            omissions.add_job(LeftOut(jobs[unmet.name].get("needs"), f"jobs.{unmet.name}.needs", why))
            del converted[unmet.name]
    for name in converted:
        omissions.take(notes[name])
    for name, others in waits_in_vain(tuple(converted.values())).items():
        why = f"it also waits for {', '.join(others)}, and does not run if that fails"
        omissions.add(jobs[name].get("needs"), f"jobs.{name}.needs", why)
    triggers = triggers_of(document.get("on"), omissions)
    stages = levels(tuple(converted.values()))
    if not stages:
        return ()
    name = one_line(document.get("name").number_or_text or "")
    return (DraftPipeline(_slug(slug), stages, name or None, env.values, triggers),)


def _slug(name: str) -> str:
    """Return the slug of a file's name, which begins with a letter."""
    slug = slugify(name)
    return slug if slug[:1].isalpha() else f"ci-{slug}".rstrip("-")[:63]
