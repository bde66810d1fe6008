"""The status of a commit, as it is shown at hosts without check runs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from actors.source_hosts.host import ReportState
from storage import WaitsFor, immutable

if TYPE_CHECKING:
    from actors.source_hosts.host import Report

__all__ = ["CommitStatus", "commit_status"]


@immutable
class CommitStatus:
    """A state of a commit by the name ``context``, with a sentence and the page of the build."""

    commit: str
    context: str
    state: ReportState
    description: str
    url: str


def commit_status(report: Report) -> CommitStatus:
    """Return the status that shows a build; builds of one pipeline replace each other's."""
    build = report.build
    return CommitStatus(
        commit=build.commit or "",
        context=f"ci/{build.pipeline_slug}",
        state=report.state,
        description=f"Build #{build.number} {_phrase(report)}",
        url=report.url,
    )


def _phrase(report: Report) -> str:
    match report.state:
        case ReportState.WAITING if report.build.waits_for is WaitsFor.APPROVAL:
            return "waits for an approval"
        case ReportState.WAITING:
            return "waits"
        case ReportState.RUNNING:
            return "runs"
        case ReportState.PASSED:
            return "passed"
        case ReportState.FAILED:
            return "failed"
        case ReportState.CANCELED:
            return "was canceled"
        case _:
            assert_never(report.state)
