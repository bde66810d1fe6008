"""Searches for the commits that broke jobs of default branches, and the builds with which they look."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import hidden, immutable
from storage.records.builds import BuildState  # noqa: TC001 - a model reads the annotations
from storage.records.jobs import JobErrorCode, JobState

if TYPE_CHECKING:
    from datetime import datetime


OF_COMMAND = (None, JobErrorCode.STEP_TIMEOUT)
"""The error codes of jobs whose command failed, so that the commit may be why."""

_SHORT = 12
_FAILED = (JobState.FAILED, JobState.TIMED_OUT)


class CulpritState(StrEnum):
    """The state of a search.

    ``found`` has a commit. ``flaky``: the job fails and passes on one commit. ``unclear``: no commit alone can be
    named. ``stopped``: a bound of time or cents came first. All but ``searching`` are final.
    """

    SEARCHING = "searching"
    FOUND = "found"
    FLAKY = "flaky"
    UNCLEAR = "unclear"
    STOPPED = "stopped"
    CANCELED = "canceled"


@immutable
class CulpritSearch:
    """A search for the commit that broke a job.

    ``commits`` are those that came after ``good_commit``, on which the job passed last, oldest first; the last one is
    ``bad_commit``. They are null until they are listed. ``reason`` is a sentence: what came of it, or what it does.
    """

    id: int = hidden()
    uuid: str = hidden()
    pipeline_id: int = hidden()
    build_id: int = hidden()
    good_build_id: int = hidden()
    step_key: str
    good_commit: str
    bad_commit: str
    commits: tuple[str, ...] | None
    rounds: int
    state: CulpritState
    reason: str
    culprit: str | None
    subject: str | None
    author_name: str | None
    author_email: str | None = hidden()
    created_at: datetime
    ended_at: datetime | None

    @property
    def in_words(self) -> str:
        """The commit that it has named, for a status at a host; empty if there is none."""
        commit = (self.culprit or "")[:_SHORT]
        if self.state is CulpritState.FOUND:
            return f"broken by {commit}"
        return f'"{self.step_key}" is flaky on {commit}' if self.state is CulpritState.FLAKY else ""


@immutable
class CulpritTest:
    """A build of a search: its commit, its state, and those of the job; null if it has no such job yet."""

    build_id: int = hidden()
    number: int
    commit: str | None
    state: BuildState
    job_state: JobState | None
    error_code: str | None = hidden()

    @property
    def passed(self) -> bool | None:
        """True if the job passed, False if its command failed; None if that is not known."""
        if self.job_state is JobState.PASSED:
            return True
        return False if self.job_state in _FAILED and self.error_code in OF_COMMAND else None
