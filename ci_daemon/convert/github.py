"""Workflows of GitHub Actions, and of Forgejo and Gitea, as pipelines. Pure."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_daemon.convert.github_expressions import Environment
from ci_daemon.convert.github_job import JobReader
from ci_daemon.convert.github_triggers import triggers_of
from ci_daemon.convert.jobs import Job, circular, in_order, levels, waits_in_vain
from ci_daemon.convert.jobs import label as one_line
from ci_daemon.convert.located import NotReadable
from ci_daemon.convert.omissions import LeftOut
from ci_daemon.draft import DraftPipeline
from storage import slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.convert.located import Located
    from ci_daemon.convert.omissions import Omissions

_NOTES = MappingProxyType(
    {
        "permissions": "jobs here get no token of the other system, so that there is nothing to permit",
        "concurrency": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` "
        "lets them take turns, and --cancel-superseded cancels older ones",
        "run-name": "builds have the commit's message as their title",
    }
)
_MAX_STEPS = 1_000
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
    kept = _with_what_they_need(jobs, _read(document, env, omissions), omissions)
    for name, others in waits_in_vain(kept).items():
        why = f"it also waits for {', '.join(others)}, and does not run if that fails"
        at = jobs[name].get("needs")
        omissions.add(at if at.line else jobs[name], f"jobs.{name}.needs", why)
    triggers = triggers_of(document.get("on"), omissions)
    stages = levels(kept)
    if not stages:
        return ()
    name = one_line(document.get("name").number_or_text or "")
    return (DraftPipeline(_slug(slug), stages, name or None, env.values, triggers),)


def _read(document: Located, env: Environment, omissions: Omissions) -> dict[str, tuple[Job, Omissions]]:
    """Return the jobs that can be converted by themselves, and the notes on them."""
    found: dict[str, tuple[Job, Omissions]] = {}
    steps = 0
    for name, job in document.get("jobs").mapping().items():
        part = omissions.of_a_part()
        try:
            needs = job.get("needs").texts()
            if needs is None:
                raise LeftOut(job.get("needs"), f"jobs.{name}.needs", "what it needs is no list of names")
            reader = JobReader(part, env, document.get("defaults", "run"))
            found[name] = Job(name, reader.steps(name, job), needs), part
            steps += len(found[name][0].steps)
        except LeftOut as left_out:
            omissions.add_job(left_out)
        if steps > _MAX_STEPS:
            message = f"its jobs have more than {_MAX_STEPS} cells"
            raise NotReadable(message)
    return found


def _with_what_they_need(
    jobs: Mapping[str, Located], found: Mapping[str, tuple[Job, Omissions]], omissions: Omissions
) -> tuple[Job, ...]:
    """Return the jobs all of whose needs are kept, too; the others are left out."""
    needs = {name: job.needs for name, (job, _) in found.items()}
    in_circles = circular(needs)
    for name in sorted(in_circles):
        omissions.add_job(LeftOut(jobs[name].get("needs"), f"jobs.{name}.needs", "it needs itself, through others"))
    kept: dict[str, Job] = {}
    for name in in_order({name: each for name, each in needs.items() if name not in in_circles}):
        job, notes = found[name]
        if lost := [each for each in job.needs if each not in kept]:
            why = f"it needs {', '.join(map(one_line, lost))}, which is left out"
            omissions.add_job(LeftOut(jobs[name].get("needs"), f"jobs.{name}.needs", why))
        else:
            kept[name] = job
            omissions.take(notes)
    return tuple(kept[name] for name in found if name in kept)


def _slug(name: str) -> str:
    """Return the slug of a file's name, which begins with a letter."""
    slug = slugify(name)
    return slug if slug[:1].isalpha() else f"ci-{slug}".rstrip("-")[:63]
