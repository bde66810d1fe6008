"""Lists of builds for people, the last builds of pipelines, and failures of the service."""

from __future__ import annotations

import json
from functools import reduce
from itertools import chain
from operator import or_
from typing import TYPE_CHECKING

import peewee

from storage.builds.build_rows import BUILD, counts, existing_builds
from storage.data_classes import immutable
from storage.database.clock import SECOND
from storage.database.statements import NEWEST, Columns, Query, first, slot
from storage.documents import Page
from storage.models.accounts import OrganizationRow, UserRow
from storage.models.builds import BuildRow, JobRow
from storage.models.leases import LeaseRow
from storage.models.pipelines import PipelineRow
from storage.models.source_hosts import BuildOriginRow
from storage.records.builds import BuildPeople, BuildState, FlakyStep, ListedBuild, PastBuild, SlowStep
from storage.records.jobs import JobErrorCode, JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime

    from storage.database.connection import Database
    from storage.records.builds import Build


_PRICE = (
    LeaseRow.select(peewee.fn.COALESCE(peewee.fn.SUM(LeaseRow.amount_cents), 0))
    .join(JobRow, on=JobRow.id == LeaseRow.job)
    .where(JobRow.build == BuildRow.id)
)
_MOST_SEARCHED = 5000
_FAILED = [state for state in JobState if state.failed]
_PEOPLE = Columns(
    BuildPeople,
    BuildOriginRow.author_name,
    BuildOriginRow.actor,
    (peewee.fn.COALESCE(peewee.fn.NULLIF(UserRow.name, ""), UserRow.email), lambda value: value),
)
_LISTED = Columns(ListedBuild, BUILD, _PEOPLE)
_PAST = Columns.of(PastBuild, BuildRow, pipeline_id=PipelineRow.id, amount_cents=(_PRICE, int))


class BuildHistory:
    """Builds of pipelines that are not deleted, newest first. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        builds = existing_builds()
        of_organization = PipelineRow.organization == slot("organization_id")
        of_pipeline = BuildRow.pipeline == slot("pipeline_id")
        newest = builds.order_by(BuildRow.id.desc()).limit(slot("limit"))
        past = BuildRow.select(*_PAST.selected).join(PipelineRow)
        # The sum keeps SQLite from the index of an organization's pipelines, whose builds it would have to sort.
        in_organization = PipelineRow.organization_id + 0 == slot("organization_id")
        self._unfinished = Query(database, lambda: newest.where(in_organization, BuildRow.finished_at.is_null()), BUILD)
        failed_jobs = (JobRow.build == slot("id"), JobRow.state.in_(_FAILED), JobRow.soft_failed == 0)
        self._failed_jobs = Query(
            database,
            lambda: JobRow.select(JobRow.name).where(*failed_jobs).order_by(JobRow.position),
            lambda row: str(row[0]),
        )
        # Numbers are dense, so that the last builds of each pipeline are a range of its index.
        recent = PipelineRow.build_count - slot("count") < BuildRow.number
        self._recent = Query(
            database,
            lambda: past.where(of_organization, PipelineRow.deleted_at.is_null(), recent, counts()).order_by(
                PipelineRow.id, BuildRow.number
            ),
            _PAST,
        )
        self._of_pipeline = Query(
            database,
            lambda: past.where(of_pipeline, counts()).order_by(BuildRow.number.desc()).limit(slot("limit")),
            _PAST,
        )
        self._of_branch = Query(
            database,
            lambda: (
                past.where(of_pipeline, BuildRow.branch == slot("branch"), counts())
                .order_by(BuildRow.number.desc())
                .limit(slot("limit"))
            ),
            _PAST,
        )
        seconds = (JobRow.finished_at - JobRow.started_at) / (SECOND * 1.0)
        these = BuildRow.number.in_(peewee.SQL("(SELECT value FROM json_each(:numbers))"))
        jobs = JobRow.select(JobRow.name).join(BuildRow).where(of_pipeline, these, counts())
        ran = JobRow.started_at.is_null(is_null=False) & JobRow.finished_at.is_null(is_null=False)
        mean = peewee.fn.AVG(seconds)
        self._slowest = Query(
            database,
            lambda: (
                jobs.select_extend(mean, peewee.fn.COUNT(JobRow.id))
                .where(ran)
                .group_by(JobRow.step_key)
                .order_by(mean.desc())
                .limit(slot("limit"))
            ),
            lambda row: SlowStep(*row),
        )
        both = (
            jobs.select_extend(JobRow.step_key.alias("step_key"))
            .where(peewee.fn.TRIM(BuildRow.commit, "0") != "")  # a tree without a commit has none, or one of zeros
            .group_by(BuildRow.commit, JobRow.step_key)
            .having(
                peewee.fn.MAX(JobRow.state == JobState.FAILED) == 1, peewee.fn.MAX(JobRow.state == JobState.PASSED) == 1
            )
        )
        commits = peewee.fn.COUNT(peewee.SQL("*"))
        self._flaky = Query(
            database,
            lambda: (
                peewee.Select([both], [both.c.name, commits])
                .group_by(both.c.step_key)
                .order_by(commits.desc(), both.c.name)
                .limit(slot("limit"))
            ),
            lambda row: FlakyStep(*row),
        )
        this = BuildRow.id == slot("id")
        self._price = Query(database, lambda: BuildRow.select(_PRICE).where(this), lambda row: int(row[0]))

        numbers = (
            BuildRow.select(BuildRow.number)
            .where(of_pipeline, BuildRow.number < slot("after"))
            .order_by(BuildRow.number.desc())
            .limit(slot("limit"))
        )
        of_branch = BuildRow.branch == slot("branch")
        of_kind = (BuildRow.source == slot("source"), BuildRow.state == slot("state"))
        self._numbers = Query(database, lambda: numbers, first)
        self._numbers_of_branch = Query(database, lambda: numbers.where(of_branch), first)
        self._numbers_of_kind = Query(database, lambda: numbers.where(*of_kind), first)
        self._numbers_of_branch_and_kind = Query(database, lambda: numbers.where(of_branch, *of_kind), first)
        self._next_source = Query(
            database,
            lambda: BuildRow.select(peewee.fn.MIN(BuildRow.source)).where(of_pipeline, BuildRow.source > slot("after")),
            lambda row: None if row[0] is None else str(row[0]),
        )
        self._people = Query(database, lambda: _with_people(BuildRow.select(*_PEOPLE.selected).where(this)), _PEOPLE)
        addresses = BuildRow.select(BuildOriginRow.author_email, BuildOriginRow.actor, UserRow.email)
        self._addresses: Query[frozenset[str]] = Query(
            database,
            lambda: _with_people(addresses.where(this)),
            lambda row: frozenset(str(each) for each in row if each),
        )
        origin, user, wanted = BuildOriginRow, UserRow, peewee.fn.LOWER(slot("author"))
        names = (origin.author_name, origin.author_email, origin.actor, user.name, user.email)
        by_author = reduce(or_, (peewee.fn.INSTR(peewee.fn.LOWER(name), wanted) > 0 for name in names))
        self._listed = Query(
            database,
            lambda: _with_people(builds.select(*_LISTED.selected)).where(
                BuildRow.id.in_(peewee.SQL("(SELECT value FROM json_each(:ids))"))
            ),
            _LISTED,
        )
        self._filtered = Query(
            database,
            lambda: (
                _with_people(builds.select(*_LISTED.selected))
                .where(
                    of_pipeline,
                    BuildRow.number.in_(peewee.SQL("(SELECT value FROM json_each(:numbers))")),
                    slot("author").is_null() | by_author,
                )
                .order_by(BuildRow.number.desc())
                .limit(slot("limit"))
            ),
            _LISTED,
        )

    def unfinished(self, organization_id: int, limit: int) -> list[Build]:
        """Return an organization's builds that wait or run."""
        return self._unfinished.all(organization_id=organization_id, limit=limit)

    def failed_jobs(self, build_id: int) -> list[str]:
        """Return the names of the jobs that failed a build, in the order of its pipeline."""
        return self._failed_jobs.all(id=build_id)

    def recent(self, organization_id: int, count: int) -> dict[int, list[PastBuild]]:
        """Return each pipeline's last ``count`` builds, less those that do not count, oldest first, by its id."""
        found: dict[int, list[PastBuild]] = {}
        for build in self._recent.all(organization_id=organization_id, count=count):
            found.setdefault(build.pipeline_id, []).append(build)
        return found

    def listed(self, build_ids: Collection[int]) -> dict[int, ListedBuild]:
        """Return builds by their ids, with their people."""
        found = self._listed.all(ids=json.dumps(sorted(build_ids)))
        return {each.build.id: each for each in found}

    def of_pipeline(self, pipeline_id: int, limit: int, branch: str | None = None) -> list[PastBuild]:
        """Return a pipeline's last builds that count, of a branch if it is given."""
        if branch is None:
            return self._of_pipeline.all(pipeline_id=pipeline_id, limit=limit)
        return self._of_branch.all(pipeline_id=pipeline_id, limit=limit, branch=branch)

    def slowest(self, pipeline_id: int, count: int, limit: int, branch: str | None = None) -> list[SlowStep]:
        """Return the slowest steps in the last ``count`` builds of a pipeline, or of its branch."""
        numbers = self._newest(pipeline_id, count, NEWEST, branch, None, None)
        return self._slowest.all(pipeline_id=pipeline_id, numbers=json.dumps(numbers), limit=limit)

    def flaky(self, pipeline_id: int, count: int, limit: int, branch: str | None = None) -> list[FlakyStep]:
        """Return steps that failed and passed on one commit in the last ``count`` builds."""
        numbers = self._newest(pipeline_id, count, NEWEST, branch, None, None)
        return self._flaky.all(pipeline_id=pipeline_id, numbers=json.dumps(numbers), limit=limit)

    def amount_cents(self, build_id: int) -> int:
        """Return the price of a build's VMs so far."""
        return self._price.one(id=build_id) or 0

    def addresses(self, build_id: int) -> frozenset[str]:
        """Return the e-mail addresses of the people of a build, and the pusher's name at the source host."""
        return self._addresses.one(id=build_id) or frozenset()

    def people(self, build_id: int) -> BuildPeople:
        """Return the people of a build."""
        return self._people.one(id=build_id) or BuildPeople()

    def filtered(
        self,
        pipeline_id: int,
        limit: int,
        after: int | None,
        *,
        branch: str | None = None,
        state: BuildState | None = None,
        source: str | None = None,
        author: str | None = None,
    ) -> Page[ListedBuild]:
        """Return a pipeline's builds past the key ``after``, of a branch, state or source if it is given.

        ``author`` is a part of the name or address of one of its people. No index finds that, so that a page looks at
        5,000 builds at most: it may have fewer than ``limit``, or none, and yet a next key.
        """
        after = NEWEST if after is None else after
        count = limit if author is None else _MOST_SEARCHED
        numbers = self._newest(pipeline_id, count + 1, after, branch, state, source)
        found = self._filtered.all(
            pipeline_id=pipeline_id, numbers=json.dumps(numbers[:count]), author=author, limit=limit + 1
        )
        rows = tuple(found[:limit])
        if len(found) > limit:
            return Page(rows, rows[-1].build.number)
        return Page(rows, numbers[count - 1] if len(numbers) > count else None)

    def _newest(
        self, pipeline_id: int, limit: int, after: int, branch: str | None, state: BuildState | None, source: str | None
    ) -> list[int]:
        """Return the numbers of a pipeline's newest builds below ``after``, newest first.

        An index has the order of numbers within one source and state. So where one is not given, each of its values is
        looked up.
        """
        wanted: dict[str, int | str] = {"pipeline_id": pipeline_id, "limit": limit, "after": after}
        if branch is not None:
            wanted["branch"] = branch
        if state is None and source is None:
            return (self._numbers if branch is None else self._numbers_of_branch).all(**wanted)
        query = self._numbers_of_kind if branch is None else self._numbers_of_branch_and_kind
        parts = (
            query.all(**wanted, source=each_source, state=each_state)
            for each_source in (self._sources(pipeline_id) if source is None else [source])
            for each_state in (BuildState if state is None else [state])
        )
        return sorted(chain.from_iterable(parts), reverse=True)[:limit]

    def _sources(self, pipeline_id: int) -> Iterator[str]:
        """Yield the sources that a pipeline's builds have, a handful."""
        found: str | None = ""
        while (found := self._next_source.one(pipeline_id=pipeline_id, after=found)) is not None:
            yield found


def _with_people(builds: peewee.ModelSelect[BuildRow]) -> peewee.ModelSelect[BuildRow]:
    """Join the people of builds, where they are known."""
    outer = peewee.JOIN.LEFT_OUTER
    return (
        builds.switch(BuildRow)
        .join(BuildOriginRow, outer, on=BuildOriginRow.build == BuildRow.id)
        .join_from(BuildRow, UserRow, outer, on=UserRow.id == BuildRow.created_by)
    )


_NEWEST_JOBS = 10_000
_OF_SERVICE = tuple(code for code in JobErrorCode if code.of_service)


@immutable
class ServiceFailure:
    """A job that did not fail through its command; ``forced_by`` is the operator who ended its VM, if any."""

    organization: str
    pipeline: str
    number: int
    step_key: str
    error_code: str
    error_message: str | None
    finished_at: datetime
    forced_by: str | None


class ServiceFailures:
    """Recent failures of jobs, at a cost that does not grow with the number of jobs. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        failure = Columns.of(
            ServiceFailure,
            JobRow,
            organization=OrganizationRow.slug,
            pipeline=PipelineRow.slug,
            number=BuildRow.number,
            forced_by=LeaseRow.killed_by,
        )
        newest = JobRow.alias()
        recent = JobRow.id > newest.select(peewee.fn.MAX(newest.id) - _NEWEST_JOBS)
        failures = (
            JobRow.select(*failure.selected)
            .join(BuildRow)
            .join(PipelineRow)
            .join(OrganizationRow)
            .join(
                LeaseRow,
                peewee.JOIN.LEFT_OUTER,
                on=(LeaseRow.job == JobRow.id) & (LeaseRow.attempt == JobRow.attempt),
            )
            .where(recent, JobRow.error_code.in_(_OF_SERVICE), JobRow.finished_at.is_null(is_null=False))
            .order_by(JobRow.id.desc())
            .limit(slot("limit"))
        )
        self._latest = Query(database, lambda: failures.where(LeaseRow.killed_by.is_null()), failure)
        self._forced = Query(database, lambda: failures.where(LeaseRow.killed_by.is_null(is_null=False)), failure)

    def latest(self, limit: int) -> list[ServiceFailure]:
        """Return the latest failures through the service among the newest 10 000 jobs, newest first."""
        return self._latest.all(limit=limit)

    def forced(self, limit: int) -> list[ServiceFailure]:
        """Return the latest failures that an operator forced among the newest 10 000 jobs, newest first."""
        return self._forced.all(limit=limit)
