"""Retries of finished builds from requests (wire-decisions.md, "Rebuilds and retries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import retry
from api.builds.admission import admit_manual_build
from api.builds.rebuilding import source_expired
from api.engine import refuse_while_draining
from api.errors.catalog import ApiError
from storage import BuildBusy, BuildNotFinished, BuildState, PipelineGone

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from storage import Build, Storage


def retry_in_place(storage: Storage, engine: EngineInterface, build: Build) -> Build:
    """Let what did not pass in a finished build run again, and announce it; return the build.

    A build that passed stays as it is. Raises PipelineGone and ApiError: ``draining``, ``build_not_finished``,
    ``build_without_jobs``, ``source_expired``, ``log_expired``, ``busy`` while the last VM is being destroyed, and what
    admits no build.
    """
    refuse_while_draining(engine)
    pipeline = storage.pipelines.by_id(build.pipeline_id)
    if pipeline is None:
        raise PipelineGone(f'the pipeline "{build.pipeline_slug}" was deleted')
    admit_manual_build(storage, pipeline)
    if not build.state.terminal:
        raise ApiError("build_not_finished", f"build {build.number} is {build.state}: wait for its end, or cancel it")
    if build.state is BuildState.PASSED:
        return build
    _require_files(storage, build)
    try:
        if not retry(storage, build):
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
