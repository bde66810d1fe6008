"""Renders of builds, their cache, and the tokens of runners (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import peewee

from storage.database.clock import to_micros
from storage.database.statements import Columns, Query, Write, insert_into, slot, written
from storage.models.builds import BuildRow, KeyRow
from storage.models.leases import RenderedRow, RenderRow, RunnerTokenRow
from storage.models.pipelines import PipelineRow
from storage.records.builds import BuildState, Render, Rendered, WaitsFor
from storage.vault import hashed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from storage.builds.builds import Builds
    from storage.builds.concurrency import ConcurrencyGroups
    from storage.builds.insertion import JobInserter
    from storage.database.connection import Database
    from storage.leases.leases import Leases
    from storage.records.builds import Build, Concurrency, FetchedSource, NewBuild
    from storage.records.jobs import NewJob, Shape
    from storage.records.leases import Lease
    from storage.records.pipelines import Pipeline


_MAX_KEPT = 500
_MAX_KEPT_BYTES = 256 * 1024

_RENDER = Columns.of(Render, RenderRow, organization_id=PipelineRow.organization)
_RENDERED = Columns.of(Rendered, RenderedRow)


class Renders:
    """Renders of builds that are created from source alone, without jobs. Safe in any thread.

    A build is then planned, refused or canceled. A render ends by compare-and-set, so that only one of two concurrent
    ends takes effect.
    """

    def __init__(
        self, database: Database, builds: Builds, leases: Leases, groups: ConcurrencyGroups, inserter: JobInserter
    ) -> None:
        self._database = database
        self._builds = builds
        self._leases = leases
        self._groups = groups
        self._inserter = inserter
        this, unfinished = RenderRow.build == slot("build_id"), RenderRow.finished_at.is_null()
        renders = RenderRow.select(*_RENDER.selected).join(BuildRow).join(PipelineRow)
        self._get = Query(database, lambda: renders.where(this), _RENDER)
        self._unfinished = Query(database, lambda: renders.where(unfinished).order_by(RenderRow.build), _RENDER)
        at_hand = RenderRow.ref.is_null()
        allowed = BuildRow.waits_for.is_null() | (BuildRow.waits_for != WaitsFor.APPROVAL)
        self._due = Query(
            database, lambda: renders.where(unfinished, at_hand, allowed).order_by(RenderRow.build), _RENDER
        )
        self._to_fetch = Query(database, lambda: renders.where(unfinished, ~at_hand).order_by(RenderRow.build), _RENDER)
        self._set_fetched = Write(
            database, lambda: RenderRow.update({RenderRow.ref: None}).where(this, unfinished, ~at_hand)
        )
        self._insert = Write(database, lambda: insert_into(RenderRow, "lease_id", "finished_at"))
        self._set_lease = Write(
            database, lambda: RenderRow.update({RenderRow.lease: slot("lease_id")}).where(this, unfinished)
        )
        self._finish = Write(
            database,
            lambda: RenderRow.update({RenderRow.finished_at: slot("now"), RenderRow.rejected: slot("rejected")}).where(
                this, unfinished
            ),
        )
        self._set_plan = Write(
            database,
            lambda: BuildRow.update(
                {
                    BuildRow.pipeline_ir: slot("pipeline_ir"),
                    BuildRow.timeout_seconds: slot("timeout_seconds"),
                    BuildRow.has_source: slot("has_source"),
                    BuildRow.warnings: slot("warnings"),
                    BuildRow.strict_shell: peewee.fn.MAX(BuildRow.strict_shell, slot("strict_shell")),
                }
            ).where(BuildRow.id == slot("build_id")),
        )
        self._refuse = Write(
            database,
            lambda: BuildRow.update({BuildRow.refused: slot("refused")}).where(BuildRow.id == slot("build_id")),
        )
        self._reject_key = Write(
            database, lambda: KeyRow.update({KeyRow.rejected: 1}).where(KeyRow.build == slot("build_id"))
        )
        self._cached = Query(
            database,
            lambda: RenderedRow.select(*_RENDERED.selected).where(
                RenderedRow.name == slot("name"), RenderedRow.expires_at > slot("now")
            ),
            _RENDERED,
        )
        self._keep = Write(database, lambda: insert_into(RenderedRow).on_conflict("REPLACE"))
        newest = RenderedRow.alias()
        last_dropped = newest.select(peewee.fn.MAX(newest.id) - _MAX_KEPT)
        self._forget_old = Write(database, lambda: RenderedRow.delete().where(RenderedRow.id <= last_dropped))
        self._forget_over = Write(database, lambda: RenderedRow.delete().where(RenderedRow.expires_at <= slot("now")))

    def begin(self, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Add a ``scheduled`` build to render, without jobs. Raises KeyUsed and PipelineGone."""
        with self._database.write():
            build = self._builds.create_unplanned(pipeline, new)
            now = self._database.now()
            self._insert.run(build_id=build.id, source_url=source_url, ref=new.ref, created_at=now, rejected=False)
            return build

    def get(self, build_id: int) -> Render | None:
        """Return the render of a build; None if the build was created with its plan."""
        return self._get.one(build_id=build_id)

    def pending(self, build_id: int) -> bool:
        """Tell whether a build has an unfinished render."""
        render = self.get(build_id)
        return render is not None and render.finished_at is None

    def unfinished(self) -> list[Render]:
        """Return the unfinished renders, oldest first."""
        return self._unfinished.all()

    def due(self) -> list[Render]:
        """Return the unfinished renders whose source is here, of builds that need no approval."""
        return self._due.all()

    def to_fetch(self) -> list[Render]:
        """Return the unfinished renders whose source is still to be fetched by a ref, oldest first."""
        return self._to_fetch.all()

    def fetched(self, build_id: int, source: FetchedSource) -> bool:
        """Note the source of a build that was asked for by a ref; False if that build is over."""
        with self._database.write():
            if not self._set_fetched.run(build_id=build_id):
                return False
            self._builds.set_source(build_id, source)
            return True

    def lease(self, render: Render, uuid: str, *, provider: str, image: str, shape: Shape) -> Lease | None:
        """Add the lease of a render's VM before the VM is created; None if the render is finished."""
        with self._database.write():
            if not self.pending(render.build_id):
                return None
            lease = self._leases.reserve_render(
                uuid, provider, image, shape, organization_id=render.organization_id, build_id=render.build_id
            )
            self._set_lease.run(build_id=render.build_id, lease_id=lease.id)
            return lease

    def lease_parked(self, render: Render, lease_id: int, *, image: str, shape: Shape) -> Lease | None:
        """Give a render the lease of a parked VM; None if the render is finished, or the VM gone."""
        with self._database.write():
            if not self.pending(render.build_id):
                return None
            lease = self._leases.assign_render(
                lease_id, image, shape, organization_id=render.organization_id, build_id=render.build_id
            )
            if lease is not None:
                self._set_lease.run(build_id=render.build_id, lease_id=lease.id)
            return lease

    def plan(
        self,
        build_id: int,
        pipeline_ir: str,
        timeout_seconds: int | None,
        jobs: Sequence[NewJob],
        *,
        has_source: bool,
        warnings: tuple[str, ...] = (),
        strict_shell: bool = False,
        concurrency: Concurrency | None = None,
    ) -> bool:
        """Insert the jobs of a rendered build; False and no job if the render or the build is finished.

        ``warnings`` are about the pipeline. With ``strict_shell`` its language says that commands end at a failure. A
        file's ``concurrency`` replaces what is set for the pipeline.
        """
        with self._database.write():
            build = self._finished(build_id, rejected=False)
            if build is None:
                return False
            self._set_plan.run(
                build_id=build_id,
                pipeline_ir=pipeline_ir,
                timeout_seconds=timeout_seconds,
                has_source=has_source,
                warnings=json.dumps(warnings),
                strict_shell=strict_shell,
            )
            if concurrency is not None:
                build = replace(build, waits_for=self._groups.join(build, concurrency))
            self._inserter.insert(build, jobs, self._database.now())
            return True

    def refuse(self, build_id: int, error_code: str, error_message: str) -> bool:
        """Fail a build that cannot be rendered or planned; False if the render or the build is finished.

        If a user asked for it, the answer says so, and the build is refused.
        """
        with self._database.write():
            build = self._finished(build_id, rejected=True)
            if build is None:
                return False
            self._reject_key.run(build_id=build_id)
            self._refuse.run(build_id=build_id, refused=build.created_by is not None)
            return self._builds.move(
                build_id, build.state, BuildState.FAILED, error_code=error_code, error_message=error_message
            )

    def cancel(self, build_id: int) -> bool:
        """Cancel a build that is being rendered; False if the render or the build is finished."""
        with self._database.write():
            build = self._finished(build_id, rejected=False)
            return build is not None and self._builds.move(build_id, build.state, BuildState.CANCELED)

    def cached(self, name: bytes) -> Rendered | None:
        """Return the cached result with a name; None if there is none or it has expired."""
        return self._cached.one(name=name, now=self._database.now())

    def keep(self, name: bytes, rendered: Rendered, until: datetime) -> None:
        """Cache a result until an instant, among the newest 500; one of more than 256 KiB is not cached."""
        if len(rendered.envelope) + len(rendered.log) > _MAX_KEPT_BYTES:
            return
        with self._database.write():
            self._keep.run(name=name, envelope=rendered.envelope, log=rendered.log, expires_at=to_micros(until))
            self._forget_over.run(now=self._database.now())
            self._forget_old.run()

    def _finished(self, build_id: int, *, rejected: bool) -> Build | None:
        """Finish a render; return its build, None if the render or the build was finished already."""
        if not self._finish.run(build_id=build_id, now=self._database.now(), rejected=rejected):
            return None
        build = written(self._builds.get(build_id))
        return None if build.state.terminal else build


_BYTES = 32


class RunnerTokens:
    """Runner tokens, with which a VM fetches the source of one build. Safe in any thread.

    A build has at most one, of which only the SHA-256 is stored. See wire-decisions.md, "The source for a VM".
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._build = Query(
            database,
            lambda: (
                RunnerTokenRow.select(BuildRow.uuid)
                .join(BuildRow)
                .where(RunnerTokenRow.hash == slot("hash"), BuildRow.finished_at.is_null())
            ),
            lambda row: str(row[0]),
        )
        self._replace = Write(database, lambda: insert_into(RunnerTokenRow).on_conflict("REPLACE"))
        self._delete = Write(database, lambda: RunnerTokenRow.delete().where(RunnerTokenRow.build == slot("build_id")))

    def mint(self, build_id: int) -> str:
        """Return a new token of a build, which replaces an earlier one."""
        token = secrets.token_urlsafe(_BYTES)
        with self._database.write():
            self._replace.run(build_id=build_id, hash=hashed(token))
        return token

    def build(self, token: str) -> str | None:
        """Return the UUID of a token's build; None if the token is invalid or the build finished."""
        return self._build.one(hash=hashed(token))

    def revoke(self, build_id: int) -> None:
        """Revoke a build's token, if it has one."""
        with self._database.write():
            self._delete.run(build_id=build_id)
