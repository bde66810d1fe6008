"""Environments of organizations: places that jobs deploy to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import peewee

from storage.data_classes import field_types
from storage.database.statements import (
    NEWEST,
    Columns,
    Query,
    Slots,
    SqlValue,
    Write,
    first,
    insert_into,
    slot,
    written,
)
from storage.errors import EnvironmentExists, TooManyEnvironments
from storage.models.accounts import UserRow
from storage.models.builds import BuildRow, JobRow
from storage.models.environments import EnvironmentRow, GateRow
from storage.models.pipelines import PipelineRow
from storage.records.environments import (
    DeployedEnvironment,
    Deployment,
    Environment,
    EnvironmentChanges,
    GateState,
    NewEnvironment,
)
from storage.records.jobs import JobState

if TYPE_CHECKING:
    from typing import Unpack

    from storage.database.connection import Database
    from storage.documents import Page

_ENVIRONMENT = Columns.of(Environment, EnvironmentRow)
_NEW: Slots[NewEnvironment] = Slots(NewEnvironment, EnvironmentRow)
_CHANGED: Slots[Environment] = Slots(Environment, EnvironmentRow)
_CHANGEABLE = tuple(EnvironmentChanges.__annotations__)
_FIELDS = tuple(field_types(Environment))
_MOST = 200
_MOST_WAITING = 100


def _deployments() -> Columns[Deployment]:
    return Columns(
        Deployment,
        JobRow.id,
        JobRow.build,
        PipelineRow.slug,
        BuildRow.number,
        BuildRow.branch,
        BuildRow.commit,
        JobRow.uuid,
        JobRow.step_key,
        JobRow.state,
        (peewee.fn.COALESCE(GateRow.state == GateState.WAITING, 0), bool),
        (peewee.Case(None, [(GateRow.state == GateState.APPROVED, GateRow.decided_by)]), str),
        UserRow.email,
        JobRow.created_at,
        JobRow.started_at,
        JobRow.finished_at,
    )


def _place(environment: Environment) -> dict[str, SqlValue]:
    return {"organization_id": environment.organization_id, "name": environment.name}


class Environments:
    """The environments of each organization, by name. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        this = EnvironmentRow.id == slot("id")
        of_organization = EnvironmentRow.organization == slot("organization_id")
        environments = EnvironmentRow.select(*_ENVIRONMENT.selected)
        self._named = Query(
            database, lambda: environments.where(of_organization, EnvironmentRow.name == slot("name")), _ENVIRONMENT
        )
        self._page = Query(
            database,
            lambda: (
                environments.where(of_organization, EnvironmentRow.id > slot("after"))
                .order_by(EnvironmentRow.id)
                .limit(slot("limit"))
            ),
            _ENVIRONMENT,
        )
        self._count = Query(
            database, lambda: EnvironmentRow.select(peewee.fn.COUNT(EnvironmentRow.id)).where(of_organization), first
        )
        deployment, outer = _deployments(), peewee.JOIN.LEFT_OUTER

        def deployments() -> peewee.ModelSelect[JobRow]:
            return (
                JobRow.select(*deployment.selected)
                .join(BuildRow)
                .join(PipelineRow)
                .join_from(BuildRow, UserRow, outer, on=UserRow.id == BuildRow.created_by)
                .join_from(JobRow, GateRow, outer, on=GateRow.job == JobRow.id)
                .where(
                    JobRow.organization == slot("organization_id"),
                    JobRow.environment == slot("name"),
                    JobRow.environment.is_null(is_null=False),
                    JobRow.taken_from.is_null(),
                    PipelineRow.deleted_at.is_null(),
                )
            )

        self._deployments = Query(
            database,
            lambda: deployments().where(JobRow.id < slot("after")).order_by(JobRow.id.desc()).limit(slot("limit")),
            deployment,
        )
        self._passed = Query(
            database,
            lambda: (
                deployments()
                .where(JobRow.state == JobState.PASSED)
                .order_by(JobRow.finished_at.desc())
                .limit(slot("limit"))
                .offset(slot("skipped"))
            ),
            deployment,
        )
        self._waiting = Query(
            database,
            lambda: deployments().where(JobRow.finished_at.is_null()).order_by(JobRow.id).limit(slot("limit")),
            deployment,
        )
        self._insert = Write(database, lambda: insert_into(EnvironmentRow))
        self._update = Write(
            database,
            lambda: EnvironmentRow.update({getattr(EnvironmentRow, name): slot(name) for name in _CHANGEABLE}).where(
                this
            ),
        )
        self._delete = Write(database, lambda: EnvironmentRow.delete().where(this))

    def named(self, organization_id: int, name: str) -> Environment | None:
        """Return an organization's environment by name."""
        return self._named.one(organization_id=organization_id, name=name)

    def page(self, organization_id: int, limit: int, after: int | None) -> Page[Environment]:
        """Return an organization's environments past the key ``after``, oldest first."""
        return self._page.page(
            limit, lambda environment: environment.id, organization_id=organization_id, after=after or 0
        )

    def deployed(self, environment: Environment) -> DeployedEnvironment:
        """Return an environment with what is there, and the first 100 of what is to come."""
        return DeployedEnvironment(
            **{name: getattr(environment, name) for name in _FIELDS},
            current=next(iter(self.passed(environment, 1)), None),
            waiting=tuple(self._waiting.all(limit=_MOST_WAITING, **_place(environment))),
        )

    def passed(self, environment: Environment, limit: int, skipped: int = 0) -> list[Deployment]:
        """Return the deployments that passed, those that ended last first."""
        return self._passed.all(limit=limit, skipped=skipped, **_place(environment))

    def deployments(self, environment: Environment, limit: int, after: int | None) -> Page[Deployment]:
        """Return the deployments to an environment past the key ``after``, newest builds first."""
        older_than = NEWEST if after is None else after
        return self._deployments.page(limit, lambda each: each.id, after=older_than, **_place(environment))

    def create(self, organization_id: int, new: NewEnvironment) -> Environment:
        """Add an environment. Raises EnvironmentExists, and TooManyEnvironments above 200 of an organization."""
        with self._database.write():
            if self.named(organization_id, new.name) is not None:
                raise EnvironmentExists(f'the organization has an environment "{new.name}" already: change it')
            if (self._count.one(organization_id=organization_id) or 0) >= _MOST:
                raise TooManyEnvironments(f"an organization has at most {_MOST} environments: delete one first")
            self._insert.run(**_NEW(new), organization_id=organization_id, created_at=self._database.now())
            return written(self.named(organization_id, new.name))

    def change(self, environment: Environment, **changes: Unpack[EnvironmentChanges]) -> Environment | None:
        """Change an environment; return it as it is then, None if it was deleted."""
        with self._database.write():
            found = self.named(environment.organization_id, environment.name)
            if found is None:
                return None
            values = _CHANGED(replace(found, **changes))
            self._update.run(id=found.id, **{name: values[name] for name in _CHANGEABLE})
            return self.named(environment.organization_id, environment.name)

    def remove(self, environment: Environment) -> bool:
        """Delete an environment; False if it is gone already. What was deployed to it stays known by its name."""
        with self._database.write():
            return self._delete.run(id=environment.id) == 1
