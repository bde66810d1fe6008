"""Creation of builds from requests (wire-decisions.md, "Pipelines, builds, jobs")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors import EngineBusy, plan_jobs
from actors.ir import IrError, Limits
from actors.render import RenderFailed
from api.bodies import check_body
from api.build_bodies import CreateBuildRequest, CreateRepoBuildRequest
from api.errors import ApiError
from api.meta import refuse_while_draining
from storage import Build, KeyUse, KeyUsed, NewBuild, Organization, Pipeline, PipelineGone, RequestKey, Storage

if TYPE_CHECKING:
    import falcon

    from api.build_bodies import BuildRequest, RepoIdentity
    from api.engine import Engine
    from api.idempotency import Submission
    from api.render_wait import RenderWait
    from api.streams import Place

__all__ = ["BuildIntake"]

_NO_SOURCE = "no source to render from: give pipeline_ir, source_b64 or source_url"


class BuildIntake:
    """Admits, plans and stores builds, and hands them to the engine. Safe in any thread."""

    def __init__(self, storage: Storage, engine: Engine, limits: Limits, renders: RenderWait) -> None:
        self._storage = storage
        self._engine = engine
        self._limits = limits
        self._renders = renders

    def take(self, req: falcon.Request, pipeline: Pipeline, submission: Submission, model: type[BuildRequest]) -> Build:
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
            return self._again(req, use)
        refuse_while_draining(self._engine)
        self._refuse_archived(pipeline)
        if not pipeline.allow_manual:
            raise ApiError("pipeline_manual_disabled", f'the pipeline "{pipeline.slug}" takes no manual builds')
        self._refuse_insolvent(pipeline.organization_id)
        body = check_body(submission.document, model)
        try:
            return self._create(req, pipeline, body, key)
        except KeyUsed as used:
            return self._again(req, used.use)

    def register(self, organization: Organization, meant: RepoIdentity, submission: Submission) -> Pipeline:
        """Return the pipeline that a build's source declares, created if the organization does not have it.

        Raises ApiError ``pipeline_not_found`` if the source declares none of that name, and otherwise as `take` does.
        """
        unknown = f'the organization has no pipeline "{meant.source_slug}" of the repository "{meant.repo_name}"'
        if not _is_to_be_rendered(submission.document):
            raise ApiError("pipeline_not_found", unknown)
        refuse_while_draining(self._engine)
        self._refuse_insolvent(organization.id)
        body = check_body(submission.document, CreateRepoBuildRequest)
        place = self._renders.begin()
        try:
            envelope = self._engine.discover(organization.slug, meant.source_slug, body.archive() or b"")
        except RenderFailed as failure:
            raise ApiError("pipeline_not_found", f"{unknown}, and its source tells of none: {failure}") from None
        except EngineBusy as error:
            raise ApiError("busy", str(error), headers={"Retry-After": "5"}) from None
        finally:
            place.free()
        declared = None if envelope is None else envelope.find(meant.source_slug)
        if declared is None:
            raise ApiError("pipeline_not_found", unknown)
        return self._storage.declarations.register(
            organization.id, meant.repo_name, meant.source_slug, body.branch, declared.declaration
        )

    def _again(self, req: falcon.Request, use: KeyUse) -> Build:
        """Answer a repeated request as the first one was answered."""
        if not use.same_request:
            raise ApiError("idempotency_conflict", "another request, of other content or to another path, has this key")
        build = self._storage.builds.get(use.build_id)
        if build is None:
            raise PipelineGone("the pipeline was deleted, and its builds with it")
        if self._storage.renders.pending(build.id):
            return self._rendered(req, build, self._renders.place())
        if use.rejected:
            raise _rejection(build)
        return build

    def _refuse_archived(self, pipeline: Pipeline) -> None:
        if self._storage.declarations.archived(pipeline.id):
            message = f'the repository of the pipeline "{pipeline.slug}" declares it no more, so it takes no builds'
            raise ApiError("pipeline_not_found", message)

    def _refuse_insolvent(self, organization_id: int) -> None:
        """Raise ApiError ``billing_insufficient_balance`` if credit is required and there is none."""
        if not self._storage.billing.require_credit:
            return
        balance = self._storage.ledger.balance(organization_id)
        organization = self._storage.organizations.by_id(organization_id)
        if balance <= 0 and organization is not None:
            raise ApiError(
                "billing_insufficient_balance",
                f"the balance is {balance} cents, and this service builds on credit alone: redeem a coupon, or have its"
                f" owner run `ci-daemon ledger grant {organization.slug} CENTS`",
            )

    def _create(self, req: falcon.Request, pipeline: Pipeline, body: BuildRequest, key: RequestKey | None) -> Build:
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
            planned = plan_jobs(body.pipeline_ir, self._limits)
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
            raise self._rejected(pipeline, new, "render_failed", _NO_SOURCE)
        place = self._renders.begin()
        try:
            build = self._storage.renders.begin(pipeline, replace(new, pipeline_ir=None), url)
            self._engine.render(build.id)
        except BaseException:
            place.free()
            raise
        return self._rendered(req, build, place)

    def _rendered(self, req: falcon.Request, build: Build, place: Place) -> Build:
        """Wait for a build's render; return the build, or raise its rejection."""
        build = self._renders.rendered(req, build, place)
        render = self._storage.renders.get(build.id)
        if render is not None and render.rejected:
            raise _rejection(build)
        return build

    def _rejected(self, pipeline: Pipeline, new: NewBuild, code: str, message: str) -> ApiError:
        return _rejection(self._storage.builds.create_rejected(pipeline, new, code, message))


def _rejection(build: Build) -> ApiError:
    """Return the error that a rejected build stands for."""
    return ApiError("build_plan_rejected", f"{build.error_code}: {build.error_message}", build_number=build.number)


def _is_to_be_rendered(document: object) -> bool:
    """Tell whether an unchecked body brings source and no plan."""
    given = document if isinstance(document, dict) else {}
    return bool(given.get("source_b64")) and not given.get("pipeline_ir")
