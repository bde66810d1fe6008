"""The pushes and pull requests that builds were made for, and what came of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import peewee

from storage.database.clock import DAY, SECOND
from storage.database.statements import Columns, Query, Write, first, insert_into, slot
from storage.models.builds import BuildRow
from storage.models.source_hosts import BuildOriginRow, PushOutcomeRow
from storage.records.builds import BuildState
from storage.records.jobs import BuildErrorCode
from storage.records.source_hosts import BuildOrigin, OriginEvent, PushOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from storage.database.connection import Database
    from storage.records.builds import Build
    from storage.records.source_hosts import NewOrigin, Repository


_ORIGIN = Columns.of(BuildOrigin, BuildOriginRow)


class BuildOrigins:
    """The origins of builds. Safe in any thread.

    A report brings the host's state of a build to that of the service. Until it has the final one it is compared again
    and again, so that a report that failed, or that a crash cut off, is only late.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        this = BuildOriginRow.build == slot("build_id")
        origins = BuildOriginRow.select(*_ORIGIN.selected)
        self._get = Query(database, lambda: origins.where(this), _ORIGIN)
        self._of_builds = Query(
            database,
            lambda: origins.where(BuildOriginRow.build.in_(peewee.SQL("(SELECT value FROM json_each(:ids))"))),
            _ORIGIN,
        )
        self._by_report = Query(
            database,
            lambda: origins.where(
                BuildOriginRow.repository == slot("repository_id"), BuildOriginRow.report_id == slot("report_id")
            ),
            _ORIGIN,
        )
        # The commit has an index that finds few rows; a repository's own may be of a million builds.
        of_repository = peewee.Expression(BuildOriginRow.repository, "+ 0 =", slot("repository_id"))
        of_commit = origins.join(BuildRow).where(of_repository, BuildRow.commit == slot("commit_sha"))
        event = (BuildRow.pipeline, BuildOriginRow.event, BuildOriginRow.ref, BuildOriginRow.pull_request)
        latest = BuildOriginRow.build == peewee.fn.MAX(BuildOriginRow.build)
        self._of_commit = Query(database, lambda: of_commit.group_by(*event).having(latest), _ORIGIN)
        counts = BuildRow.error_code.is_null() | (BuildRow.error_code != BuildErrorCode.SUPERSEDED)
        decides = counts & ((BuildRow.state != BuildState.CANCELED) | (BuildOriginRow.event != OriginEvent.MANUAL))
        self._counting = Query(database, lambda: of_commit.where(decides).group_by(*event).having(latest), _ORIGIN)
        self._of_pipeline = Query(
            database,
            lambda: of_commit.where(BuildRow.pipeline == slot("pipeline_id"), decides).group_by(*event).having(latest),
            _ORIGIN,
        )
        differs = peewee.Expression(BuildOriginRow.reported, "IS NOT", BuildRow.state)  # null before the first report
        self._due = Query(
            database,
            lambda: (
                origins.join(BuildRow)
                .where(BuildOriginRow.report_at <= slot("now"), differs)
                .order_by(BuildOriginRow.report_at)
                .limit(slot("limit"))
            ),
            _ORIGIN,
        )
        self._unreported = Query(
            database, lambda: origins.where(BuildOriginRow.report_at > 0, BuildOriginRow.report_failures > 0), _ORIGIN
        )
        number = BuildOriginRow.pull_request
        same = (number == slot("pull_request")) | (number.is_null() & (BuildOriginRow.ref == slot("ref")))
        self._built = Query(
            database,
            lambda: (
                BuildOriginRow.select(BuildOriginRow.build)
                .join(BuildRow)
                .where(
                    of_repository,
                    BuildOriginRow.event == slot("event"),
                    same,
                    peewee.Expression(BuildOriginRow.target_branch, "IS", slot("target_branch")),
                    BuildRow.pipeline == slot("pipeline_id"),
                    BuildRow.commit == slot("commit_sha"),
                    counts,
                    peewee.SQL(":base IS NULL") | (BuildRow.base_commit == slot("base")),
                )
                .limit(1)
            ),
            first,
        )
        self._merged = Query(
            database,
            lambda: (
                BuildOriginRow.select(BuildOriginRow.build)
                .join(BuildRow)
                .where(
                    of_repository,
                    number == slot("pull_request"),
                    BuildRow.commit == slot("commit_sha"),
                    BuildRow.base_commit == slot("base"),
                    counts,
                )
                .limit(1)
            ),
            first,
        )
        self._insert = Write(
            database, lambda: insert_into(BuildOriginRow, "reported", "report_id", "report_failures", "report_error")
        )
        self._reported = Write(
            database,
            lambda: BuildOriginRow.update(
                {
                    BuildOriginRow.reported: slot("state"),
                    BuildOriginRow.report_id: slot("report_id"),
                    BuildOriginRow.report_at: slot("next"),
                    BuildOriginRow.report_failures: 0,
                    BuildOriginRow.report_error: None,
                }
            ).where(this),
        )
        self._failed = Write(
            database,
            lambda: BuildOriginRow.update(
                {
                    BuildOriginRow.report_at: slot("next"),
                    BuildOriginRow.report_failures: BuildOriginRow.report_failures + 1,
                    BuildOriginRow.report_error: slot("why"),
                }
            ).where(this),
        )
        self._amend = Write(
            database,
            lambda: BuildOriginRow.update({BuildOriginRow.report_at: slot("now"), BuildOriginRow.reported: None}).where(
                this, BuildOriginRow.reported.is_null(is_null=False)
            ),
        )
        self._again = Write(
            database,
            lambda: BuildOriginRow.update({BuildOriginRow.report_at: slot("now")}).where(
                this, BuildOriginRow.reported.is_null(is_null=False)
            ),
        )

    def record(self, build_id: int, new: NewOrigin, *, reports: bool) -> None:
        """Note the origin of a build of this transaction; ``reports`` if its host is told of it."""
        with self._database.write():
            self._insert.run(
                build_id=build_id,
                repository_id=new.repository_id,
                event=new.event,
                ref=new.ref,
                pull_request=new.pull_request,
                target_branch=new.target_branch,
                actor=new.actor,
                author_name=new.author_name,
                author_email=new.author_email,
                report_at=self._database.now() if reports else None,
            )

    def has_build(self, pipeline_id: int, origin: NewOrigin, commit: str, base: str | None = None) -> bool:
        """Tell whether a pipeline has a build of this commit for the same branch, or pull request and target.

        With ``base`` that is a build of the commit merged into this one. One that was superseded does not count: the
        commit may have come back, or the pull request be open again.
        """
        return (
            self._built.one(
                pipeline_id=pipeline_id,
                commit_sha=commit,
                repository_id=origin.repository_id,
                event=origin.event,
                ref=origin.ref,
                pull_request=origin.pull_request,
                target_branch=origin.target_branch,
                base=base,
            )
            is not None
        )

    def has_merge(self, repository_id: int, pull_request: int, commit: str, base: str) -> bool:
        """Tell whether a build is of a pull request's commit merged into this one of its target."""
        found = self._merged.one(repository_id=repository_id, pull_request=pull_request, commit_sha=commit, base=base)
        return found is not None

    def get(self, build_id: int) -> BuildOrigin | None:
        """Return the origin of a build; None if it was not made for a push or pull request."""
        return self._get.one(build_id=build_id)

    def of_builds(self, build_ids: Collection[int]) -> dict[int, BuildOrigin]:
        """Return the origins of builds by the builds' ids; one that has none is left out."""
        return {each.build_id: each for each in self._of_builds.all(ids=json.dumps(sorted(build_ids)))}

    def by_report(self, repository_id: int, report_id: str) -> BuildOrigin | None:
        """Return the origin of the build that the host of a repository knows by this name."""
        return self._by_report.one(repository_id=repository_id, report_id=report_id)

    def latest_of_commit(self, repository_id: int, commit: str) -> list[BuildOrigin]:
        """Return the latest builds of a commit: for each pipeline, branch, tag and pull request one."""
        return self._of_commit.all(repository_id=repository_id, commit_sha=commit)

    def counting_of_commit(self, repository_id: int, commit: str) -> list[BuildOrigin]:
        """Return the origins of the latest builds that make a commit's state.

        There is one for each pipeline, branch, tag and pull request, but for those whose builds were all superseded.
        One that somebody asked for by name and canceled does not count: it was never part of the verdict.
        """
        return self._counting.all(repository_id=repository_id, commit_sha=commit)

    def latest_of_pipeline(self, origin: BuildOrigin, build: Build) -> list[BuildOrigin]:
        """Return the origins of the latest builds of a build's commit and pipeline.

        There is one for each branch, tag and pull request, as in `counting_of_commit`.
        """
        return self._of_pipeline.all(
            repository_id=origin.repository_id, pipeline_id=build.pipeline_id, commit_sha=build.commit
        )

    def due(self, limit: int) -> list[BuildOrigin]:
        """Return the origins of builds with a new state that may be reported now.

        The one that waits longest is first.
        """
        return self._due.all(now=self._database.now(), limit=limit)

    def unreported(self) -> list[BuildOrigin]:
        """Return the origins whose last report failed, and is made again."""
        return self._unreported.all()

    def errors_of(self, repositories: Iterable[Repository]) -> dict[int, str]:
        """Return why the last look at a repository, or the last report to its host, failed, by row id."""
        reports = {
            each.repository_id: f"the host is not told of builds: {each.report_error}"
            for each in self.unreported()
            if each.repository_id is not None
        }
        return reports | {each.id: each.last_error for each in repositories if each.last_error}

    def reported(self, build_id: int, state: BuildState, report_id: str | None) -> None:
        """Note the state of a build that its host was told of; after a terminal one there are no more reports."""
        with self._database.write():
            next_report = None if state.terminal else self._database.now()
            self._reported.run(build_id=build_id, state=state, report_id=report_id, next=next_report)

    def report_failed(self, build_id: int, why: str, pause: float | None) -> None:
        """Note why a report failed, and the seconds until the next; None if it is given up."""
        with self._database.write():
            next_report = None if pause is None else self._database.now() + int(pause * SECOND)
            self._failed.run(build_id=build_id, next=next_report, why=why)

    def amend(self, build_id: int) -> None:
        """Let a build be reported once more whose host has its final state: there is more to say of it."""
        with self._database.write():
            self._amend.run(build_id=build_id, now=self._database.now())

    def report_again(self, build_id: int) -> None:
        """Let a build be compared again that its host has the final state of, because it is retried."""
        with self._database.write():
            self._again.run(build_id=build_id, now=self._database.now())


_OUTCOME = Columns.of(PushOutcome, PushOutcomeRow)
_KEPT = 7 * DAY
_OF_ONE_REF = 20
"""The most outcomes of one branch that are searched for that of a commit."""


class PushOutcomes:
    """The outcomes of the last seven days, as long as deliveries are kept. Safe in any thread.

    The answer to a push, pages, commands and deliveries show what came of a push from here.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        outcomes = PushOutcomeRow.select(*_OUTCOME.selected)
        of_repository = PushOutcomeRow.repository == slot("repository_id")
        self._latest = Query(
            database,
            lambda: outcomes.where(of_repository).order_by(PushOutcomeRow.id.desc()).limit(slot("limit")),
            _OUTCOME,
        )
        self._of_ref = Query(
            database,
            lambda: (
                outcomes.where(of_repository, PushOutcomeRow.ref == slot("ref"))
                .order_by(PushOutcomeRow.id.desc())
                .limit(_OF_ONE_REF)
            ),
            _OUTCOME,
        )
        self._insert = Write(database, lambda: insert_into(PushOutcomeRow))
        self._forget = Write(
            database, lambda: PushOutcomeRow.delete().where(PushOutcomeRow.recorded_at <= slot("before"))
        )

    def record(
        self,
        repository_id: int,
        ref: str,
        commit: str,
        outcome: str,
        pages: Sequence[str] = (),
        pull_request: int | None = None,
    ) -> None:
        """Note what came of a push or pull request, and forget what is older than a week."""
        with self._database.write():
            now = self._database.now()
            self._forget.run(before=now - _KEPT)
            self._insert.run(
                repository_id=repository_id,
                ref=ref,
                pull_request=pull_request,
                commit_sha=commit,
                outcome=outcome,
                pages="\n".join(pages),
                recorded_at=now,
            )

    def latest(self, repository_id: int, limit: int) -> list[PushOutcome]:
        """Return the latest outcomes of a repository, newest first."""
        return self._latest.all(repository_id=repository_id, limit=limit)

    def find(self, repository_id: int, ref: str, commit: str) -> PushOutcome | None:
        """Return the latest outcome of a commit of a ref, else the ref's latest.

        An annotated tag may be named by its object, and hosts may abbreviate a commit.
        """
        found = self._of_ref.all(repository_id=repository_id, ref=ref)
        return next((each for each in found if each.commit.startswith(commit)), found[0] if found else None)
