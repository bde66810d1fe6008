"""The status of a commit, as it is shown at hosts without check runs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from actors.source_hosts.host import ReportState
from storage import WaitsFor, immutable

if TYPE_CHECKING:
    from actors.source_hosts.host import Report

_MOST_NAMED = 4
"""The most builds whose numbers fit into 140 characters, the limit of the strictest host."""


@immutable
class CommitStatus:
    """A state of a commit by the name ``context``, with a sentence and the page of the build."""

    commit: str
    context: str
    state: ReportState
    description: str
    url: str


def commit_status(report: Report) -> CommitStatus:
    """Return the status that shows a pipeline's builds of a commit: that of the worst of them.

    The next status of the pipeline replaces it, whatever event its build was made for.
    """
    builds = report.worst_first()
    worst, more = builds[0], len(builds) - _MOST_NAMED
    told = "Build " + ", ".join(f"#{each.build.number} {_phrase(each)}" for each in builds[:_MOST_NAMED])
    return CommitStatus(
        commit=worst.build.commit or "",
        context=f"ci/{worst.build.pipeline_slug}",
        state=worst.state,
        description=f"{told}, and {more} more" if more > 0 else told,
        url=worst.url,
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
