"""The result of a check: the pipelines that there are, and what was found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from storage import EdgeKind, immutable

if TYPE_CHECKING:
    from actors.ir import Plan
    from storage import NewJob


@immutable
class Place:
    """A line of a file, perhaps with a column; without a line the whole file."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(each) for each in (self.file, self.line, self.column) if each is not None)


@immutable
class Finding:
    """A mistake or a warning. ``step`` is the key of the step that it is about.

    ``excerpt`` is its line as people read it, with a caret below the column, where both are known.
    """

    message: str
    place: Place | None = None
    code: str | None = None
    step: str | None = None
    excerpt: str = ""

    def __str__(self) -> str:
        where = "" if self.place is None else f"{self.place}: "
        code = "" if self.code is None else f"{self.code}: "
        step = "" if self.step is None else f'step "{self.step}": '
        return f"{where}{code}{step}{self.message}"

    @property
    def text(self) -> str:
        """The finding with its line below it."""
        return f"{self}\n{self.excerpt}" if self.excerpt else str(self)

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        place = self.place
        return {
            "file": None if place is None else place.file,
            "line": None if place is None else place.line,
            "column": None if place is None else place.column,
            "code": self.code,
            "step": self.step,
            "message": self.message,
        }


@immutable
class LintedPipeline:
    """One pipeline; ``plan`` is None if there are mistakes. Without the language there are no triggers."""

    slug: str
    plan: Plan | None
    triggers: tuple[Any, ...] | None = None
    mistakes: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as a document, without what was found."""
        jobs = () if self.plan is None else self.plan.jobs
        return {
            "slug": self.slug,
            "timeout_seconds": None if self.plan is None else self.plan.timeout_seconds,
            "triggers": self.triggers,
            "jobs": [_job(job, jobs) for job in jobs],
        }


@immutable
class Report:
    """All pipelines of a project, and the mistakes for which it has none."""

    pipelines: tuple[LintedPipeline, ...]
    failures: tuple[Finding, ...] = ()

    @property
    def mistakes(self) -> tuple[Finding, ...]:
        """All mistakes."""
        return (*self.failures, *(each for pipeline in self.pipelines for each in pipeline.mistakes))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """All warnings."""
        return tuple(each for pipeline in self.pipelines for each in pipeline.warnings)

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {
            "pipelines": [each.as_json() for each in self.pipelines],
            "mistakes": [each.as_json() for each in self.mistakes],
            "warnings": [each.as_json() for each in self.warnings],
        }


def parent_of(job: NewJob, jobs: tuple[NewJob, ...]) -> NewJob | None:
    """Return the job whose disk a job starts from."""
    return next((jobs[each.position] for each in job.depends_on if each.kind is EdgeKind.BUILDS_IN), None)


def waits_of(job: NewJob, jobs: tuple[NewJob, ...]) -> list[str]:
    """Return the keys of the jobs that a job only waits for."""
    return [jobs[each.position].step_key for each in job.depends_on if each.kind is EdgeKind.DEPENDS_ON]


def _job(job: NewJob, jobs: tuple[NewJob, ...]) -> dict[str, Any]:
    parent = parent_of(job, jobs)
    return {
        "step_key": job.step_key,
        "name": job.name,
        "command": job.command,
        "image": job.image,
        "builds_in": None if parent is None else parent.step_key,
        "waits_for": waits_of(job, jobs),
        "cache": job.cache_policy,
        "timeout_seconds": job.timeout_seconds,
        "skipped": job.skipped,
    }
