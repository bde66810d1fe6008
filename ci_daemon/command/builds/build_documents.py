"""Builds and jobs as documents: the JSON of the commands, and the rows of their tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.command.support.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ci_daemon.command.support.names import PipelineName
    from ci_daemon.remote.views import BuildView, JobView

__all__ = ["build_document", "job_document", "reason"]


def build_document(pipeline: PipelineName, build: BuildView) -> dict[str, object]:
    """Return the document of a build of a pipeline."""
    return {
        "id": build.id,
        "name": f"{pipeline}/{build.number}",
        **asdict(build),
        "state": build.state.value,
        "warnings": list(build.warnings),
        "created_at": timestamp(build.created_at),
        "started_at": _timestamp(build.started_at),
        "finished_at": _timestamp(build.finished_at),
        "took_seconds": _seconds(build),
    }


def job_document(job: JobView) -> dict[str, object]:
    """Return the document of a job."""
    return {
        "id": job.id,
        "key": job.step_key,
        "name": job.name,
        "state": job.state.value,
        "attempt": job.attempt,
        "exit_code": job.exit_code,
        "error_code": job.error_code,
        "error_message": job.error_message,
        "started_at": _timestamp(job.started_at),
        "finished_at": _timestamp(job.finished_at),
        "took_seconds": _seconds(job),
    }


def reason(job: Mapping[str, object]) -> str:
    """Return the reason of a job's failure by its document, "" if there is none."""
    if job["error_code"] is not None:
        return f"{job['error_code']}: {job['error_message']}" if job["error_message"] else str(job["error_code"])
    return f"exit code {job['exit_code']}" if job["exit_code"] else ""


def _timestamp(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)


def _seconds(each: BuildView | JobView) -> float | None:
    """Return the time from start to end, None if it has not started or ended."""
    if each.started_at is None or each.finished_at is None:
        return None
    return (each.finished_at - each.started_at).total_seconds()
