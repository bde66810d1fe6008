"""Workflows of GitHub Actions, and of Forgejo and Gitea, as pipelines. Pure."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.conditions import NotSayable, both, without_status
from actors.ir.systems.github_artifacts import Artifacts
from actors.ir.systems.github_expressions import Environment
from actors.ir.systems.github_job import JobReader
from actors.ir.systems.github_outputs import JobOutputs
from actors.ir.systems.github_triggers import Events
from actors.ir.systems.jobs import check_names, circular, in_order
from actors.ir.systems.jobs import label as one_line
from actors.ir.systems.located import NotReadable
from actors.ir.systems.model import ConvertedPipeline
from actors.ir.systems.omissions import LeftOut
from storage import slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.located import Located
    from actors.ir.systems.model import Job
    from actors.ir.systems.omissions import Omissions

_NOTES = MappingProxyType(
    {
        "permissions": "jobs here get no token of the other system, so that there is nothing to permit",
        "concurrency": "builds may run side by side: `ci-daemon pipeline edit ORG/PIPELINE --concurrency-group NAME` "
        "lets them take turns, and --cancel-superseded cancels older ones",
        "run-name": "builds have the commit's message as their title",
    }
)
_MAX_CELLS = 1_000
_KNOWN = frozenset({"name", "on", "env", "jobs", "defaults", *_NOTES})


def convert_github(document: Located, slug: str, omissions: Omissions) -> tuple[ConvertedPipeline, ...]:
    """Return the pipeline of a workflow; none if no job of it can be converted."""
    omissions.unknown(document, _KNOWN)
    omissions.told(document, _NOTES, "")
    env = Environment()
    try:
        env.add(document.get("env"), "env", {})
        check_names(document.get("env"), "env", env.values.values())
    except LeftOut as left_out:
        omissions.add(left_out.at, left_out.key, f"all jobs are left out: {left_out.why}")
        return ()
    jobs = document.get("jobs").mapping()
    read = _read(document, env, omissions)
    events = Events(document.get("on"), omissions)
    kept = _with_what_they_need(jobs, read, events.when, omissions)
    if not kept:
        return ()
    name = one_line(document.get("name").number_or_text or "").replace("${{", "$ {{")
    return (ConvertedPipeline(_slug(slug), kept, name=name or None, on=events.on, env=env.values, notes=omissions.all),)


def _read(document: Located, env: Environment, omissions: Omissions) -> dict[str, tuple[Job, Omissions]]:
    """Return the jobs that can be converted by themselves, and the notes on them."""
    found: dict[str, tuple[Job, Omissions]] = {}
    cells = 0
    jobs = document.get("jobs").mapping()
    artifacts, outputs = Artifacts(jobs), JobOutputs(jobs)
    for name, job in jobs.items():
        part = omissions.of_a_part(name)
        try:
            reader = JobReader(part, env, document.get("defaults", "run"), artifacts, outputs)
            found[name] = reader.job(name, job), part
            cells += len(found[name][0].cells)
        except LeftOut as left_out:
            omissions.add_job(left_out)
        if cells > _MAX_CELLS:
            message = f"its jobs have more than {_MAX_CELLS} cells"
            raise NotReadable(message)
    return found


def _with_what_they_need(
    jobs: Mapping[str, Located], found: Mapping[str, tuple[Job, Omissions]], common: Condition, omissions: Omissions
) -> tuple[Job, ...]:
    """Return the jobs all of whose needs are kept, under the conditions of these."""
    found = {name: (replace(job, needs=_needs(job, found)), notes) for name, (job, notes) in found.items()}
    needs = {name: job.needs for name, (job, _) in found.items()}
    in_circles = circular(needs)
    for name in sorted(in_circles):
        omissions.add_job(LeftOut(jobs[name].get("needs"), f"jobs.{name}.needs", "it needs itself, through others"))
    kept: dict[str, Job] = {}
    for name in in_order({name: each for name, each in needs.items() if name not in in_circles}):
        job, notes = found[name]
        try:
            when = _whole_condition(jobs[name], job, kept, common)
        except LeftOut as left_out:
            omissions.add_job(left_out)
            continue
        omissions.take(notes)
        kept[name] = replace(job, when=when)
    return tuple(kept[name] for name in found if name in kept)


def _needs(job: Job, found: Mapping[str, tuple[Job, Omissions]]) -> tuple[str, ...]:
    """Return what a job needs, also behind jobs that run after failures.

    For GitHub a job has succeeded only if all before it have, however far.
    """
    if job.when.get("status") == "always":
        return job.needs
    needs = dict.fromkeys(job.needs)
    left = list(needs)
    for name in left:  # grows as it goes
        if name in found and "status" in found[name][0].when:
            left += [each for each in found[name][0].needs if each not in needs]
            needs |= dict.fromkeys(found[name][0].needs)
    return tuple(needs)


def _whole_condition(at: Located, job: Job, kept: Mapping[str, Job], common: Condition) -> Condition:
    """Return the condition of a job with those of what it needs, since GitHub skips it with them.

    Raises LeftOut.
    """
    key = f"jobs.{job.name}"
    if lost := [each for each in job.needs if each not in kept]:
        why = f"it needs {', '.join(map(one_line, lost))}, which is left out"
        raise LeftOut(at.get("needs"), f"{key}.needs", why)
    inherited = [] if "status" in job.when else [kept[each].when for each in job.needs]
    if after := [each for each, when in zip(job.needs, inherited, strict=False) if when.get("status") == "failed"]:
        why = f"it needs {', '.join(map(one_line, after))}, which is for failures: it would run without it here"
        raise LeftOut(at.get("needs"), f"{key}.needs", why)
    try:
        when = job.when
        for each in (common, *map(without_status, inherited)):
            when = both(when, each)
    except NotSayable as error:
        raise LeftOut(
            at, f"{key}.if", f"`when` cannot say its condition with those of what it needs: {error}"
        ) from error
    return when


def _slug(name: str) -> str:
    """Return the slug of a file's name, which begins with a letter."""
    slug = slugify(name)
    return slug if slug[:1].isalpha() else f"ci-{slug}".rstrip("-")[:63]
