"""Searches for the commits that broke jobs of default branches, as rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import peewee

from storage.billing.settings import MICRO_CENTS, price
from storage.builds.build_rows import counts
from storage.database.clock import SECOND
from storage.database.statements import Columns, Query, Write, insert_into, slot, written
from storage.models.builds import BuildRow, JobRow
from storage.models.failures import CulpritSearchRow
from storage.models.leases import LeaseRow
from storage.models.pipelines import PipelineRow
from storage.records.builds import HEADS, VerifiedEvent
from storage.records.culprits import OF_COMMAND, CulpritSearch, CulpritState, CulpritTest
from storage.records.jobs import JobState, Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.billing.settings import BillingSettings
    from storage.builds.builds import Builds
    from storage.database.connection import Database
    from storage.records.builds import Build

_SEARCH = Columns.of(CulpritSearch, CulpritSearchRow)
_TEST = Columns.of(CulpritTest, BuildRow, build_id=BuildRow.id, job_state=JobRow.state, error_code=JobRow.error_code)
_ENDED = (JobState.PASSED, JobState.FAILED, JobState.TIMED_OUT)
_SHAPE = Columns.of(Shape, LeaseRow)


def _failed() -> Any:  # noqa: ANN401 - a condition of peewee
    """Return the condition of jobs whose command failed their build."""
    of_command = JobRow.error_code.is_null() | (JobRow.error_code == OF_COMMAND[1])
    return (JobRow.state.in_((JobState.FAILED, JobState.TIMED_OUT))) & (JobRow.soft_failed == 0) & of_command


class Culprits:
    """All searches. Safe in any thread.

    A search begins in the transaction that notes the end of the build that failed, and its builds are rows that name
    it, so that nothing is lost or done twice if the service ends at any moment.
    """

    def __init__(self, database: Database, billing: BillingSettings, builds: Builds) -> None:
        self._database = database
        self._billing = billing
        self._builds = builds
        searches = CulpritSearchRow.select(*_SEARCH.selected)
        this, is_open = CulpritSearchRow.id == slot("id"), CulpritSearchRow.ended_at.is_null()
        self._get = Query(database, lambda: searches.where(this), _SEARCH)
        self._of_build = Query(database, lambda: searches.where(CulpritSearchRow.build == slot("build_id")), _SEARCH)
        self._open = Query(
            database,
            lambda: (
                searches.join(PipelineRow)
                .where(CulpritSearchRow.id > 0, is_open, PipelineRow.deleted_at.is_null())
                .order_by(CulpritSearchRow.id)
            ),
            _SEARCH,
        )
        self._tests = Query(
            database,
            lambda: (
                BuildRow.select(*_TEST.selected)
                .join(CulpritSearchRow, on=CulpritSearchRow.id == BuildRow.culprit_search_id)
                .join_from(
                    BuildRow,
                    JobRow,
                    peewee.JOIN.LEFT_OUTER,
                    on=(JobRow.build == BuildRow.id) & (JobRow.step_key == CulpritSearchRow.step_key),
                )
                .where(BuildRow.culprit_search_id == slot("id"))
                .order_by(BuildRow.id)
            ),
            _TEST,
        )
        # Jobs that others generated are in no plan, and one of an environment must not run because of a search.
        self._broken = Query(
            database,
            lambda: (
                JobRow.select(JobRow.step_key)
                .where(
                    JobRow.build == slot("build_id"),
                    _failed(),
                    JobRow.generated_by.is_null(),
                    JobRow.environment.is_null(),
                )
                .order_by(JobRow.position)
                .limit(1)
            ),
            lambda row: str(row[0]),
        )
        self._last: Query[tuple[int, str, str]] = Query(
            database,
            lambda: (
                BuildRow.select(BuildRow.id, BuildRow.commit, JobRow.state)
                .join(JobRow, on=JobRow.build == BuildRow.id)
                .where(
                    BuildRow.pipeline == slot("pipeline_id"),
                    BuildRow.branch == slot("branch"),
                    BuildRow.number < slot("number"),
                    counts(),
                    BuildRow.from_fork == 0,
                    BuildRow.base_commit.is_null(),
                    BuildRow.commit.is_null(is_null=False),
                    JobRow.step_key == slot("step_key"),
                    JobRow.state.in_(_ENDED),
                )
                .order_by(BuildRow.number.desc())
                .limit(1)
            ),
            tuple,
        )
        self._insert = Write(
            database,
            lambda: insert_into(
                CulpritSearchRow, "commits", "rounds", "culprit", "subject", "author_name", "author_email", "ended_at"
            ),
        )
        self._list = Write(database, lambda: CulpritSearchRow.update(commits=slot("commits")).where(this, is_open))
        self._begin_round = Write(
            database,
            lambda: CulpritSearchRow.update(
                {CulpritSearchRow.rounds: CulpritSearchRow.rounds + 1, CulpritSearchRow.reason: slot("reason")}
            ).where(this, is_open),
        )
        self._end = Write(
            database,
            lambda: CulpritSearchRow.update(
                {
                    getattr(CulpritSearchRow, name): slot(name)
                    for name in ("state", "reason", "culprit", "subject", "author_name", "author_email", "ended_at")
                }
            ).where(this, is_open),
        )
        self._forget = Write(database, lambda: CulpritSearchRow.delete().where(this, is_open))
        self._charged = Query(database, lambda: _leases(peewee.fn.SUM(LeaseRow.amount_cents)), lambda row: row[0] or 0)
        running = LeaseRow.started_at.is_null(is_null=False) & LeaseRow.finished_at.is_null()
        self._running = Query(
            database,
            lambda: _leases(*_SHAPE.selected, LeaseRow.started_at).where(running),
            lambda row: (_SHAPE(row[:3]), row[3]),
        )

    def begin(self, build: Build) -> CulpritSearch | None:
        """Begin the search for what broke a default branch, in the caller's transaction; None if nothing did.

        The build is one of a push to it. Its first job whose command failed has passed in the last earlier build of the
        branch that has it, of another commit, and does not deploy.
        """
        if build.verified_event is not VerifiedEvent.PUSH or build.verified_ref != f"{HEADS}{build.default_branch}":
            return None
        step_key = self._broken.one(build_id=build.id)
        if step_key is None or build.commit is None or self.of_build(build.id) is not None:
            return None
        last = self._last.one(
            pipeline_id=build.pipeline_id, branch=build.branch, number=build.number, step_key=step_key
        )
        if last is None or last[2] != JobState.PASSED or last[1] == build.commit:
            return None
        with self._database.write():
            search_id = self._insert.insert(
                uuid=str(uuid4()),
                pipeline_id=build.pipeline_id,
                build_id=build.id,
                good_build_id=last[0],
                step_key=step_key,
                good_commit=last[1],
                bad_commit=build.commit,
                state=CulpritState.SEARCHING,
                reason="the commits between are about to be listed",
                created_at=self._database.now(),
            )
            return written(self.get(search_id))

    def get(self, search_id: int) -> CulpritSearch | None:
        """Return a search by row id."""
        return self._get.one(id=search_id)

    def of_build(self, build_id: int) -> CulpritSearch | None:
        """Return the search for what broke a build."""
        return self._of_build.one(build_id=build_id)

    def open(self) -> list[CulpritSearch]:
        """Return the searches that have not ended, oldest first."""
        return self._open.all()

    def tests(self, search_id: int) -> list[CulpritTest]:
        """Return the builds of a search, oldest first."""
        return self._tests.all(id=search_id)

    def cents(self, search_id: int) -> int:
        """Return what the builds of a search cost so far, with those that run."""
        now = self._database.now()
        running = (
            (now - started_at) // SECOND * price(self._billing, shape) // MICRO_CENTS
            for shape, started_at in self._running.all(id=search_id)
        )
        return self._charged.one(id=search_id) + sum(running) if self.tests(search_id) else 0

    def list_commits(self, search: CulpritSearch, commits: Sequence[str]) -> None:
        """Note the commits of a search after the good one, oldest first."""
        with self._database.write():
            self._list.run(id=search.id, commits=json.dumps(list(commits)))

    def begin_round(self, search: CulpritSearch, known: int, reason: str) -> bool:
        """Count a round, in the transaction that adds its builds.

        False if the search has ended, or has not as many builds as are ``known``.
        """
        with self._database.write():
            if len(self.tests(search.id)) != known:
                return False
            return self._begin_round.run(id=search.id, reason=reason) == 1

    def end(
        self,
        search: CulpritSearch,
        state: CulpritState,
        reason: str,
        culprit: str | None = None,
        *,
        subject: str | None = None,
        author: tuple[str, str] | None = None,
    ) -> list[int] | None:
        """End a search, and request the cancel of its builds that run; return their ids.

        None if it had ended before. ``author`` is the name and the address of the culprit's author.
        """
        name, email = (None, None) if author is None else author
        with self._database.write():
            ended = self._end.run(
                id=search.id,
                state=state,
                reason=reason,
                culprit=culprit,
                subject=subject,
                author_name=name,
                author_email=email,
                ended_at=self._database.now(),
            )
            if not ended:
                return None
            left = [each.build_id for each in self.tests(search.id) if not each.state.terminal]
            return [each for each in left if self._builds.request_cancel(each)]

    def forget(self, search: CulpritSearch) -> None:
        """Remove a search that has nothing to do."""
        with self._database.write():
            self._forget.run(id=search.id)


def _leases(*selected: Any) -> Any:  # noqa: ANN401 - peewee's
    """Select of the leases of a search's jobs."""
    return (
        LeaseRow.select(*selected)
        .join(JobRow, on=JobRow.id == LeaseRow.job)
        .join(BuildRow, on=BuildRow.id == JobRow.build)
        .where(BuildRow.culprit_search_id == slot("id"))
    )
