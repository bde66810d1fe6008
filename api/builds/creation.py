"""The creation of builds: who may, what is built, and builds that repeat others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actors import EngineBusy, add_planned, has_credit, repetition, retry
from actors.render import RenderFailed
from api.builds.bodies import CreateBuildRequest, CreateRepoBuildRequest, RebuildRequest, RepoIdentity, archive_of
from api.engine import refuse_while_draining
from api.errors.catalog import ApiError
from storage import (
    Build,
    BuildBusy,
    BuildErrorCode,
    BuildNotFinished,
    BuildState,
    Environment,
    Job,
    KeyUse,
    KeyUsed,
    NewBuild,
    NewEntry,
    Organization,
    Pipeline,
    PipelineGone,
    RequestKey,
    Role,
    SourceGone,
    Storage,
    TooManyBuilds,
    VerifiedEvent,
    WaitsFor,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import AddedBuild
    from actors.ir import IrSettings
    from api.body import Sender, Submission
    from api.builds.bodies import BuildRequest, RollBackRequest, StartBuildRequest
    from api.builds.render_wait import RenderWait
    from api.engine import EngineInterface
    from api.http.slots import StreamSlot


_MOST_DEPLOYMENTS = 1000
_RETRY = {"Retry-After": "60"}

_NO_SOURCE = "no source to render from: give pipeline_ir, source_b64 or source_url"


def admit_manual_build(storage: Storage, pipeline: Pipeline, budget_id: int | None) -> None:
    """Raise ApiError if a pipeline accepts no build of a caller, or the budget of its key is spent.

    Such a build is manual whatever its ``source`` says. The error is ``pipeline_not_found``,
    ``pipeline_manual_disabled``, ``budget_exhausted``, ``billing_insufficient_balance`` or ``too_many_builds``.
    """
    if storage.declarations.archived(pipeline.id):
        message = f'the repository of the pipeline "{pipeline.slug}" no longer declares it, so it accepts no builds'
        raise ApiError("pipeline_not_found", message)
    if not pipeline.allow_manual:
        raise ApiError(
            "pipeline_manual_disabled",
            f'the pipeline "{pipeline.slug}" accepts no manual builds; set its allow_manual to true',
        )
    require_means_and_room(storage, pipeline.organization_id, budget_id)


def require_means_and_room(storage: Storage, organization_id: int, budget_id: int | None) -> None:
    """Raise ApiError if an organization may not have another build now, which a budget may have to pay.

    The error is ``budget_exhausted``, ``billing_insufficient_balance`` if credit is required and there is none, or
    ``too_many_builds``.
    """
    require_budget(storage, budget_id)
    require_credit(storage, organization_id)
    try:
        storage.build_room.require(organization_id)
    except TooManyBuilds as error:
        message = f"{error}: try again when some have ended, or cancel some"
        raise ApiError("too_many_builds", message, headers=_RETRY) from None


def require_budget(storage: Storage, budget_id: int | None) -> None:
    """Raise ApiError ``budget_exhausted`` if the budget of an API key has nothing left."""
    budget = None if budget_id is None else storage.budgets.of_key(budget_id)
    if budget is not None and not budget.left:
        raise ApiError(
            "budget_exhausted",
            f'the API key "{budget.description}" has spent its budget of {budget.budget_cents} cents:'
            " use another key, or have its owner make one",
        )


def require_credit(storage: Storage, organization_id: int) -> None:
    """Raise ApiError ``billing_insufficient_balance`` if credit is required and an organization has none."""
    if has_credit(storage, organization_id):
        return
    balance, organization = storage.ledger.balance(organization_id), storage.organizations.by_id(organization_id)
    if organization is not None:
        raise ApiError(
            "billing_insufficient_balance",
            f"the balance is {balance} cents, and this service requires credit: redeem a coupon, or have the"
            f" operator run `ci-daemon ledger grant {organization.slug} CENTS`",
        )


AnyRequest = TypeVar("AnyRequest", CreateBuildRequest, CreateRepoBuildRequest)
AnyBody = TypeVar("AnyBody")


class BuildCreation:
    """Checks, plans and stores builds, and hands them to the engine. Safe in any thread."""

    def __init__(self, storage: Storage, engine: EngineInterface, limits: IrSettings, renders: RenderWait) -> None:
        self._storage = storage
        self._engine = engine
        self._limits = limits
        self._renders = renders

    def create(self, call: Sender, role: Role, pipeline: Pipeline, submission: Submission[AnyRequest]) -> Build:
        """Return the build that a request creates, or the one that an earlier request with its key created.

        ``role`` is the caller's in the organization: admins, who may change every limit, are believed about a build.

        Builds that the service triggers itself do not come through here, so ``allow_manual`` does not apply to them.

        If the body has no ``pipeline_ir``, the call waits until the build is rendered.

        Raises ApiError ``draining``, ``pipeline_not_found``, ``pipeline_manual_disabled``,
        ``billing_insufficient_balance``, ``too_many_builds``, ``invalid_body``, ``build_invalid`` or
        ``idempotency_conflict``, which leave no row behind, or ``build_plan_rejected``, which leaves a failed build
        with the same error. ``busy`` means that nothing was made, because none can be rendered now (a drained host
        still takes builds that bring their plan), or that the build is not rendered yet; ``draining`` may mean that,
        too. Raises PipelineGone.
        """
        return self._once(call, pipeline, submission, partial(self._plan, call, role, pipeline))

    def start(self, call: Sender, role: Role, pipeline: Pipeline, submission: Submission[StartBuildRequest]) -> Build:
        """Return a new build of the ref that a body names, or the one that its key has created.

        The service fetches its source as for a push, and renders it, which nobody waits for here. Raises ApiError as
        `create` does, but for its body and plan, or ``repository_not_connected``.
        """
        key = _key(call, pipeline, submission)
        if key is not None and (use := self._storage.idempotency_keys.find(key)) is not None:
            return self._repeat(call, use)
        refuse_while_draining(self._engine)
        admit_manual_build(self._storage, pipeline, call.budget_id)
        if self._storage.repositories.of_pipeline(pipeline) is None:
            raise ApiError(
                "repository_not_connected",
                f'the repository of the pipeline "{pipeline.slug}" is not connected, so nothing can be fetched from it:'
                " connect it, or create a build with its source",
            )
        body = submission.body()
        vouches = role.covers(Role.ADMIN)
        ref = body.ref or pipeline.default_branch
        new = NewBuild(
            branch=ref.removeprefix("refs/heads/").removeprefix("refs/tags/"),
            commit="",
            message=body.message,
            source=body.source or "api",
            env=body.env or {},
            key=key,
            debug=bool(body.debug),
            created_by=_user_id(call),
            budget_id=call.budget_id,
            inputs=body.inputs or {},
            ref=ref,
            verified_event=VerifiedEvent.MANUAL if vouches or not body.env else VerifiedEvent.API,
        )
        try:
            build = self._storage.renders.begin(pipeline, new, None)
        except KeyUsed as used:
            return self._repeat(call, used.use)
        self._engine.render(build.id)
        return build

    def rebuild(self, call: Sender, pipeline: Pipeline, build: Build, submission: Submission[RebuildRequest]) -> Build:
        """Return a new build that repeats another one, or the one that its key has created.

        Raises as `create` does, and ApiError ``source_expired``.
        """

        def repeated(body: RebuildRequest, key: RequestKey | None) -> Build:
            try:
                new, source_url = rebuild_of(self._storage, build, body.source or "api", key)
                asked = _asked(call, new, body)
                return self._create(call, pipeline, asked, source_url)
            except SourceGone:
                raise source_expired(build) from None

        return self._once(call, pipeline, submission, repeated)

    def roll_back(self, call: Sender, environment: Environment, submission: Submission[RollBackRequest]) -> Build:
        """Return a new build that repeats a deployment which passed, with what its build made.

        Raises as `rebuild` does, and ApiError ``nothing_to_roll_back`` and ``deployment_not_kept``.
        """
        from actors import NotKept, roll_back  # noqa: PLC0415 - few builds roll back

        pipeline, build, job = self._earlier(environment, submission.body())

        def repeated(body: RollBackRequest, key: RequestKey | None) -> Build:
            if build.untrusted:
                message = f"build {build.number} is of a fork's pull request, of which nothing is taken over"
                raise ApiError("deployment_not_kept", message)
            new, _ = rebuild_of(self._storage, build, body.source or "api", key)
            asked = _asked(call, new, body)
            try:
                added = roll_back(self._storage, self._limits, pipeline, asked, build, job)
            except NotKept as error:
                raise ApiError(
                    "deployment_not_kept", f"build {build.number} cannot be rolled back to: {error}"
                ) from None
            except SourceGone:
                raise source_expired(build) from None
            return self._announce(call, added)

        return self._once(call, pipeline, submission, repeated)

    def _earlier(self, environment: Environment, asked: RollBackRequest) -> tuple[Pipeline, Build, Job]:
        """Return the job of the deployment to go back to. Raises ApiError ``nothing_to_roll_back``."""
        passed = self._storage.environments.passed(environment, _MOST_DEPLOYMENTS)
        if asked.job_id is None:
            earlier = next((each for each in passed[1:] if each.build_id != passed[0].build_id), None)
            missing = "nothing was deployed to it before the deployment that is there"
        else:
            earlier = next((each for each in passed if each.job_uuid == asked.job_id), None)
            missing = f"none of its last {_MOST_DEPLOYMENTS} deployments that passed is of this job"
        build = None if earlier is None else self._storage.builds.get(earlier.build_id)
        pipeline = None if build is None else self._storage.pipelines.by_id(build.pipeline_id)
        job = None if earlier is None else self._storage.jobs.get(earlier.id)
        if build is None or pipeline is None or job is None:
            raise ApiError("nothing_to_roll_back", f"{environment.name}: {missing}")
        return pipeline, build, job

    def _once(
        self,
        call: Sender,
        pipeline: Pipeline,
        submission: Submission[AnyBody],
        make: Callable[[AnyBody, RequestKey | None], Build],
    ) -> Build:
        """Return the build that ``make`` creates, or the one that an earlier request with the key made.

        Checks have the order of wire-decisions.md, "Creating a build".
        """
        key = _key(call, pipeline, submission)
        if key is not None and (use := self._storage.idempotency_keys.find(key)) is not None:
            return self._repeat(call, use)
        refuse_while_draining(self._engine)
        admit_manual_build(self._storage, pipeline, call.budget_id)
        body = submission.body()
        try:
            return make(body, key)
        except KeyUsed as used:
            return self._repeat(call, used.use)

    def create_by_source(
        self, call: Sender, role: Role, organization: Organization, submission: Submission[CreateRepoBuildRequest]
    ) -> Build:
        """Return the build of a pipeline that the body names by its repository, as `create` does."""
        from api.models import body_of  # noqa: PLC0415 - pydantic

        identity = body_of(submission.document, RepoIdentity)
        found = self._storage.pipelines.by_source(organization.id, identity.repo_name, identity.source_slug)
        pipeline = found or self._register_pipeline(call, organization, identity, submission)
        return self.create(call, role, pipeline, submission)

    def _register_pipeline(
        self,
        call: Sender,
        organization: Organization,
        identity: RepoIdentity,
        submission: Submission[CreateRepoBuildRequest],
    ) -> Pipeline:
        """Return the pipeline that a build's source declares, created if the organization does not have it.

        Raises ApiError ``pipeline_not_found`` if the source declares none of that name, and otherwise as `create` does.
        """
        unknown = f'the organization has no pipeline "{identity.source_slug}" of the repository "{identity.repo_name}"'
        if not _brings_source(submission.document):
            raise ApiError("pipeline_not_found", unknown)
        refuse_while_draining(self._engine)
        require_means_and_room(self._storage, organization.id, call.budget_id)
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

    def _repeat(self, call: Sender, use: KeyUse) -> Build:
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

    def _plan(self, call: Sender, role: Role, pipeline: Pipeline, body: BuildRequest, key: RequestKey | None) -> Build:
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
            budget_id=call.budget_id,
            inputs=body.inputs or {},
            entry=_entry(call),
            verified_ref=f"refs/heads/{body.branch}" if role.covers(Role.ADMIN) else None,
        )
        return self._create(call, pipeline, new, by_slug.source_url if by_slug else None)

    def _create(self, call: Sender, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Store a build, and announce it to the engine; if it has no pipeline, it is rendered first."""
        if new.pipeline_ir is None or not new.pipeline_ir.strip():
            return self._render(call, pipeline, new, source_url)
        return self._announce(call, add_planned(self._storage, self._limits, pipeline, new, refused=True))

    def _announce(self, call: Sender, added: AddedBuild) -> Build:
        """Tell the engine of a planned build. Raises the rejection of one that is invalid."""
        if added.build.error_code is not None:
            raise plan_rejection(added.build)
        if call.entry is not None:
            call.entry.wrote()
        self._engine.jobs_added(added.build.id, need_vms=added.needs_vms)
        return added.build

    def _render(self, call: Sender, pipeline: Pipeline, new: NewBuild, source_url: str | None) -> Build:
        """Store a build without jobs, start its render and wait for the end."""
        url = None if new.has_source else source_url
        if not new.has_source and not url and new.ref is None:
            raise no_source(self._storage, pipeline, new)
        slot = self._renders.slot_for_new_build(pipeline.organization_id)
        try:
            build = self._storage.renders.begin(pipeline, replace(new, pipeline_ir=None, entry=None), url)
            self._engine.render(build.id)
        except BaseException:
            slot.release()
            raise
        return self._wait_for_render(call, build, slot)

    def _wait_for_render(self, call: Sender, build: Build, slot: StreamSlot) -> Build:
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


def _user_id(call: Sender) -> int | None:
    return None if call.user is None else call.user.id


def _entry(call: Sender) -> NewEntry | None:
    return None if call.entry is None else call.entry.make()


def _asked(call: Sender, repeated: NewBuild, body: RebuildRequest | RollBackRequest) -> NewBuild:
    """Return a build that repeats another one, as the caller asked for it."""
    return replace(
        repeated,
        created_by=_user_id(call),
        budget_id=call.budget_id,
        debug=bool(body.debug),
        entry=_entry(call),
    )


def _key(call: Sender, pipeline: Pipeline, submission: Submission[Any]) -> RequestKey | None:
    """Return the idempotency key of a user's request; None without."""
    if submission.key is None or call.user is None:
        return None
    return RequestKey(call.user.id, pipeline.organization_id, submission.key, submission.digest)


def _brings_source(document: object) -> bool:
    """Tell whether an unchecked body brings source, with a plan or without."""
    given = document if isinstance(document, dict) else {}
    return bool(given.get("source_b64"))


def rebuild_of(
    storage: Storage, build: Build, source: str, key: RequestKey | None = None
) -> tuple[NewBuild, str | None]:
    """Return a build to create that repeats another one, and the URL of a source not fetched yet.

    The VMs of its failed jobs are not held, whatever the first build asked for. Raises ApiError ``source_expired``.
    """
    try:
        return repetition(storage, build, source, key)
    except SourceGone:
        raise source_expired(build) from None


def no_source(storage: Storage, pipeline: Pipeline, new: NewBuild) -> ApiError:
    """Add a failed build that has neither pipeline nor source; return its rejection."""
    code = BuildErrorCode.RENDER_FAILED
    return plan_rejection(storage.builds.create_rejected(pipeline, new, code, _NO_SOURCE, refused=True))


def plan_rejection(build: Build) -> ApiError:
    """Return the error that a rejected build stands for."""
    return ApiError("build_plan_rejected", f"{build.error_code}: {build.error_message}", build_number=build.number)


def source_expired(build: Build) -> ApiError:
    """Return the error that a build's source archive is gone."""
    return ApiError("source_expired", f"the source of build {build.number} is no longer kept; create a new build")


def retry_in_place(
    storage: Storage, engine: EngineInterface, build: Build, job: Job | None = None, *, budget_id: int | None
) -> Build:
    """Let what did not pass in a finished build, or one job of it, run again; return the build.

    From now on the budget of an API key pays for it, if the caller's has one.

    A build that passed stays as it is. Raises PipelineGone and ApiError: ``draining``, ``build_not_finished``,
    ``build_without_jobs``, ``source_expired``, ``log_expired``, ``busy`` while the last VM is being destroyed, and what
    admits no build.
    """
    refuse_while_draining(engine)
    pipeline = storage.pipelines.by_id(build.pipeline_id)
    if pipeline is None:
        raise PipelineGone(f'the pipeline "{build.pipeline_slug}" was deleted')
    admit_manual_build(storage, pipeline, budget_id)
    if not build.state.terminal:
        raise ApiError("build_not_finished", f"build {build.number} is {build.state}: wait for its end, or cancel it")
    if build.state is BuildState.PASSED:
        return build
    _require_files(storage, build)
    try:
        if not retry(storage, build, job, budget_id):
            if job is not None:
                why = f"there is nothing of {job.step_key} to run again: it passed, or what it needs did not"
                raise ApiError("build_without_jobs", why)
            raise ApiError("build_without_jobs", f"build {build.number} has no job to run again; rebuild it instead")
    except BuildNotFinished as error:
        raise ApiError("build_not_finished", f"{error}: get the build again") from None
    except BuildBusy as error:
        raise ApiError("busy", str(error), headers={"Retry-After": "1"}) from None
    retried = storage.builds.get(build.id) or build
    if not retried.state.terminal:
        engine.jobs_added(build.id)
    return retried


def _require_files(storage: Storage, build: Build) -> None:
    """Raise ApiError if the source of a build is gone, or the logs of its earlier attempts."""
    kept = build.source_expired_at is None and storage.sources.path(build.uuid).exists()
    if build.has_source and not kept:
        raise source_expired(build)
    if build.logs_expired_at is not None:
        raise ApiError("log_expired", f"the logs of build {build.number} are no longer kept; rebuild it instead")
