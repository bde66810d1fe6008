"""GitLab CI files as pipelines. Pure, but for the files that they include, which the caller reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir.systems.gitlab_conditions import events_of, union_of
from actors.ir.systems.gitlab_job import JobReader, is_large, kept_path
from actors.ir.systems.gitlab_merging import GLOBAL_KEYS, Merging, with_includes
from actors.ir.systems.gitlab_variables import Variables, told_of_git
from actors.ir.systems.jobs import check_names, circular, in_order, label
from actors.ir.systems.located import Located, NotReadable
from actors.ir.systems.model import ConvertedPipeline
from actors.ir.systems.omissions import LeftOut
from actors.ir.systems.paths import is_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.ir.systems.gitlab_conditions import Events
    from actors.ir.systems.model import Job
    from actors.ir.systems.omissions import Omissions

_STAGES = (".pre", "build", "test", "deploy", ".post")
_NOTES = {
    "name": "builds have the commit's message as their title",
    "auto_cancel": "`ci-daemon pipeline edit ORG/PIPELINE --cancel-superseded` says what a newer commit cancels",
}
_MAX_JOBS = 1_000


def convert_gitlab(
    document: Located, omissions: Omissions, included: Callable[[str], Sequence[tuple[str, Located]]] | None = None
) -> tuple[ConvertedPipeline, ...]:
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
        self._events: dict[str, Events] = {}
        self._kept: dict[str, Job] = {}
        self._stage: dict[str, int | None] = {}
        self._hands_over: set[str] = set()
        self._makers: dict[str, str | None] = {}
        """The job from whose disk a job starts."""
        self._files: dict[str, dict[str, tuple[str, ...]]] = {}
        """The jobs whose artifacts a job takes, with the globs that select them."""
        self._depth: dict[str, int] = {}
        """The number of jobs whose disks a job's disk came from."""
        self._notes: dict[str, Omissions] = {}
        self._number = {name: place for place, name in reversed(list(enumerate(self._stages)))}

    def pipelines(self) -> tuple[ConvertedPipeline, ...]:
        document, omissions = self._document, self._omissions
        omissions.told(document.get("workflow"), _NOTES, "workflow.")
        variables = document.get("variables")
        omissions.unknown(variables, frozenset(variables.mapping()), "variables.")
        told_of_git(variables, "variables", omissions)
        try:
            values = Variables(variables.mapping(), "variables").values
            check_names(variables, "variables", values.values())
        except LeftOut:  # each job that has it says so
            values = {}
        self._read(variables, values)
        self._leave_out_circles()
        self._leave_out_unmet()
        for name in self._kept:
            omissions.take(self._notes[name])
        if not self._kept:
            return ()
        events = union_of(self._events[name] for name in self._kept)
        jobs = tuple(self._final(name, events) for name in self._kept)
        return (ConvertedPipeline("ci", jobs, on=events.on, env=values, notes=omissions.all),)

    def _final(self, name: str, events: Events) -> Job:
        """Return a job with what it waits for, the disk that it starts from, and its condition."""
        maker = self._makers[name]
        if maker is not None:
            why = f"it starts from the disk of {label(maker)}, with all that is there, not its artifacts alone"
            self._notes[name].add(self._jobs[name], name, why)
            self._omissions.take(self._notes[name])
        when, files = self._events[name].when(events), self._files[name]
        needs = tuple(dict.fromkeys((*self._needs(name), *files)))
        outputs_of = tuple(each for each in needs if self._gives_variables(each))
        return replace(self._kept[name], needs=needs, parent=maker, when=when, files=files, outputs_of=outputs_of)

    def _gives_variables(self, name: str) -> bool:
        return self._jobs[name].get("artifacts", "reports", "dotenv").value is not None

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
            notes = self._notes[name] = self._omissions.of_a_part(name)
            try:
                job = self._jobs[name] = merging.job(name)
                self._place(name)
                if name == "pages":
                    raise LeftOut(job, name, "GitLab publishes what it makes, and nothing does here")
                if self._stage[name] is None:
                    why = f"`stages` has no {label(job.get('stage').scalar or 'test')}"
                    raise LeftOut(job, f"{name}.stage", why)
                self._events[name] = events_of(job, self._document.get("workflow", "rules"), name, notes)
                self._kept[name] = JobReader(notes, variables, values).job(name, job)
            except LeftOut as left_out:
                self._omissions.add_job(left_out)
            count += len(self._kept[name].cells) if name in self._kept else 0
            if count > _MAX_JOBS:
                message = f"its jobs have more than {_MAX_JOBS} copies"
                raise NotReadable(message)

    def _place(self, name: str) -> None:
        """Note what others often ask of a job: its stage, and whether it hands files over."""
        job = self._jobs[name]
        stage, artifacts = job.get("stage"), job.get("artifacts")
        self._stage[name] = self._number.get("test" if stage.value is None else stage.scalar or "")
        hands_over = artifacts.get("paths").items() or artifacts.get("untracked").value is True
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
        return tuple(named) if named is not None else tuple(each for each in self._kept if self._before(name, each))

    def _leave_out(self, name: str, left_out: LeftOut) -> None:
        self._omissions.add_job(left_out)
        del self._kept[name]

    def _leave_out_circles(self) -> None:
        for name in sorted(circular({name: self._needs(name) for name in self._kept})):
            at = self._jobs[name].get("needs")
            self._leave_out(name, LeftOut(at, f"{name}.needs", "it waits for itself, through others"))

    def _leave_out_unmet(self) -> None:
        """Leave out the jobs that wait for others, or take files of others, that are not there."""
        for name in in_order({name: self._needs(name) for name in self._kept}):
            try:
                self._check_needs(name)
                maker, self._files[name] = self._maker(name)
                self._makers[name] = maker
                self._depth[name] = 0 if maker is None else self._depth[maker] + 1
            except LeftOut as left_out:
                self._leave_out(name, left_out)

    def _check_needs(self, name: str) -> None:
        job, named = self._jobs[name], self._named(name)
        if named is None:
            lost = [each for each in self._jobs if each not in self._kept and self._gates(each)]
            if lost := [each for each in lost if self._before(name, each)]:
                why = f"it comes after {_names(lost)}, which is left out"
                raise LeftOut(job, f"{name}.stage", why)
            return
        at = job.get("needs")
        if lost := [each for each in named if each not in self._kept]:
            raise LeftOut(at, f"{name}.needs", f"it needs {_names(lost)}, which is left out")
        if lost := [each for each in named if not self._always_runs(name, each)]:
            raise LeftOut(at, f"{name}.needs", f"it needs {_names(lost)}, which does not run for all of its events")

    def _always_runs(self, name: str, other: str) -> bool:
        """Tell whether another job is there whenever a job is, or need not be."""
        optional = {
            each.get("job").text for each in self._jobs[name].get("needs").items() if each.get("optional").value
        }
        return other in optional or self._events[other].covers(self._events[name])

    def _gates(self, name: str) -> bool:
        """Tell whether later stages wait until a job has passed."""
        job = self._jobs[name]
        when = job.get("when").text
        if job.get("rules").value is not None:
            return True
        return not (
            when in {"on_failure", "never"} or (when == "manual" and job.get("allow_failure").value is not False)
        )

    def _maker(self, name: str) -> tuple[str | None, dict[str, tuple[str, ...]]]:
        """Return the job from whose disk this one starts, or else the jobs whose files it takes, with globs.

        Raises LeftOut if neither has all that it takes.
        """
        job = self._jobs[name]
        makers = [each for each in self._jobs if each in self._hands_over and each != name and self._takes(name, each)]
        if not makers:
            return None, {}
        last = max(makers, key=lambda each: self._depth.get(each, 0))
        cells = self._kept[last].cells if last in self._kept else ()
        known = (
            set(makers) <= {last, *self._chain(last)}
            and len(cells) == 1
            and all(each.members["image"] == cells[0].members["image"] for each in self._kept[name].cells)
            and "soft_fail" not in cells[0].members
            and not (self._events[name].always or self._events[name].failed)
            and self._events[last].covers(self._events[name])
            and self._jobs[last].get("artifacts", "when").text in {None, "on_success", "always"}
        )
        if known:
            return last, {}
        at = next((part for part in (job.get("dependencies"), job.get("needs")) if part.line), job)
        files: dict[str, tuple[str, ...]] = {}
        for each in makers:
            if (why := self._not_given(name, each)) is not None:
                raise LeftOut(at, name, f"it takes files of {label(each)}: {why}")
            kept = self._kept[each].cells[0].members["artifacts"]
            files[each] = tuple(kept) if len(kept) == 1 else ("**",)
        paths = Counter(path for each in makers for path in self._kept[each].cells[0].members["artifacts"])
        if twice := [path for path, count in paths.items() if count > 1 and is_file(path)]:
            raise LeftOut(at, name, f"it takes {label(twice[0])} of several jobs: give these files other names")
        why = f"it takes the files of {_names(makers)}: it fails where one has kept none, or two have kept one path"
        self._notes[name].add(at, name, why)
        return None, files

    def _not_given(self, name: str, maker: str) -> str | None:
        """Return why a job cannot take the artifacts of another one as `files`; None if it can."""
        job = self._kept.get(maker)
        artifacts = self._jobs[maker].get("artifacts")
        paths = [kept_path(each) for each in artifacts.get("paths").items()]
        if job is None:
            return "it is left out"
        if artifacts.get("when").text not in {None, "on_success", "always"}:
            return "it keeps them only after a failure"
        if artifacts.get("untracked").value is True or None in paths or "exclude" in artifacts.mapping():
            return "not all of its paths are plain globs below the project"
        if large := [each for each in paths if each is not None and is_large(each)]:
            return f"{label(large[0])} has more files than a job may keep: let one image have both, or install it again"
        if self._events[name].always or self._events[name].failed:
            return "it also runs after a failure, when they may not be there"
        if not self._events[maker].covers(self._events[name]):
            return "it does not run for all of its events"
        if "soft_fail" in job.cells[0].members:
            return "it may fail, and they may not be there then"
        if len(job.cells) > 1 and any(each is not None and is_file(each) for each in paths):
            return "each of its copies keeps a file of one name: let the names have the number of the copy"
        return None

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
        if maker not in self._kept and not self._gates(maker):
            return False
        if dependencies.value is not None:
            return maker in (dependencies.texts() or ()) and (self._before(name, maker) or maker in self._needs(name))
        if needs.value is not None:
            return any(
                (each.text or each.get("job").text) == maker and each.get("artifacts").value is not False
                for each in needs.items()
            )
        return self._before(name, maker)


def _names(names: Sequence[str]) -> str:
    shown = [label(each) for each in names[:5]]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004 - a line
