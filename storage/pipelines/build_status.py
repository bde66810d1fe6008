"""The status of pipelines on a branch, for the public and for members of their organizations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peewee

from storage.builds.build_rows import counts
from storage.database.statements import Columns, Query, slot
from storage.models.accounts import MembershipRow, OrganizationRow
from storage.models.builds import BuildRow
from storage.models.leases import DeclarationRow
from storage.models.pipelines import PipelineRow
from storage.records.pipelines import PipelineStatus, Visibility

if TYPE_CHECKING:
    from storage.database.connection import Database

_Latest: Any = BuildRow.alias("latest")
_Finished: Any = BuildRow.alias("finished")
_STATUS = Columns(
    PipelineStatus,
    OrganizationRow.slug,
    PipelineRow.slug,
    PipelineRow.name,
    PipelineRow.created_at,
    _Latest.state,
    _Finished.number,
    _Finished.state,
    _Finished.finished_at,
    _Finished.error_code,
)


class BuildStatus:
    """The figures of badges and monitors. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        public = PipelineRow.visibility == Visibility.PUBLIC
        of_reader = MembershipRow.user == slot("reader")
        reads = peewee.fn.EXISTS(
            MembershipRow.select(peewee.SQL("1")).where(
                of_reader, MembershipRow.organization == PipelineRow.organization
            )
        )
        archived = DeclarationRow.select(DeclarationRow.pipeline).where(
            DeclarationRow.pipeline == PipelineRow.id, DeclarationRow.archived_at.is_null(is_null=False)
        )
        standing = _pipelines(PipelineRow.default_branch).where(~peewee.fn.EXISTS(archived))
        self._of_branch = Query(
            database,
            lambda: _pipelines(peewee.fn.COALESCE(slot("branch"), PipelineRow.default_branch)).where(
                OrganizationRow.slug == slot("organization"), PipelineRow.slug == slot("pipeline"), public | reads
            ),
            _STATUS,
        )
        self._public = Query(
            database, lambda: standing.where(public).order_by(PipelineRow.id).limit(slot("limit")), _STATUS
        )
        self._of_reader = Query(
            database,
            lambda: (
                standing.join_from(
                    PipelineRow, MembershipRow, on=(MembershipRow.organization == PipelineRow.organization)
                )
                .where(of_reader)
                .order_by(MembershipRow.organization, PipelineRow.id)
                .limit(slot("limit"))
            ),
            _STATUS,
        )

    def of_branch(
        self, organization_slug: str, pipeline_slug: str, branch: str | None, reader: int | None
    ) -> PipelineStatus | None:
        """Return a pipeline's status on a branch, by default its default branch, in one query.

        None if there is no such pipeline, or it is private and the user ``reader`` is no member.
        """
        return self._of_branch.one(organization=organization_slug, pipeline=pipeline_slug, branch=branch, reader=reader)

    def public(self, limit: int) -> list[PipelineStatus]:
        """Return the public pipelines' status on their default branches, oldest first."""
        return self._public.all(limit=limit)

    def of_reader(self, user_id: int, limit: int) -> list[PipelineStatus]:
        """Return the status of the pipelines of a user's organizations, oldest first in each."""
        return self._of_reader.all(reader=user_id, limit=limit)


def _pipelines(branch: peewee.Node) -> peewee.ModelSelect[PipelineRow]:
    """Return the query of all pipelines' status on a branch."""
    of_branch: Any = BuildRow.alias("of_branch")
    newest = (
        of_branch.select(of_branch.id)
        .where(of_branch.pipeline == PipelineRow.id, of_branch.branch == branch, counts(of_branch))
        .order_by(of_branch.number.desc())
        .limit(1)
    )
    return (
        PipelineRow.select(*_STATUS.selected)
        .join(OrganizationRow)
        .join_from(PipelineRow, _Latest, peewee.JOIN.LEFT_OUTER, on=(_Latest.id == newest))
        .join_from(
            PipelineRow,
            _Finished,
            peewee.JOIN.LEFT_OUTER,
            on=(_Finished.id == newest.where(of_branch.finished_at.is_null(is_null=False))),
        )
        .where(PipelineRow.deleted_at.is_null(), OrganizationRow.closed_at.is_null())
    )
