"""Builds and jobs as documents: the JSON of the commands, and the rows of their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.operations import BuildRecord, JobRecord
    from ci_daemon.command.support.names import PipelineName

_SHOWN_OF_BUILD = (
    "number",
    "state",
    "created_at",
    "started_at",
    "finished_at",
    "error_code",
    "error_message",
    "branch",
    "commit",
    "message",
    "author",
    "event",
    "base_commit",
    "merge_commit",
    "priority",
    "rebuild_of",
    "pending_reason",
    "untrusted",
    "approved_by",
    "strict_shell",
    "warnings",
    "inputs",
)
_SHOWN_OF_JOB = (
    "name",
    "state",
    "attempt",
    "exit_code",
    "error_code",
    "error_message",
    "generated_by",
    "taken_from",
    "started_at",
    "finished_at",
)


def build_document(pipeline: PipelineName, build: BuildRecord) -> dict[str, object]:
    """Return the document of a build of a pipeline."""
    document = document_of(build)
    shown = {name: document[name] for name in _SHOWN_OF_BUILD}
    return {"id": build.uuid, "name": f"{pipeline}/{build.number}", **shown, "took_seconds": _seconds(build)}


def job_document(job: JobRecord) -> dict[str, object]:
    """Return the document of a job."""
    document = document_of(job)
    shown = {name: document[name] for name in _SHOWN_OF_JOB}
    return {"id": job.uuid, "key": job.step_key, **shown, "took_seconds": _seconds(job)}


def reason(job: Mapping[str, object]) -> str:
    """Return why a job failed by its document, or where it ran if not here; "" for neither."""
    if job["error_code"] is not None:
        return f"{job['error_code']}: {job['error_message']}" if job["error_message"] else str(job["error_code"])
    if job["taken_from"] is not None:
        return f"taken over from build {job['taken_from']}"
    return f"exit code {job['exit_code']}" if job["exit_code"] else ""


def _seconds(each: BuildRecord | JobRecord) -> float | None:
    """Return the time from start to end, None if it has not started or ended."""
    if each.started_at is None or each.finished_at is None:
        return None
    return (each.finished_at - each.started_at).total_seconds()
