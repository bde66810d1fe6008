"""The steps that failed a build, with the ends of their logs."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from storage import JobState, immutable

if TYPE_CHECKING:
    from storage import Build, Job, Storage

_MOST = 5
_TAIL_BYTES = 16 * 1024
_LINES = 20
_LONGEST_LINE = 200
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""A sequence that colours text or moves a terminal's cursor."""


@immutable
class FailedStep:
    """A step that failed, why, and the last lines of its log."""

    name: str
    reason: str
    lines: tuple[str, ...]


def failed_steps(storage: Storage, build: Build) -> list[FailedStep]:
    """Return the first failed steps of a build. Their logs are masked as they are stored."""
    failed = [job for job in storage.jobs.of_build(build.id) if job.state.failed and not job.soft_failed]
    return [_failed_step(storage, build, job) for job in failed[:_MOST]]


def last_lines(log: bytes, *, whole: bool) -> tuple[str, ...]:
    """Return the last lines of a log. If it is not ``whole``, its first line is cut and left out."""
    lines = _ESCAPE.sub("", log.decode(errors="replace")).split("\n")
    shown = (_shown(line) for line in (lines if whole else lines[1:]))
    return tuple([line for line in shown if line][-_LINES:])


def _failed_step(storage: Storage, build: Build, job: Job) -> FailedStep:
    name, reason = (" ".join(text.split()) for text in (job.name or job.step_key, _reason(job)))
    return FailedStep(_shown(name), _shown(reason), _tail(storage, build, job))


def _shown(line: str) -> str:
    """Return what is left of a line on a screen: what follows the last return, without control characters."""
    text = line.rstrip("\r").rpartition("\r")[2].replace("\t", "    ").rstrip()
    printable = "".join(each for each in text if unicodedata.category(each)[0] != "C")
    return printable if len(printable) <= _LONGEST_LINE else f"{printable[:_LONGEST_LINE]}…"


def _tail(storage: Storage, build: Build, job: Job) -> tuple[str, ...]:
    log = storage.logs.reader(build.uuid, job.uuid)
    size = log.size()
    start = max(0, size - _TAIL_BYTES)
    return last_lines(log.read(start, size - start), whole=start == 0)


def _reason(job: Job) -> str:
    if job.state is JobState.TIMED_OUT:
        return "timed out"
    if job.error_message:
        return job.error_message
    return "failed" if job.exit_code is None else f"exit code {job.exit_code}"
