"""Pipelines as they stand, by their newest builds and those that broke them, and favourites."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peewee

from storage.builds.build_rows import counts
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.accounts import MembershipRow, OrganizationRow
from storage.models.builds import BuildRow
from storage.models.leases import DeclarationRow
from storage.models.pipelines import FavouriteRow, PipelineRow
from storage.records.builds import BuildState
from storage.records.pipelines import Favourite, Pipeline, Standing

if TYPE_CHECKING:
    from storage.database.connection import Database

_Newest: Any = BuildRow.alias("newest")
_Passed: Any = BuildRow.alias("passed")
_Broken: Any = BuildRow.alias("broken")
_PIPELINE = Columns.of(Pipeline, PipelineRow)
_FAVOURITE = Columns(Favourite, OrganizationRow.slug, PipelineRow.slug, PipelineRow.name)


class Standings:
    """Pipelines as they stand, for one user. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        newest = (
            _Newest.select(_Newest.id)
            .where(_Newest.pipeline == PipelineRow.id, counts(_Newest))
            .order_by(_Newest.number.desc())
            .limit(1)
        )
        passed = _of_default_branch(_Passed, BuildState.PASSED, peewee.fn.MAX(_Passed.number))
        broken = (
            _of_default_branch(_Broken, BuildState.FAILED, _Broken.id)
            .where(_Broken.number > peewee.fn.COALESCE(passed, 0))
            .order_by(_Broken.number)
            .limit(1)
        )
        of_user = FavouriteRow.user == slot("user_id")
        favourite = peewee.fn.EXISTS(
            FavouriteRow.select(peewee.SQL("1")).where(of_user, FavouriteRow.pipeline == PipelineRow.id)
        )
        archived = DeclarationRow.select(DeclarationRow.pipeline).where(
            DeclarationRow.pipeline == PipelineRow.id, DeclarationRow.archived_at.is_null(is_null=False)
        )
        standing = Columns(
            Standing, _PIPELINE, (favourite, bool), (newest, lambda value: value), (broken, lambda value: value)
        )
        self._of_organization = Query(
            database,
            lambda: (
                PipelineRow.select(*standing.selected)
                .where(
                    PipelineRow.organization == slot("organization_id"),
                    PipelineRow.deleted_at.is_null(),
                    ~peewee.fn.EXISTS(archived),
                )
                .order_by(PipelineRow.id)
                .limit(slot("limit"))
            ),
            standing,
        )
        membership = MembershipRow.select(peewee.SQL("1")).where(
            MembershipRow.user == slot("user_id"), MembershipRow.organization == PipelineRow.organization
        )
        self._favourites = Query(
            database,
            lambda: (
                PipelineRow.select(*_FAVOURITE.selected)
                .join(FavouriteRow)
                .join_from(PipelineRow, OrganizationRow)
                .where(of_user, PipelineRow.deleted_at.is_null(), peewee.fn.EXISTS(membership))
                .order_by(FavouriteRow.pipeline)
            ),
            _FAVOURITE,
        )
        this = of_user & (FavouriteRow.pipeline == slot("pipeline_id"))
        self._add = Write(database, lambda: insert_into(FavouriteRow).on_conflict_ignore())
        self._remove = Write(database, lambda: FavouriteRow.delete().where(this))

    def of_organization(self, organization_id: int, user_id: int, limit: int) -> list[Standing]:
        """Return an organization's pipelines as they stand, oldest first."""
        return self._of_organization.all(organization_id=organization_id, user_id=user_id, limit=limit)

    def favourites(self, user_id: int) -> list[Favourite]:
        """Return the pipelines that a user has first in lists and may read, oldest first."""
        return self._favourites.all(user_id=user_id)

    def favour(self, user_id: int, pipeline_id: int, *, yes: bool) -> None:
        """Put a pipeline first in a user's lists, or there no more."""
        if yes:
            self._add.run(user_id=user_id, pipeline_id=pipeline_id)
        else:
            self._remove.run(user_id=user_id, pipeline_id=pipeline_id)


def _of_default_branch(builds: Any, state: BuildState, selected: peewee.Node) -> peewee.ModelSelect[BuildRow]:  # noqa: ANN401 - an alias of a model
    """Select of the builds of a pipeline's default branch that ended in a state."""
    chosen: peewee.ModelSelect[BuildRow] = builds.select(selected).where(
        builds.pipeline == PipelineRow.id,
        builds.branch == PipelineRow.default_branch,
        builds.state == state,
        counts(builds),
    )
    return chosen
