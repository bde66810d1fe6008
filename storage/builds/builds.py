"""Builds: created in one transaction, then moved from state to state by compare-and-set.

Builds of pull requests from forks wait for an approval, until somebody has looked at their commit.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import peewee

from storage.builds.build_rows import BUILD, counts, existing_builds
from storage.database.clock import to_micros
from storage.database.statements import NEWEST, Query, Write, first, slot, written
from storage.errors import ApprovalNotAwaited
from storage.models.accounts import OrganizationRow
from storage.models.builds import BuildRow, JobRow
from storage.models.pipelines import PipelineRow
from storage.models.row import ListField
from storage.records.builds import HEADS, TAGS, BuildState, VerifiedEvent, WaitsFor
from storage.records.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from storage.builds.concurrency import ConcurrencyGroups
    from storage.builds.insertion import BuildInserter
    from storage.database.connection import Database
    from storage.documents import Page
    from storage.records.builds import Build, FetchedSource, NewBuild
    from storage.records.jobs import NewJob
    from storage.records.pipelines import Pipeline
    from storage.vault import Vault


class Builds:
    """Runs of pipelines. Builds of deleted pipelines are not found. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault, inserter: BuildInserter) -> None:
        self._database = database
        self._vault = vault
        self._inserter = inserter
        builds = existing_builds()
        numbered = BuildRow.number == slot("number")
        of_pipeline = BuildRow.pipeline == slot("pipeline_id")
        this = BuildRow.id == slot("id")
        unfinished = BuildRow.finished_at.is_null()
        self._get = Query(database, lambda: builds.where(this), BUILD)
        self._by_uuid = Query(database, lambda: builds.where(BuildRow.uuid == slot("uuid")), BUILD)
        self._by_number = Query(database, lambda: builds.where(of_pipeline, numbered), BUILD)
        self._find = Query(
            database,
            lambda: builds.where(
                OrganizationRow.slug == slot("organization"), PipelineRow.slug == slot("pipeline"), numbered
            ),
            BUILD,
        )
        self._page = Query(
            database,
            lambda: (
                builds.where(of_pipeline, BuildRow.number < slot("after"))
                .order_by(BuildRow.number.desc())
                .limit(slot("limit"))
            ),
            BUILD,
        )
        of_branch: Any = BuildRow.alias()
        newest_of_branch = (
            of_branch.select(of_branch.id)
            .where(of_branch.pipeline == slot("pipeline_id"), of_branch.branch == slot("branch"), counts(of_branch))
            .order_by(of_branch.number.desc())
            .limit(1)
        )
        self._latest = Query(
            database,
            lambda: builds.where(BuildRow.id == newest_of_branch),
            BUILD,
        )
        passed: Any = BuildRow.alias()

        def latest_passed(*conditions: Any) -> Any:  # noqa: ANN401 - peewee's
            newest = passed.select(passed.id).where(
                passed.pipeline == slot("pipeline_id"),
                passed.branch == slot("branch"),
                passed.state == BuildState.PASSED,
                passed.from_fork == 0,
                passed.culprit_search_id.is_null(),
                passed.number < slot("before"),
                *conditions,
            )
            return builds.where(BuildRow.id == newest.order_by(passed.number.desc()).limit(1))

        self._latest_passed = Query(database, latest_passed, BUILD)
        self._latest_verified = Query(
            database,
            lambda: latest_passed(passed.verified_ref == peewee.Value(HEADS).concat(slot("branch"))),
            BUILD,
        )
        self._unfinished = Query(database, lambda: builds.where(unfinished).order_by(BuildRow.id), BUILD)
        self._ended = Query(
            database,
            lambda: (
                builds.where(BuildRow.recorded_at > slot("after")).order_by(BuildRow.recorded_at).limit(slot("limit"))
            ),
            BUILD,
        )
        self._waiting = Query(
            database,
            lambda: (
                builds.where(unfinished, BuildRow.waits_for.is_null(is_null=False))
                .order_by(BuildRow.id)
                .limit(slot("limit"))
            ),
            BUILD,
        )
        self._unfinished_states = Query(
            database, lambda: BuildRow.select(BuildRow.state).where(unfinished), lambda row: BuildState(row[0])
        )
        searches = peewee.Table("culprit_searches")  # its model is imported once there is a search
        self._searching = Query(
            database,
            lambda: searches.select(searches.c.id).where(searches.c.id > 0, searches.c.ended_at.is_null()).limit(1),
            first,
        )
        self._to_cancel = Query(
            database,
            lambda: (
                BuildRow.select(BuildRow.id)
                .where(BuildRow.cancel_requested == 1, unfinished, BuildRow.state != BuildState.CANCELING)
                .order_by(BuildRow.id)
            ),
            first,
        )
        self._ends: Query[tuple[int | None, bool]] = Query(
            database,
            lambda: JobRow.select(
                peewee.fn.MAX(JobRow.finished_at), peewee.fn.MAX(JobRow.state == JobState.CANCELED)
            ).where(JobRow.build == slot("build_id")),
            tuple,
        )
        self._open_job = Query(
            database,
            lambda: JobRow.select(JobRow.id).where(JobRow.build == slot("build_id"), JobRow.finished_at.is_null()),
            first,
        )
        self._env = Query(database, lambda: BuildRow.select(BuildRow.env).where(this), lambda row: row[0])
        self._changed_files: Query[str | None] = Query(
            database, lambda: BuildRow.select(BuildRow.changed_files).where(this), lambda row: row[0]
        )
        self._pipeline_ir: Query[str | None] = Query(
            database, lambda: BuildRow.select(BuildRow.pipeline_ir).where(this), lambda row: row[0]
        )
        self._newest = Query(
            database, lambda: BuildRow.select(peewee.fn.COALESCE(peewee.fn.MAX(BuildRow.id), 0)), first
        )
        self._move = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.state: slot("new"),
                    BuildRow.finished_at: slot("finished_at"),
                    BuildRow.recorded_at: slot("recorded_at"),
                    BuildRow.error_code: peewee.fn.COALESCE(slot("error_code"), BuildRow.error_code),
                    BuildRow.error_message: peewee.fn.COALESCE(slot("error_message"), BuildRow.error_message),
                }
            ).where(this, BuildRow.state == slot("old"), unfinished),
        )
        self._record_error = Write(
            database,
            lambda: BuildRow.update(
                {BuildRow.error_code: slot("error_code"), BuildRow.error_message: slot("error_message")}
            ).where(this, unfinished, BuildRow.error_code.is_null()),
        )
        self._set_source = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.branch: slot("branch"),
                    BuildRow.commit: slot("commit"),
                    BuildRow.message: peewee.fn.COALESCE(BuildRow.message, slot("message")),
                    BuildRow.env: slot("env"),
                    BuildRow.has_source: 1,
                    BuildRow.untrusted_origin: slot("untrusted_origin"),
                    BuildRow.from_fork: slot("from_fork"),
                    BuildRow.approval_reason: slot("approval_reason"),
                    BuildRow.waits_for: peewee.fn.COALESCE(slot("waits_for"), BuildRow.waits_for),
                    BuildRow.verified_event: slot("verified_event"),
                    BuildRow.verified_ref: slot("verified_ref"),
                    BuildRow.base_commit: slot("base_commit"),
                    BuildRow.merge_commit: slot("merge_commit"),
                }
            ).where(BuildRow.id == slot("id")),
        )
        self._request_cancel = Write(
            database, lambda: BuildRow.update({BuildRow.cancel_requested: 1}).where(this, unfinished)
        )

    def create(self, pipeline: Pipeline, new: NewBuild, jobs: Sequence[NewJob]) -> Build:
        """Write a build, its jobs and their edges in one transaction, after its source archive.

        Jobs start ``pending``, those without prerequisites ``scheduled`` unless the build has to wait; the build is
        ``scheduled``. Raises KeyUsed if its idempotency key has already created a build, and PipelineGone.
        """
        if not jobs:
            raise ValueError("a build has at least one job; one without is rejected, see create_rejected")
        return self._inserter.insert(pipeline, new, jobs, BuildState.SCHEDULED)

    def create_unplanned(self, pipeline: Pipeline, new: NewBuild) -> Build:
        """Write a ``scheduled`` build without jobs, after its source archive. Raises KeyUsed, PipelineGone."""
        return self._inserter.insert(pipeline, new, (), BuildState.SCHEDULED)

    def create_rejected(
        self, pipeline: Pipeline, new: NewBuild, error_code: str, error_message: str, *, refused: bool = False
    ) -> Build:
        """Write a build that is ``failed`` and finished from the start; ``refused`` if a request asked for it.

        Raises KeyUsed, PipelineGone.
        """
        return self._inserter.insert(pipeline, new, (), BuildState.FAILED, error_code, error_message, refused=refused)

    def get(self, build_id: int) -> Build | None:
        """Return a build by row id."""
        return self._get.one(id=build_id)

    def by_uuid(self, uuid: str) -> Build | None:
        """Return a build by UUID."""
        return self._by_uuid.one(uuid=uuid)

    def by_number(self, pipeline_id: int, number: int) -> Build | None:
        """Return a pipeline's build by number."""
        return self._by_number.one(pipeline_id=pipeline_id, number=_in_range(number))

    def find(self, organization_slug: str, pipeline_slug: str, number: int) -> Build | None:
        """Return a build by the parts of its URL, in one query."""
        return self._find.one(organization=organization_slug, pipeline=pipeline_slug, number=_in_range(number))

    def page(self, pipeline_id: int, limit: int, after: int | None) -> Page[Build]:
        """Return a pipeline's builds past the key ``after``, newest first."""
        older_than = NEWEST if after is None else after
        return self._page.page(limit, lambda build: build.number, pipeline_id=pipeline_id, after=older_than)

    def latest(self, pipeline_id: int, branch: str) -> Build | None:
        """Return a pipeline's newest build of a branch that counts."""
        return self._latest.one(pipeline_id=pipeline_id, branch=branch)

    def latest_passed(self, pipeline_id: int, branch: str, before: int = NEWEST) -> Build | None:
        """Return the newest build of a branch that passed and has a lower number; no build of a fork."""
        return self._latest_passed.one(pipeline_id=pipeline_id, branch=branch, before=before)

    def latest_verified(self, pipeline_id: int, branch: str) -> Build | None:
        """Return the newest build that passed and whose branch the service has verified."""
        return self._latest_verified.one(pipeline_id=pipeline_id, branch=branch, before=NEWEST)

    def unfinished(self) -> list[Build]:
        """Return every build that is not terminal, oldest first."""
        return self._unfinished.all()

    def waiting(self, limit: int) -> list[Build]:
        """Return unfinished builds that wait as a whole, for an approval or for their turn, oldest first."""
        return self._waiting.all(limit=limit)

    def ended(self, after: datetime, limit: int) -> list[Build]:
        """Return builds whose end was recorded after an instant, in the order of recording."""
        return self._ended.all(after=to_micros(after), limit=limit)

    def unfinished_counts(self) -> dict[BuildState, int]:
        """Return how many unfinished builds are in each state; a state without builds is absent."""
        return dict(Counter(self._unfinished_states.all()))

    def to_cancel(self) -> list[int]:
        """Return the ids of builds whose cancel is requested and has not begun, oldest first."""
        return self._to_cancel.all()

    def has_culprit_searches(self) -> bool:
        """Tell whether a search for a culprit has not ended."""
        return self._searching.one() is not None

    def env(self, build_id: int) -> dict[str, str]:
        """Return a build's environment, decrypted; empty if it has none. Raises SealBroken."""
        sealed = self._env.one(id=build_id)
        if sealed is None:
            return {}
        env: dict[str, str] = json.loads(self._vault.open(sealed))
        return env

    def changed_files(self, build_id: int) -> tuple[str, ...] | None:
        """Return the files that changed with a build's push; None if nobody knows."""
        found = self._changed_files.one(id=build_id)
        return None if found is None else ListField.read(found)

    def set_source(self, build_id: int, source: FetchedSource) -> None:
        """Write what a build turned out to be of, which wins over what it was created with.

        One that its request could make anything of stays that, whatever its source is.
        """
        event, ref = written(self.get(build_id)).verified_event, source.verified_ref
        if event is VerifiedEvent.API:
            ref = None
        elif ref is not None and not ref.startswith((HEADS, TAGS)):
            event = VerifiedEvent.PULL_REQUEST
        env = {**self.env(build_id), **source.env}
        self._set_source.run(
            id=build_id,
            branch=source.branch,
            commit=source.commit,
            message=source.message,
            env=self._vault.seal(json.dumps(env).encode()) if env else None,
            untrusted_origin=source.untrusted_origin,
            from_fork=source.from_fork,
            approval_reason=source.approval_reason,
            waits_for=None if source.approval_reason is None else WaitsFor.APPROVAL,
            verified_event=event,
            verified_ref=ref,
            base_commit=source.base_commit,
            merge_commit=source.merge_commit,
        )

    def pipeline_ir(self, build_id: int) -> str | None:
        """Return the pipeline that a build came with or was rendered to; None if there is none."""
        return self._pipeline_ir.one(id=build_id)

    def newest(self) -> int:
        """Return the id of the newest build; 0 if there is none."""
        return self._newest.one() or 0

    def move(
        self,
        build_id: int,
        old: BuildState,
        new: BuildState,
        *,
        error_code: str | None = None,
        error_message: str | None = None,
    ) -> bool:
        """Move a build from state ``old`` to ``new``; False and no change if it is not in ``old``.

        A terminal state sets ``finished_at`` to the latest end of its jobs, which may be long past; to now if no job
        has ended, or if something else ended the build after them. ``started_at`` is set when its first job starts
        (Leases.start).
        """
        with self._database.write():
            now = self._database.now()
            finished_at = self._end(build_id, new, error_code, now) if new.terminal else None
            moved = self._move.run(
                id=build_id,
                old=old,
                new=new,
                finished_at=finished_at,
                recorded_at=now if new.terminal else None,
                error_code=error_code,
                error_message=error_message,
            )
        return moved == 1

    def conclude(self, build_id: int, old: BuildState, new: BuildState) -> Build | None:
        """Move a build whose jobs have all ended to the terminal state ``new``; return it as it is then.

        None and no change if it is not in ``old``, or if one of its jobs has not ended: another process has retried it.
        """
        with self._database.write():
            if self._open_job.one(build_id=build_id) is not None or not self.move(build_id, old, new):
                return None
            return self.get(build_id)

    def _end(self, build_id: int, new: BuildState, error_code: str | None, now: int) -> int:
        """Return the end of a build that moves to a terminal state now."""
        build = self.get(build_id)
        last, canceled = written(self._ends.one(build_id=build_id))
        if build is None or last is None:
            return now
        by_jobs = new is not BuildState.CANCELED and (error_code or build.error_code) is None
        return last if by_jobs or canceled else max(last, now)

    def record_error(self, build_id: int, error_code: str, error_message: str) -> bool:
        """Note why a build fails regardless of its jobs; False if it is finished or already has a reason."""
        with self._database.write():
            return self._record_error.run(id=build_id, error_code=error_code, error_message=error_message) == 1

    def request_cancel(self, build_id: int) -> bool:
        """Note that a build is to be canceled; False if it is finished or unknown."""
        with self._database.write():
            return self._request_cancel.run(id=build_id) == 1


def _in_range(number: int) -> int:
    """Clamp a build number from a request to the range of SQLite; no build has the largest number."""
    return min(max(number, 0), NEWEST)


class Approvals:
    """Approves builds. An approval is of one build, and so of one commit. Safe in any thread."""

    def __init__(self, database: Database, builds: Builds, groups: ConcurrencyGroups) -> None:
        self._database = database
        self._builds = builds
        self._groups = groups
        self._approve = Write(
            database,
            lambda: BuildRow.update({BuildRow.approved_by: slot("by"), BuildRow.approved_at: slot("now")}).where(
                BuildRow.id == slot("id"),
                BuildRow.waits_for == WaitsFor.APPROVAL,
                BuildRow.finished_at.is_null(),
                BuildRow.cancel_requested == 0,
            ),
        )

    def approve(self, build_id: int, by: str) -> Build:
        """Let a build run, in the name of a person; return it. Raises ApprovalNotAwaited.

        It may still have to wait for its turn in its concurrency group.
        """
        with self._database.write():
            if not self._approve.run(id=build_id, by=by, now=self._database.now()):
                raise ApprovalNotAwaited(_refusal(written(self._builds.get(build_id))))
            self._groups.let_in(written(self._builds.get(build_id)))
            return written(self._builds.get(build_id))


def _refusal(build: Build) -> str:
    """Return why a build cannot be approved: somebody did already, or nobody has to."""
    if build.approved_by is None or build.approved_at is None:
        return "it does not wait for an approval"
    return f"{build.approved_by} approved it at {build.approved_at:%Y-%m-%d %H:%M:%S} UTC"
