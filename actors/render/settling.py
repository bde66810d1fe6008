"""The record of a render: the build's plan, or why it has none (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.intake import plan_jobs
from actors.ir import IrError
from actors.messages import Planted, Stirred
from actors.render.cache import cache_name, sha256_of
from actors.render.envelope import Envelope, RenderFailed
from actors.runtime import Runtime, post
from storage import RENDER_LOG

if TYPE_CHECKING:
    from storage import Build, Pipeline, Rendered

__all__ = ["plan_from_cache", "refuse", "settle"]

_log = logging.getLogger(__name__)


def plan_from_cache(runtime: Runtime, build: Build) -> bool:
    """Plan a build from an earlier render of the same archive; False if there is none.

    Also False if the archive is not on this host, or does not match the build's SHA-256.
    """
    if not build.has_source:
        return False
    archive = runtime.storage.sources.path(build.uuid)
    image = runtime.images.resolve(None)
    rendered = runtime.storage.renders.cached(cache_name(build.organization_slug, build.pipeline_slug, archive, image))
    if rendered is None or (build.source_sha256 and build.source_sha256 != sha256_of(archive)):
        return False
    settle(runtime, build, rendered)
    return True


def settle(runtime: Runtime, build: Build, rendered: Rendered) -> None:
    """Record the result of a render: the build's plan, or why it has none."""
    pipeline = runtime.storage.pipelines.by_id(build.pipeline_id)
    if pipeline is None:
        return
    try:
        envelope = Envelope.parse(rendered.envelope)
        pipeline_ir = envelope.wanted(pipeline.source_slug or pipeline.slug).pipeline_ir
        planned = plan_jobs(pipeline_ir, runtime.settings.limits)
    except RenderFailed as failure:
        refuse(runtime, build, "render_failed", str(failure), rendered.log)
    except IrError as error:
        refuse(runtime, build, error.code, error.message, rendered.log)
    else:
        _write_log(runtime, build, rendered.log)
        storage = runtime.storage
        if storage.renders.plan(build.id, pipeline_ir, planned.timeout_seconds, planned.jobs, has_source=True):
            runtime.observations.rendered()
            post(runtime.crew.root, Planted(build.id))
            _follow(runtime, build, pipeline, envelope)
        post(runtime.crew.hub, Stirred(build.uuid))


def _follow(runtime: Runtime, build: Build, pipeline: Pipeline, envelope: Envelope) -> None:
    """Store the pipelines that the repository declares, if the build is of its default branch."""
    if pipeline.repo_name is not None and build.branch == pipeline.default_branch:
        declared = {each.slug: each.declaration for each in envelope.pipelines}
        runtime.storage.declarations.follow(pipeline.organization_id, pipeline.repo_name, declared)


def refuse(runtime: Runtime, build: Build, code: str, message: str, log: bytes) -> None:
    """Fail a build that cannot be rendered or planned, and keep the output of its pipeline files."""
    _write_log(runtime, build, log)
    if runtime.storage.renders.refuse(build.id, code, message):
        runtime.observations.rendered(code)
    post(runtime.crew.hub, Stirred(build.uuid))


def _write_log(runtime: Runtime, build: Build, log: bytes) -> None:
    """Keep the output of the pipeline files, once. If it cannot be written, the build still gets its plan."""
    try:
        if log and not runtime.storage.logs.reader(build.uuid, RENDER_LOG).exists():
            with runtime.storage.logs.writer(build.uuid, RENDER_LOG, 1) as writer:
                writer.output(log)
    except OSError as error:
        _log.warning("the render log of build %s cannot be written: %s", build.uuid, error)
