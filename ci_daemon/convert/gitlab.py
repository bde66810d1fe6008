"""GitLab CI files as pipelines. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ci_daemon.convert.gitlab_job import JobReader
from ci_daemon.convert.gitlab_triggers import EVERY_PUSH, triggers_of
from ci_daemon.convert.jobs import Job, circular, levels
from ci_daemon.convert.located import EMPTY, Located
from ci_daemon.draft import DraftPipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_daemon.convert.omissions import Omissions
    from ci_daemon.draft.model import Trigger

__all__ = ["convert_gitlab"]

_STAGES = (".pre", "build", "test", "deploy", ".post")
_GLOBAL = frozenset({"stages", "variables", "default", "workflow"})
_DEFAULTS = frozenset({"image", "before_script", "after_script", "cache", "services"})
_OF_DEFAULT = _DEFAULTS | {"artifacts", "retry", "timeout"}
_NO_JOB = frozenset({"include", "spec", "pages"})


def convert_gitlab(document: Located, omissions: Omissions) -> tuple[DraftPipeline, ...]:
    """Return the pipeline of a file; none if no job can be converted."""
    for name in _NO_JOB & set(document.mapping()):
        omissions.add(document.get(name), name, "it has no counterpart here")
    for name in ("name", "auto_cancel"):
        if (part := document.get("workflow", name)).value is not None:
            omissions.add(part, f"workflow.{name}", "it has no counterpart here")
    jobs = dict(_jobs(document, omissions))
    triggers = {
        name: triggers_of(job, document.get("workflow", "rules"), omissions, name) for name, job in jobs.items()
    }
    counts = Counter(each for each in triggers.values() if each is not None)
    common = counts.most_common(1)[0][0] if counts else EVERY_PUSH
    stages = _stages(document)
    kept = _met(_kept(jobs, triggers, common, omissions), stages, omissions)
    variables = _variables(document.get("variables"), omissions)
    reader = JobReader(omissions, frozenset(variables))
    converted = {name: steps for name, job in kept.items() if (steps := reader.steps(name, job)) is not None}
    there = _met({name: kept[name] for name in converted}, stages, omissions)
    _tell_artifacts(there, stages, omissions)
    ordered = levels([Job(name, converted[name], _needs(job, there, stages)) for name, job in there.items()])
    if not ordered:
        return ()
    return (DraftPipeline("ci", ordered, env=variables, triggers=common),)


def _jobs(document: Located, omissions: Omissions) -> Iterator[tuple[str, Located]]:
    """Yield the jobs, with what they extend and the defaults.

    Templates, whose names begin with a dot, are none.
    """
    default = dict(document.get("default").mapping())
    for name in set(default) - _OF_DEFAULT:
        omissions.add(default.pop(name), f"default.{name}", "it has no counterpart here")
    default |= {name: document.get(name) for name in _DEFAULTS if name in document.mapping()}
    for name, job in document.mapping().items():
        if name in _GLOBAL | _DEFAULTS | _NO_JOB or name.startswith("."):
            continue
        if not job.mapping():
            omissions.add(job, name, "it is neither a job nor a key that is known here")
            continue
        extended = _extended(document, job, (name,))
        if extended is None:
            omissions.add(
                job.get("extends"),
                f"{name}.extends",
                "the whole job is left out: this names no job of the file, or leads back to itself",
            )
            continue
        if (inherit := extended.get("inherit")).value is not None:
            omissions.add(
                inherit,
                f"{name}.inherit",
                "the whole job is left out: its defaults are not all of them",
            )
            continue
        yield name, Located(job.line, {**default, **extended.mapping()})


def _extended(document: Located, job: Located, path: tuple[str, ...]) -> Located | None:
    """Return a job merged over what it extends, as GitLab does: mappings are merged, all else is replaced."""
    names = job.get("extends").texts()
    if names is None:
        return None
    merged = EMPTY
    for name in names:
        if name in path or name not in document.mapping():
            return None
        parent = _extended(document, document.get(name), (*path, name))
        if parent is None:
            return None
        merged = _merged(merged, parent)
    own = {name: value for name, value in job.mapping().items() if name != "extends"}
    return _merged(merged, Located(job.line, own))


def _merged(below: Located, above: Located) -> Located:
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    both = {name: _merged(below.get(name), value) for name, value in above.value.items()}
    return Located(above.line, {**below.value, **both})


def _kept(
    jobs: Mapping[str, Located],
    triggers: Mapping[str, tuple[Trigger, ...] | None],
    common: tuple[Trigger, ...],
    omissions: Omissions,
) -> dict[str, Located]:
    """Return the jobs that run whenever the pipeline does."""
    kept = {name: job for name, job in jobs.items() if triggers[name] == common}
    for name, job in jobs.items():
        if triggers[name] is not None and name not in kept:
            why = "the whole job is left out: it runs for other events than most jobs; make it a pipeline of its own"
            omissions.add(job, name, why)
    return kept


def _met(jobs: Mapping[str, Located], stages: tuple[str, ...], omissions: Omissions) -> dict[str, Located]:
    """Return the jobs whose stage is there, and who need none that is not."""
    met = {name: job for name, job in jobs.items() if _stage(job, stages) < len(stages)}
    for name, job in jobs.items():
        if name not in met:
            why = f"the whole job is left out: `stages` has no {job.get('stage').text or 'test'}"
            omissions.add(job, f"{name}.stage", why)
    for name in sorted(circular({name: _needs(job, met, stages) for name, job in met.items()})):
        omissions.add(met.pop(name), f"{name}.needs", "the whole job is left out: it waits for itself, through others")
    while lost := [(name, job) for name, job in met.items() if set(_needed(job) or ()) - set(met)]:
        for name, job in lost:
            why = "the whole job is left out: it needs one that is left out"
            omissions.add(job.get("needs"), f"{name}.needs", why)
            del met[name]
    return met


def _needed(job: Located) -> tuple[str, ...] | None:
    """Return the jobs that a job names in ``needs``; None if it waits for the stages before it."""
    needs = job.get("needs")
    if needs.value is None:
        return None
    return tuple(each.text or each.get("job").text or "?" for each in needs.items())


def _needs(job: Located, jobs: Mapping[str, Located], stages: tuple[str, ...]) -> tuple[str, ...]:
    named = _needed(job)
    if named is not None:
        return named
    return tuple(name for name, other in jobs.items() if _stage(other, stages) < _stage(job, stages))


def _stages(document: Located) -> tuple[str, ...]:
    given = document.get("stages").texts()
    return (".pre", *given, ".post") if given else _STAGES


def _stage(job: Located, stages: tuple[str, ...]) -> int:
    name = job.get("stage").text or "test"
    return stages.index(name) if name in stages else len(stages)


def _variables(variables: Located, omissions: Omissions) -> dict[str, str]:
    return JobReader(omissions, frozenset()).variables(variables, "variables")


def _tell_artifacts(jobs: Mapping[str, Located], stages: tuple[str, ...], omissions: Omissions) -> None:
    """Leave out the hand-over of files to later jobs, which GitLab does unless a job refuses it."""
    for name, job in jobs.items():
        paths = job.get("artifacts", "paths")
        if paths.value is None:
            continue
        takers = [other for other, each in jobs.items() if _takes(each, name, job, stages)]
        if takers:
            why = f"they are kept, but not put into {', '.join(takers)}: let these build in it, as parent.sh(…) does"
            omissions.add(paths, f"{name}.artifacts.paths", why)


def _takes(job: Located, maker: str, made: Located, stages: tuple[str, ...]) -> bool:
    """Tell whether a job gets the artifacts of another one."""
    dependencies, needs = job.get("dependencies"), _needed(job)
    if isinstance(dependencies.value, tuple):
        return maker in (dependencies.texts() or ())
    if needs is not None:
        return any(
            (each.text or each.get("job").text) == maker and each.get("artifacts").value is not False
            for each in job.get("needs").items()
        )
    return _stage(made, stages) < _stage(job, stages)
