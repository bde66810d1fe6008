"""Creation of builds from requests (wire-decisions.md, "Creating a build")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from actors import EngineBusy
from actors.render import RenderFailed
from api.builds.admission import admit_manual_build, require_credit_and_room
from api.builds.bodies import CreateBuildRequest, CreateRepoBuildRequest, RepoIdentity, archive_of
from api.builds.rebuilding import no_source, plan_rejection, planned_build, rebuild_of, source_expired
from api.engine import refuse_while_draining
from api.errors.catalog import ApiError
from storage import (
    Build,
    KeyUse,
    KeyUsed,
    NewBuild,
    Organization,
    Pipeline,
    PipelineGone,
    RequestKey,
    SourceGone,
    Storage,
    WaitsFor,
)

if TYPE_CHECKING:
    from actors.ir import IrSettings
    from api.builds.bodies import BuildRequest, RebuildRequest
    from api.builds.render_wait import RenderWait
    from api.engine import EngineInterface
    from api.http.slots import StreamSlot
    from api.operations.operation import Call, Submission

AnyRequest = TypeVar("AnyRequest", CreateBuildRequest, CreateRepoBuildRequest)


class BuildCreation:
    """Checks, plans and stores builds, and hands them to the engine. Safe in any thread."""

    def __init__(self, storage: Storage, engine: EngineInterface, limits: IrSettings, renders: RenderWait) -> None:
        self._storage = storage
        self._engine = engine
        self._limits = limits
        self._renders = renders

    def create(self, call: Call, pipeline: Pipeline, submission: Submission[AnyRequest]) -> Build:
        """Return the build that a request creates, or the one that an earlier request with its key created.

        Builds that the service triggers itself do not come through here, so ``allow_manual`` does not apply to them.

        If the body has no ``pipeline_ir``, the call waits until the build is rendered.

        Raises ApiError ``draining``, ``pipeline_not_found``, ``pipeline_manual_disabled``,
        ``billing_insufficient_balance``, ``too_many_builds``, ``invalid_body``, ``build_invalid`` or
        ``idempotency_conflict``, which leave no row behind, or ``build_plan_rejected``, which leaves a failed build
        with the same error. ``busy`` means that nothing was made, because none can be rendered now (a drained host
        still takes builds that bring their plan), or that the build is not rendered yet; ``draining`` may mean that,
        too. Raises PipelineGone.
        """
        key = _key(call, pipeline, submission)
        if key is not None and (use := self._storage.idempotency_keys.find(key)) is not None:
            return self._repeat(call, use)
        refuse_while_draining(self._engine)
        admit_manual_build(self._storage, pipeline)
        body = submission.body()
        try:
            return self._plan(call, pipeline, body, key)
        except KeyUsed as used:
            return self._repeat(call, used.use)

    def rebuild(self, call: Call, pipeline: Pipeline, build: Build, submission: Submission[RebuildRequest]) -> Build:
        """Return a new build that repeats another one, or the one that its key has created.

        Raises as `create` does, and ApiError ``source_expired``.
        """
        key = _key(call, pipeline, submission)
        if key is not None and (use := self._storage.idempotency_keys.find(key)) is not None:
            return self._repeat(call, use)
        refuse_while_draining(self._engine)
        admit_manual_build(self._storage, pipeline)
        body = submission.body()
        try:
            new, source_url = rebuild_of(self._storage, build, body.source or "api", key)
            asked = replace(new, created_by=_user_id(call), debug=bool(body.debug))
            return self._create(call, pipeline, asked, source_url)
        except SourceGone:
            raise source_expired(build) from None
        except KeyUsed as used:
            return self._repeat(call, used.use)

    def create_by_source(
        self, call: Call, organization: Organization, submission: Submission[CreateRepoBuildRequest]
    ) -> Build:
        """Return the build of a pipeline that the body names by its repository, as `create` does."""
        from api.fields import body_of  # noqa: PLC0415 - pydantic

        identity = body_of(submission.document, RepoIdentity)
        found = self._storage.pipelines.by_source(organization.id, identity.repo_name, identity.source_slug)
        return self.create(call, found or self._register_pipeline(organization, identity, submission), submission)

    def _register_pipeline(
        self, organization: Organization, identity: RepoIdentity, submission: Submission[CreateRepoBuildRequest]
    ) -> Pipeline:
        """Return the pipeline that a build's source declares, created if the organization does not have it.

        Raises ApiError ``pipeline_not_found`` if the source declares none of that name, and otherwise as `create` does.
        """
        unknown = f'the organization has no pipeline "{identity.source_slug}" of the repository "{identity.repo_name}"'
        if not _brings_source(submission.document):
            raise ApiError("pipeline_not_found", unknown)
        refuse_while_draining(self._engine)
        require_credit_and_room(self._storage, organization.id)
        body = submission.body()
        slot = self._renders.slot_for_new_build(organization.id)
        try:
            envelope = self._engine.discover(organization.slug, identity.source_slug, archive_of(body) or b"")
        except RenderFailed as failure:
            raise ApiError(
                "pipeline_not_found", f"{unknown}, and its source could not be rendered to find one: {failure}"
            ) from None
        except EngineBusy as error:
            raise ApiError("busy", str(error), headers={"Retry-After": "5"}) from None
        finally:
            slot.release()
        declared = None if envelope is None else envelope.find(identity.source_slug)
        if declared is None:
            raise ApiError("pipeline_not_found", unknown)
        repository = self._storage.declarations.named(organization.id, identity.repo_name)
        return self._storage.declarations.register(repository, identity.source_slug, body.branch, declared.declaration)

    def _repeat(self, call: Call, use: KeyUse) -> Build:
        """Answer a repeated request as the first one was answered."""
        if not use.same_request:
            raise ApiError(
                "idempotency_conflict", "this key was used for a request with another body or path; use a new key"
            )
        build = self._storage.builds.get(use.build_id)
        if build is None:
            raise PipelineGone("the pipeline and its builds were deleted")
        if self._storage.renders.pending(build.id):
            return self._wait_for_render(call, build, self._renders.slot(build.organization_id))
        if use.rejected:
            raise plan_rejection(build)
        return build

    def _plan(self, call: Call, pipeline: Pipeline, body: BuildRequest, key: RequestKey | None) -> Build:
        """Create the build that a body describes."""
        by_slug = body if isinstance(body, CreateBuildRequest) else None
        new = NewBuild(
            branch=body.branch,
            commit=body.commit,
            message=body.message,
            source=body.source or "api",
            env=body.env or {},
            pipeline_ir=body.pipeline_ir,
            source_archive=archive_of(body),
            source_sha256=(by_slug and by_slug.source_sha256) or "",
            key=key,
            debug=bool(body.debug),
            created_by=_user_id(call),
        )
        return self._create(call, pipeline, new, by_slug.source_url if by_slug else None)

    def _create(self, call: Call, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Store a build, and announce it to the engine; if it has no pipeline, it is rendered first."""
        if new.pipeline_ir is None or not new.pipeline_ir.strip():
            return self._render(call, pipeline, new, source_url)
        build = planned_build(self._storage, self._limits, pipeline, new)
        self._engine.jobs_added(build.id)
        return build

    def _render(self, call: Call, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Store a build without jobs, start its render and wait for the end."""
        url = None if new.has_source else source_url
        if not new.has_source and not url:
            raise no_source(self._storage, pipeline, new)
        slot = self._renders.slot_for_new_build(pipeline.organization_id)
        try:
            build = self._storage.renders.begin(pipeline, replace(new, pipeline_ir=None), url)
            self._engine.render(build.id)
        except BaseException:
            slot.release()
            raise
        return self._wait_for_render(call, build, slot)

    def _wait_for_render(self, call: Call, build: Build, slot: StreamSlot) -> Build:
        """Wait for a build's render; return the build, or raise its rejection.

        A build that waits for an approval is returned at once.
        """
        if build.waits_for is WaitsFor.APPROVAL:
            slot.release()
            return build
        build = self._renders.wait_for_render(call.client_gone, build, slot)
        render = self._storage.renders.get(build.id)
        if render is not None and render.rejected:
            raise plan_rejection(build)
        return build


def _user_id(call: Call) -> int | None:
    return None if call.user is None else call.user.id


def _key(call: Call, pipeline: Pipeline, submission: Submission[Any]) -> RequestKey | None:
    """Return the idempotency key of a user's request; None without."""
    if submission.key is None or call.user is None:
        return None
    return RequestKey(call.user.id, pipeline.organization_id, submission.key, submission.digest)


def _brings_source(document: object) -> bool:
    """Tell whether an unchecked body brings source, with a plan or without."""
    given = document if isinstance(document, dict) else {}
    return bool(given.get("source_b64"))
