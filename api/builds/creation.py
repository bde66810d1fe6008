"""Creation of builds from requests (wire-decisions.md, "Pipelines, builds, jobs")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors import EngineBusy
from actors.ir import IrError, IrSettings, load
from actors.render import RenderFailed
from api.bodies import check_body
from api.builds.bodies import CreateBuildRequest, CreateRepoBuildRequest
from api.engine import refuse_while_draining
from api.errors.responses import ApiError
from storage import (
    Build,
    BuildErrorCode,
    KeyUse,
    KeyUsed,
    NewBuild,
    Organization,
    Pipeline,
    PipelineGone,
    RequestKey,
    Storage,
)

if TYPE_CHECKING:
    import falcon

    from api.builds.bodies import BuildRequest, RepoIdentity
    from api.builds.render_wait import RenderWait
    from api.engine import EngineInterface
    from api.http.slots import StreamSlot
    from api.middleware.idempotency import Submission

__all__ = ["BuildCreation"]

_NO_SOURCE = "no source to render from: give pipeline_ir, source_b64 or source_url"


class BuildCreation:
    """Checks, plans and stores builds, and hands them to the engine. Safe in any thread."""

    def __init__(self, storage: Storage, engine: EngineInterface, limits: IrSettings, renders: RenderWait) -> None:
        self._storage = storage
        self._engine = engine
        self._limits = limits
        self._renders = renders

    def create(
        self, req: falcon.Request, pipeline: Pipeline, submission: Submission, model: type[BuildRequest]
    ) -> Build:
        """Return the build that a request creates, or the one that an earlier request with its key created.

        A caller's build is manual whatever its ``source`` says. Builds that the service triggers itself do not come
        through here, so ``allow_manual`` does not apply to them.

        If the body has no ``pipeline_ir``, the call waits until the build is rendered.

        Raises ApiError ``draining``, ``pipeline_not_found``, ``pipeline_manual_disabled``,
        ``billing_insufficient_balance``, ``invalid_body``, ``build_invalid`` or ``idempotency_conflict``, which leave
        no row behind, or ``build_plan_rejected``, which leaves a failed build with the same error. ``busy`` means that
        no build was made because none can be rendered now (a drained host still takes builds that bring their plan),
        or, as ``draining`` may too, that the build was made but is not rendered yet. Raises PipelineGone.
        """
        key = submission.key
        if key is not None and (use := self._storage.idempotency_keys.find(key)) is not None:
            return self._repeat(req, use)
        refuse_while_draining(self._engine)
        self._refuse_archived(pipeline)
        if not pipeline.allow_manual:
            raise ApiError(
                "pipeline_manual_disabled",
                f'the pipeline "{pipeline.slug}" accepts no manual builds; set its allow_manual to true',
            )
        self._require_credit(pipeline.organization_id)
        body = check_body(submission.document, model)
        try:
            return self._plan(req, pipeline, body, key)
        except KeyUsed as used:
            return self._repeat(req, used.use)

    def register_pipeline(self, organization: Organization, identity: RepoIdentity, submission: Submission) -> Pipeline:
        """Return the pipeline that a build's source declares, created if the organization does not have it.

        Raises ApiError ``pipeline_not_found`` if the source declares none of that name, and otherwise as `create` does.
        """
        unknown = f'the organization has no pipeline "{identity.source_slug}" of the repository "{identity.repo_name}"'
        if not _needs_render(submission.document):
            raise ApiError("pipeline_not_found", unknown)
        refuse_while_draining(self._engine)
        self._require_credit(organization.id)
        body = check_body(submission.document, CreateRepoBuildRequest)
        slot = self._renders.slot_for_new_build()
        try:
            envelope = self._engine.discover(organization.slug, identity.source_slug, body.archive() or b"")
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
        return self._storage.declarations.register(
            organization.id, identity.repo_name, identity.source_slug, body.branch, declared.declaration
        )

    def _repeat(self, req: falcon.Request, use: KeyUse) -> Build:
        """Answer a repeated request as the first one was answered."""
        if not use.same_request:
            raise ApiError(
                "idempotency_conflict", "this key was used for a request with another body or path; use a new key"
            )
        build = self._storage.builds.get(use.build_id)
        if build is None:
            raise PipelineGone("the pipeline and its builds were deleted")
        if self._storage.renders.pending(build.id):
            return self._wait_for_render(req, build, self._renders.slot())
        if use.rejected:
            raise _rejection(build)
        return build

    def _refuse_archived(self, pipeline: Pipeline) -> None:
        if self._storage.declarations.archived(pipeline.id):
            message = f'the repository of the pipeline "{pipeline.slug}" no longer declares it, so it accepts no builds'
            raise ApiError("pipeline_not_found", message)

    def _require_credit(self, organization_id: int) -> None:
        """Raise ApiError ``billing_insufficient_balance`` if credit is required and there is none."""
        if not self._storage.billing.require_credit:
            return
        balance = self._storage.ledger.balance(organization_id)
        organization = self._storage.organizations.by_id(organization_id)
        if balance <= 0 and organization is not None:
            raise ApiError(
                "billing_insufficient_balance",
                f"the balance is {balance} cents, and this service requires credit: redeem a coupon, or have the"
                f" operator run `ci-daemon ledger grant {organization.slug} CENTS`",
            )

    def _plan(self, req: falcon.Request, pipeline: Pipeline, body: BuildRequest, key: RequestKey | None) -> Build:
        """Plan and store a build, and announce it to the engine."""
        by_slug = body if isinstance(body, CreateBuildRequest) else None
        new = NewBuild(
            branch=body.branch,
            commit=body.commit,
            message=body.message,
            source=body.source or "api",
            env=body.env or {},
            pipeline_ir=body.pipeline_ir,
            source_archive=body.archive(),
            source_sha256=(by_slug and by_slug.source_sha256) or "",
            key=key,
            debug=bool(body.debug),
        )
        if body.pipeline_ir is None or not body.pipeline_ir.strip():
            return self._render(req, pipeline, new, by_slug.source_url if by_slug else None)
        try:
            planned = load(body.pipeline_ir, self._limits)
        except IrError as error:
            raise self._rejected(pipeline, new, error.code, error.message) from None
        new = replace(new, timeout_seconds=planned.timeout_seconds)
        build = self._storage.builds.create(pipeline, new, planned.jobs)
        self._engine.jobs_added(build.id)
        return build

    def _render(self, req: falcon.Request, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Store a build without jobs, start its render and wait for the end."""
        url = None if new.source_archive is not None else source_url
        if new.source_archive is None and not url:
            raise self._rejected(pipeline, new, BuildErrorCode.RENDER_FAILED, _NO_SOURCE)
        slot = self._renders.slot_for_new_build()
        try:
            build = self._storage.renders.begin(pipeline, replace(new, pipeline_ir=None), url)
            self._engine.render(build.id)
        except BaseException:
            slot.release()
            raise
        return self._wait_for_render(req, build, slot)

    def _wait_for_render(self, req: falcon.Request, build: Build, slot: StreamSlot) -> Build:
        """Wait for a build's render; return the build, or raise its rejection."""
        build = self._renders.wait_for_render(req, build, slot)
        render = self._storage.renders.get(build.id)
        if render is not None and render.rejected:
            raise _rejection(build)
        return build

    def _rejected(self, pipeline: Pipeline, new: NewBuild, code: BuildErrorCode, message: str) -> ApiError:
        return _rejection(self._storage.builds.create_rejected(pipeline, new, code, message))


def _rejection(build: Build) -> ApiError:
    """Return the error that a rejected build stands for."""
    return ApiError("build_plan_rejected", f"{build.error_code}: {build.error_message}", build_number=build.number)


def _needs_render(document: object) -> bool:
    """Tell whether an unchecked body brings source and no plan."""
    given = document if isinstance(document, dict) else {}
    return bool(given.get("source_b64")) and not given.get("pipeline_ir")
