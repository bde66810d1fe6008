"""Records of tests in quarantine, whose failure alone does not fail a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime

    from storage.records.proofs import TestName

LONGEST_QUARANTINE_DAYS = 90


@immutable
class NewQuarantine:
    """A test to put in quarantine for some days; an empty ``step_key`` stands for every step."""

    test: TestName
    step_key: str
    owner: str
    reason: str
    days: int


@immutable
class QuarantinedTest:
    """A test that is, or was, in quarantine; ``owner`` is the member who is to mend it."""

    id: int
    uuid: str
    pipeline_id: int
    suite: str
    name: str
    step_key: str
    owner: str
    reason: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    ended_by: str | None

    def holds_at(self, moment: datetime) -> bool:
        """Tell whether it is in quarantine at a moment."""
        return self.ended_at is None and self.created_at <= moment < self.expires_at


@immutable
class ExcusedTest:
    """A test that failed in quarantine ``until`` then, and whose failure does not count."""

    job_id: int
    build_id: int
    suite: str
    name: str
    until: datetime
