"""GitLab CI files as pipelines. Pure, but for the files that they include, which the caller reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ci_daemon.convert.gitlab_job import JobReader
from ci_daemon.convert.gitlab_merging import GLOBAL_KEYS, Merging, with_includes
from ci_daemon.convert.gitlab_triggers import covers, events_of, simplest
from ci_daemon.convert.gitlab_variables import Variables, told_of_git
from ci_daemon.convert.jobs import Job, circular, in_order, label, levels, waits_in_vain
from ci_daemon.convert.located import Located, NotReadable
from ci_daemon.convert.omissions import LeftOut
from ci_daemon.draft import DraftPipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ci_daemon.convert.omissions import Omissions
    from ci_daemon.draft import DraftStep
    from ci_daemon.draft.model import Trigger

_STAGES = (".pre", "build", "test", "deploy", ".post")
_NOTES = {
    "name": "builds have the commit's message as their title",
    "auto_cancel": "`ci-daemon pipeline edit ORG/PIPELINE --cancel-superseded` says what a newer commit cancels",
}
_MAX_JOBS = 1_000


def convert_gitlab(
    document: Located, omissions: Omissions, included: Callable[[str], Sequence[tuple[str, Located]]] | None = None
) -> tuple[DraftPipeline, ...]:
    """Return the pipeline of a file; none if no job can be converted.

    ``included`` reads the local files of an include, by their names. Raises NotReadable.
    """
    whole = with_includes(document, included or _nothing_included, omissions)
    if whole.get("spec").value is not None:
        message = f"line {whole.get('spec').line}: it takes inputs (`spec`), which have no counterpart here"
        raise NotReadable(message)
    return _File(whole, omissions).pipelines()


def _nothing_included(path: str) -> Sequence[tuple[str, Located]]:
    message = f"{path} is not there"
    raise NotReadable(message)


class _File:
    """The jobs of one file: those that are kept shrink until all that each of them waits for is there."""

    def __init__(self, document: Located, omissions: Omissions) -> None:
        self._document = document
        self._omissions = omissions
        stages = document.get("stages") if document.get("stages").line else document.get("types")
        given = [each.scalar for each in stages.items()]
        if None in given:
            message = f"line {stages.line}: stages: they are no list of names"
            raise NotReadable(message)
        self._stages = (".pre", *(each for each in given if each), ".post") if given else _STAGES
        self._jobs: dict[str, Located] = {}
        """All jobs, also those that are left out, as far as they could be merged."""
        self._events: dict[str, tuple[Trigger, ...]] = {}
        self._steps: dict[str, tuple[DraftStep, ...]] = {}
        """The steps of the jobs that are kept."""
        self._stage: dict[str, int | None] = {}
        self._hands_over: set[str] = set()
        self._makers: dict[str, str | None] = {}
        """The job from whose disk a job starts."""
        self._depth: dict[str, int] = {}
        """The number of jobs whose disks a job's disk came from."""
        self._notes: dict[str, Omissions] = {}
        self._number = {name: place for place, name in reversed(list(enumerate(self._stages)))}

    def pipelines(self) -> tuple[DraftPipeline, ...]:
        document, omissions = self._document, self._omissions
        omissions.told(document.get("workflow"), _NOTES, "workflow.")
        variables = document.get("variables")
        omissions.unknown(variables, frozenset(variables.mapping()), "variables.")
        told_of_git(variables, "variables", omissions)
        try:
            values = Variables(variables.mapping(), "variables").values
        except LeftOut:  # each job that has it says so
            values = {}
        self._read(variables, values)
        self._leave_out_circles()
        self._leave_out_unmet()
        for name in self._steps:
            omissions.take(self._notes[name])
        if not self._steps:
            return ()
        events = simplest(each for name in self._steps for each in self._events[name])
        ordered = self._final(events)
        return (DraftPipeline("ci", levels(ordered), env=values, triggers=events),)

    def _read(self, variables: Located, values: dict[str, str]) -> None:
        merging = Merging(self._document)
        names = [each for each in self._document.mapping() if each not in GLOBAL_KEYS and not each.startswith(".")]
        if len(names) > _MAX_JOBS:
            message = f"it has more than {_MAX_JOBS} jobs"
            raise NotReadable(message)
        count = 0
        for name in names:
            self._jobs[name] = self._document.get(name)
            self._place(name)
            notes = self._notes[name] = self._omissions.of_a_part()
            try:
                job = self._jobs[name] = merging.job(name)
                self._place(name)
                if name == "pages":
                    raise LeftOut(job, name, "GitLab publishes what it makes, and nothing does here")
                if self._stage[name] is None:
                    why = f"`stages` has no {label(job.get('stage').scalar or 'test')}"
                    raise LeftOut(job, f"{name}.stage", why)
                self._events[name] = events_of(job, self._document.get("workflow", "rules"), name)
                self._steps[name] = JobReader(notes, variables, values).steps(name, job)
            except LeftOut as left_out:
                self._omissions.add_job(left_out)
            count += len(self._steps.get(name, ()))
            if count > _MAX_JOBS:
                message = f"its jobs have more than {_MAX_JOBS} copies"
                raise NotReadable(message)

    def _place(self, name: str) -> None:
        """Note what others often ask of a job: its stage, and whether it hands files over."""
        job = self._jobs[name]
        stage, artifacts = job.get("stage"), job.get("artifacts")
        self._stage[name] = self._number.get("test" if stage.value is None else stage.scalar or "")
        dotenv = artifacts.get("reports", "dotenv").value
        hands_over = artifacts.get("paths").items() or artifacts.get("untracked").value is True or dotenv is not None
        (self._hands_over.add if hands_over else self._hands_over.discard)(name)

    def _before(self, name: str, other: str) -> bool:
        """Tell whether a stage comes before that of a job; that of a job whose stage is not known may."""
        stage, others = self._stage[name], self._stage[other]
        return stage is not None and (others is None or others < stage) and name != other

    def _named(self, name: str) -> list[str] | None:
        """Return the jobs that a job names in ``needs``; None if it waits for the stages before it."""
        needs = self._jobs[name].get("needs")
        if needs.value is None:
            return None
        named = [(each.text or each.get("job").text or "?", each.get("optional").value) for each in needs.items()]
        return [each for each, optional in named if each in self._jobs or optional is not True]

    def _needs(self, name: str) -> tuple[str, ...]:
        named = self._named(name)
        return tuple(named) if named is not None else tuple(each for each in self._steps if self._before(name, each))

    def _leave_out(self, name: str, left_out: LeftOut) -> None:
        self._omissions.add_job(left_out)
        del self._steps[name]

    def _leave_out_circles(self) -> None:
        for name in sorted(circular({name: self._needs(name) for name in self._steps})):
            at = self._jobs[name].get("needs")
            self._leave_out(name, LeftOut(at, f"{name}.needs", "it waits for itself, through others"))

    def _leave_out_unmet(self) -> None:
        """Leave out the jobs that wait for others, or take files of others, that are not there."""
        for name in in_order({name: self._needs(name) for name in self._steps}):
            try:
                self._check_needs(name)
                maker = self._makers[name] = self._maker(name)
                self._depth[name] = 0 if maker is None else self._depth[maker] + 1
            except LeftOut as left_out:
                self._leave_out(name, left_out)

    def _check_needs(self, name: str) -> None:
        job, named = self._jobs[name], self._named(name)
        if named is None:
            lost = [each for each in self._jobs if each not in self._steps and self._gates(each)]
            if lost := [each for each in lost if self._before(name, each)]:
                why = f"it comes after {_names(lost)}, which is left out"
                raise LeftOut(job, f"{name}.stage", why)
            return
        at = job.get("needs")
        if lost := [each for each in named if each not in self._steps]:
            raise LeftOut(at, f"{name}.needs", f"it needs {_names(lost)}, which is left out")
        if lost := [each for each in named if not covers(self._events[each], self._events[name])]:
            raise LeftOut(at, f"{name}.needs", f"it needs {_names(lost)}, which does not run for all of its events")

    def _gates(self, name: str) -> bool:
        """Tell whether later stages wait until a job has passed."""
        job = self._jobs[name]
        when = job.get("when").text
        if job.get("rules").value is not None:
            return True
        return not (
            when in {"on_failure", "never"} or (when == "manual" and job.get("allow_failure").value is not False)
        )

    def _maker(self, name: str) -> str | None:
        """Return the job whose files this one takes, and so starts from its disk; None if it takes none.

        Raises LeftOut if no disk has all that it takes.
        """
        job = self._jobs[name]
        makers = [each for each in self._jobs if each in self._hands_over and each != name and self._takes(name, each)]
        if not makers:
            return None
        last = max(makers, key=lambda each: self._depth.get(each, 0))
        steps = self._steps.get(last, ())
        known = (
            set(makers) <= {last, *self._chain(last)}
            and len(steps) == 1
            and steps[0].image == self._steps[name][0].image
            and "soft_fail" not in steps[0].runner_args
            and self._jobs[last].get("artifacts", "reports", "dotenv").value is None
            and self._jobs[last].get("artifacts", "when").text in {None, "on_success", "always"}
        )
        if not known:
            at = next((part for part in (job.get("dependencies"), job.get("needs")) if part.line), job)
            why = f"it takes files of {_names(makers)}: write it as parent.sh(…) of the one that has all that it needs"
            raise LeftOut(at, name, why)
        return last

    def _chain(self, name: str) -> list[str]:
        """Return the jobs whose disks a job's disk came from."""
        found: list[str] = []
        while (before := self._makers.get(found[-1] if found else name)) is not None:
            found.append(before)
        return found

    def _takes(self, name: str, maker: str) -> bool:
        """Tell whether a job gets the artifacts of another one."""
        job = self._jobs[name]
        dependencies, needs = job.get("dependencies"), job.get("needs")
        if maker not in self._steps and not self._gates(maker):
            return False
        if dependencies.value is not None:
            return maker in (dependencies.texts() or ()) and (self._before(name, maker) or maker in self._needs(name))
        if needs.value is not None:
            return any(
                (each.text or each.get("job").text) == maker and each.get("artifacts").value is not False
                for each in needs.items()
            )
        return self._before(name, maker)

    def _final(self, events: tuple[Trigger, ...]) -> list[Job]:
        """Return the jobs that are kept, with the disks that their steps start from, and their events."""
        final: dict[str, tuple[DraftStep, ...]] = {}
        jobs = [Job(name, steps, self._needs(name)) for name, steps in self._steps.items()]
        for name, others in waits_in_vain(jobs).items():
            why = f"it also waits for {_names(others)}, and does not run if that fails"
            at = self._jobs[name].get("needs")
            self._omissions.add(at if at.line else self._jobs[name], f"{name}.needs", why)
        for name in in_order({job.name: job.needs for job in jobs}):
            maker, job = self._makers[name], self._jobs[name]
            changed: dict[str, object] = {}
            if maker is not None:
                why = f"it starts from the disk of {maker}, with all that is there, not its artifacts alone"
                self._omissions.add(job, name, why)
                changed |= {"parent": final[maker][0], "image": None}
            if self._events[name] != events:
                why = "its step passes at once, and runs nothing, for events that it is not for"
                self._omissions.add(job, name, why)
                changed["only"] = self._events[name]
            final[name] = tuple(replace(step, **changed) for step in self._steps[name])  # type: ignore[arg-type]
        return [Job(job.name, final[job.name], job.needs) for job in jobs]


def _names(names: Sequence[str]) -> str:
    shown = [label(each) for each in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004 - a line
