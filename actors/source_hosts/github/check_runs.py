"""Check runs: a build as GitHub shows it, with annotations, and summaries of its jobs. Pure."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import field
from typing import TYPE_CHECKING, Any, assert_never

from actors.source_hosts.github.payloads import APPROVE
from actors.source_hosts.host import COMMIT_CHECK, ReportState
from actors.test_reports import NO_TESTS
from storage import AnnotationLevel, JobState, WaitsFor, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from actors.source_hosts.host import CommitReport, Report, Skip
    from actors.test_reports import FailedTest, TestResults
    from storage import Annotation, Job, ShownAnnotation, ShownSummary


MOST_ANNOTATIONS = 50
"""The most annotations that GitHub takes with one request."""

_LONGEST_TITLE = 250
_LONGEST_MESSAGE = 4_000
_MOST_LINES = 200
_MOST_NAMES = 20
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LONGEST_LINE = 500
_LEAST_ROOM = 200
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, and marks that turn the direction of text."""
TAIL_BYTES = 32 * 2**10
"""The bytes of a log's end that its last lines are taken from."""

_MOST_CHARACTERS = 60_000
"""GitHub takes 65,535, and counts them in its own way."""

_APPROVE = {"label": "Approve", "description": "Let this commit be built", "identifier": APPROVE}
_MOST_ROWS = 100
_LONGEST_NAME = 60
_MOST_LOGS = 10
_MOST_OTHERS = 5
_LINES = 30
_LOG_CHARACTERS = 4_000


_LEVELS = {
    AnnotationLevel.ERROR: "failure",
    AnnotationLevel.WARNING: "warning",
    AnnotationLevel.NOTICE: "notice",
}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")


@immutable
class Remarks:
    """Annotations and summaries of a build's jobs, without their secrets.

    ``placed`` are annotations of files in the repository, errors first, ``others`` those of no place. ``counts`` has
    the number of all by level.
    """

    placed: tuple[Annotation, ...] = ()
    others: tuple[ShownAnnotation, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    summaries: tuple[ShownSummary, ...] = ()


NO_REMARKS = Remarks()


def annotations_of(tests: TestResults, remarks: Remarks) -> list[Mapping[str, object]]:
    """Return the annotations of a check run: of tests that failed in a file, then of jobs."""
    placed = [each for each in tests.failed if each.location is not None]
    failed = [_annotation(each) for each in sorted(placed, key=lambda each: each.allowed)]
    return [*failed, *map(_of_job, remarks.placed)][:MOST_ANNOTATIONS]


def _of_job(said: Annotation) -> Mapping[str, object]:
    made = {
        "path": said.path,
        "start_line": said.line or 1,
        "end_line": said.line or 1,
        "annotation_level": _LEVELS[said.level],
        "message": last_lines(said.message.encode(), _MOST_LINES, _LONGEST_MESSAGE) or "It has no message.",
    }
    if said.column is not None:
        made |= {"start_column": said.column, "end_column": said.column}
    if said.title:
        made["title"] = said.title[:_LONGEST_TITLE]
    return made


def summary_of_annotations(remarks: Remarks) -> str | None:
    """Return the number of annotations by level, and those of no place; None if there are none."""
    if not remarks.counts:
        return None
    counts = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in remarks.counts.items())
    shown = remarks.others[:_MOST_NAMES]
    named = [f"- {plain(each.job_name)}: {plain(each.annotation.message[:_LONGEST_LINE])}" for each in shown]
    return "\n".join([f"#### Annotations: {counts}", *([""] if named else []), *named])


def inert(markdown: str, room: int) -> str:
    """Return whole lines of a stranger's Markdown, of at most so many characters.

    It has no HTML, picture or mention, and ends the code block that it leaves open, so that what follows stays as it
    is. Only at the beginning of a line a fence is one whatever stands before it: others are taken for text.
    """
    kept: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            shown = line
            if found and found[1].startswith(fence) and not found[2].strip(" \t"):
                fence = ""
        else:
            shown = line.replace("<", "&lt;").replace("![", "[").replace("@", "&#64;")
            if found and line[0] in "`~" and not (line[0] == "`" and "`" in found[2]):
                fence = found[1]
        room -= len(shown) + 1
        if room < len(fence):
            kept.append(f"{fence}\n\n… the rest is on the page of the build." if fence else "… and more.")
            return "\n".join(kept)
        kept.append(shown)
    return "\n".join([*kept, fence] if fence else kept)


def summary_of_tests(tests: TestResults) -> str | None:
    """Return the failed tests by name, and what is not shown; None if there is nothing to say."""
    notes = [f"{tests.left_out}."] if tests.left_out else []
    placed = sum(each.location is not None for each in tests.failed)
    if placed > MOST_ANNOTATIONS:
        said = f"the first {MOST_ANNOTATIONS} are annotated"
        notes.append(f"Of {placed} failed tests in files of the repository, {said}.")
    if tests.failures:
        names = [f"- {plain(_name(each))}" for each in tests.failed[:_MOST_NAMES]]
        more = tests.failures - len(names)
        if more:
            names.append(f"- … and {more} more")
        notes.insert(0, "\n".join([f"#### {tests.failures} of {tests.count} tests failed", "", *names]))
    return "\n\n".join(notes) or None


def _annotation(failed: FailedTest) -> Mapping[str, object]:
    path, line = ("", 1) if failed.location is None else (failed.location.path, failed.location.line)
    message = last_lines(failed.case.output.encode(errors="replace"), _MOST_LINES, _LONGEST_MESSAGE)
    return {
        "path": path,
        "start_line": line,
        "end_line": line,
        "annotation_level": "warning" if failed.allowed else "failure",
        "title": _name(failed)[:_LONGEST_TITLE],
        "message": message or "This test failed.",
    }


def _name(failed: FailedTest) -> str:
    name = " ".join(each for each in (failed.case.suite, failed.case.name) if each) or "a test without a name"
    return "".join(each if not unicodedata.category(each).startswith("C") else " " for each in name)


def plain(text: str) -> str:
    """Return text that shows as it is, in one line: no mark-up, link, mention or cell of a table."""
    visible = "".join(" " if unicodedata.category(each) in _INVISIBLE else each for each in text)
    return "".join(
        f"&#{ord(each)};" if each.isascii() and not each.isalnum() and each != " " else each for each in visible
    )


def fenced(text: str) -> str:
    """Return a code block that none of its lines can end."""
    longest = max((len(each) for each in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def last_lines(log: bytes, count: int, most_characters: int) -> str:
    """Return the last lines of a log without colours, controls and blank lines at the end."""
    lines = []
    for line in _ESCAPES.sub("", log.decode(errors="replace")).rstrip().split("\n")[-count:]:
        shown = line.rstrip("\r").rpartition("\r")[2]  # a progress bar writes over itself
        kept = "".join(each for each in shown if each == "\t" or unicodedata.category(each) not in _INVISIBLE)
        lines.append(kept if len(kept) <= _LONGEST_LINE else f"{kept[:_LONGEST_LINE]}…")
    while len(lines) > 1 and sum(len(each) + 1 for each in lines) > most_characters:
        del lines[0]
    return "\n".join(lines)[-most_characters:]


@immutable
class FinishedStep:
    """A job of a build that has ended or not, and the end of its log if it failed."""

    job: Job
    log: bytes = b""


def check_run(
    report: Report, steps: Sequence[FinishedStep], tests: TestResults = NO_TESTS, remarks: Remarks = NO_REMARKS
) -> dict[str, Any]:
    """Return the check run of a build, as GitHub's API takes it; the commit is not in it.

    GitHub asks of a required check no more than that its newest run passed. So one of a build that has passed fails, or
    goes on, with other builds of the commit.
    """
    build, state = report.build, _shown(report)
    title, summary = _title(report, steps), _summary(report, steps, tests, remarks)
    if state is not report.state:
        worst = report.worst_first()[0]
        title = f"{title}, build {worst.build.number}: {worst.state}"
        summary = "\n\n".join((_of_others(report), summary))
    if report.coverage:
        title = f"{title}, {report.coverage}"
    output: dict[str, object] = {"title": title, "summary": summary}
    if annotated := annotations_of(tests, remarks):
        output["annotations"] = annotated
    run: dict[str, Any] = {
        "name": f"ci/{build.pipeline_slug}",
        "external_id": build.uuid,
        "details_url": report.url,
        "output": output,
    }
    if build.started_at is not None:
        run["started_at"] = _instant(build.started_at)
    match state:
        case ReportState.WAITING:
            run["status"] = "queued"
            if build.waits_for is WaitsFor.APPROVAL:
                run["actions"] = [_APPROVE]
        case ReportState.RUNNING:
            run["status"] = "in_progress"
        case ReportState.PASSED | ReportState.FAILED | ReportState.CANCELED:
            run["status"] = "completed"
            run["conclusion"] = _conclusion(state, steps)
            if build.finished_at is not None:
                run["completed_at"] = _instant(build.finished_at)
        case _:
            assert_never(report.state)
    return run


def skipped_run(skip: Skip) -> Mapping[str, object]:
    """Return the check run of a pipeline that is not built for a commit, with the commit."""
    return {
        "name": f"ci/{skip.pipeline_slug}",
        "head_sha": skip.commit,
        "details_url": skip.url,
        "status": "completed",
        "conclusion": "skipped",
        "output": {"title": "Skipped", "summary": plain(f"{skip.pipeline_slug} is not built: {skip.reason}")},
    }


def commit_run(report: CommitReport) -> Mapping[str, object]:
    """Return the check run of all pipelines of a commit, without the commit, as GitHub takes it."""
    conclusions = {
        ReportState.PASSED: "success",
        ReportState.FAILED: "failure",
        ReportState.CANCELED: "cancelled",
    }
    run: dict[str, object] = {
        "name": COMMIT_CHECK,
        "details_url": report.url,
        "output": {"title": f"All pipelines: {report.state}", "summary": plain(report.description)},
    }
    if report.state.ended:
        return {**run, "status": "completed", "conclusion": conclusions[report.state]}
    return {**run, "status": "in_progress" if report.state is ReportState.RUNNING else "queued"}


def _shown(report: Report) -> ReportState:
    """Return the state of a build that has not passed, else that of the worst build of the commit."""
    return report.state if report.state is not ReportState.PASSED else report.worst_first()[0].state


def _of_others(report: Report) -> str:
    """Return the sentence that names the builds which keep a commit from having passed."""
    named = [each for each in report.worst_first() if each.state is not ReportState.PASSED][:_MOST_OTHERS]
    builds = ", ".join(f"[build {each.build.number}]({each.url}) ({_of_event(each)}: {each.state})" for each in named)
    return f"This build passed. The commit has others of this pipeline that did not: {builds}."


def _of_event(report: Report) -> str:
    origin = report.origin
    if origin.pull_request is not None:
        return f"pull request {origin.pull_request}"
    return plain(origin.ref.removeprefix("refs/heads/").removeprefix("refs/")[:_LONGEST_NAME])


def _conclusion(state: ReportState, steps: Sequence[FinishedStep]) -> str:
    """Return the conclusion; neutral is that of a build in which nothing failed and nothing ran."""
    if state is ReportState.CANCELED:
        return "cancelled"
    if state is ReportState.FAILED:
        return "failure"
    return "success" if any(each.job.state is JobState.PASSED for each in steps) else "neutral"


def _title(report: Report, steps: Sequence[FinishedStep]) -> str:
    build, number = report.build, f"Build {report.build.number}"
    failed = sum(_is_failure(each.job) for each in steps)
    match report.state:
        case ReportState.WAITING if build.waits_for is WaitsFor.APPROVAL:
            return f"{number} waits for an approval"
        case ReportState.WAITING:
            return f"{number} waits"
        case ReportState.RUNNING:
            return f"{number} runs"
        case ReportState.PASSED:
            return f"{number} passed"
        case ReportState.FAILED if failed:
            return f"{number} failed: {failed} of {len(steps)} steps"
        case ReportState.FAILED:
            return f"{number} failed"
        case ReportState.CANCELED:
            return f"{number} was canceled"
        case _:
            assert_never(report.state)


def _summary(report: Report, steps: Sequence[FinishedStep], tests: TestResults, remarks: Remarks) -> str:
    build, parts = report.build, []
    if build.waits_for is WaitsFor.APPROVAL and build.approval_reason:
        parts.append(plain(build.approval_reason))
    if build.error_message:
        parts.append(fenced(last_lines(build.error_message.encode(), _LINES, _LOG_CHARACTERS)))
    if steps:
        parts.append(_table([each.job for each in steps]))
    parts += filter(None, (_of_previews(report), summary_of_tests(tests), summary_of_annotations(remarks)))
    failures = [each for each in steps if _is_failure(each.job)]
    parts += [_failure(each) for each in failures[:_MOST_LOGS]]
    while len("\n\n".join(parts)) > _MOST_CHARACTERS:
        parts.pop()
    for each in remarks.summaries:
        heading = f"#### {plain(each.job_name[:_LONGEST_NAME])}: summary"
        room = _MOST_CHARACTERS - len("\n\n".join([*parts, heading])) - _LEAST_ROOM
        if room < _LEAST_ROOM:
            break
        parts += [heading, inert(each.text, room)]
    return "\n\n".join(parts)


def _of_previews(report: Report) -> str | None:
    """Return links to the previews of a build, and why others are gone; None if it has none."""
    rows = []
    for each in report.previews[:_MOST_NAMES]:
        name = plain(each.job_name[:_LONGEST_NAME])
        rows.append(f"- [{name}]({each.url})" if each.why_ended is None else f"- {name}: gone, {plain(each.why_ended)}")
    if more := len(report.previews) - len(rows):
        rows.append(f"- … and {more} more")
    return "\n".join(["#### Previews", "", *rows]) if rows else None


def _table(jobs: Sequence[Job]) -> str:
    rows = ["| Step | State | Time |", "| :-- | :-- | --: |"]
    rows += [f"| {plain(each.name[:_LONGEST_NAME])} | {_state(each)} | {_time(each)} |" for each in jobs[:_MOST_ROWS]]
    if len(jobs) > _MOST_ROWS:
        rows.append(f"| … and {len(jobs) - _MOST_ROWS} more | | |")
    return "\n".join(rows)


def _failure(step: FinishedStep) -> str:
    job = step.job
    heading = f"#### {plain(job.name[:_LONGEST_NAME])}: {_state(job)}"
    why = f"\n\n{plain(job.error_message[:1000])}" if job.error_message else ""
    lines = last_lines(step.log, _LINES, _LOG_CHARACTERS)
    return f"{heading}{why}" + (f"\n\n{fenced(lines)}" if lines else "")


def _is_failure(job: Job) -> bool:
    return job.state.failed and not job.soft_failed


def _state(job: Job) -> str:
    words = str(job.state).replace("_", " ")
    if job.state is JobState.FAILED and job.exit_code is not None:
        words += f", exit code {job.exit_code}"
    if job.cache_hit:
        words += ", cached"
    if job.taken_from is not None:
        words += f", taken over from build {job.taken_from}"
    if not (job.state.failed and job.soft_failed):
        return words
    in_quarantine = job.error_code is None and job.error_message is not None
    return f"{words}: {job.error_message}" if in_quarantine else f"{words}, allowed to"


def _time(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    seconds = int((job.finished_at - job.started_at).total_seconds())
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"  # noqa: PLR2004 - a minute


def _instant(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
