"""Rebuilds: builds that repeat others (wire-decisions.md, "Rebuilds and retries")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import add_planned, repetition
from api.errors.catalog import ApiError
from storage import BuildErrorCode, SourceGone

if TYPE_CHECKING:
    from actors.ir import IrSettings
    from storage import Build, NewBuild, Pipeline, RequestKey, Storage

_NO_SOURCE = "no source to render from: give pipeline_ir, source_b64 or source_url"


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


def planned_build(storage: Storage, limits: IrSettings, pipeline: Pipeline, new: NewBuild) -> Build:
    """Plan and add a build that has a pipeline; a failed one if it is invalid. Raises ApiError."""
    build = add_planned(storage, limits, pipeline, new, refused=True)
    if build.error_code is not None:
        raise plan_rejection(build)
    return build


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
