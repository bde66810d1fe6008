"""The record and cache of renders: a build's plan, or why it has none (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from actors.builds.adding import built_of
from actors.ir import IrError, load, with_needed
from actors.messages import BuildCreated
from actors.render.envelope import Envelope, RenderFailed
from actors.render.guest import program
from actors.render.loader import dsl_version
from actors.vms import ImageNotFound
from storage import RENDER_LOG, BuildErrorCode, DeclaringRepository

if TYPE_CHECKING:
    from pathlib import Path

    from actors.ir import Built, Plan
    from actors.parts import VmParts
    from actors.vms import Images
    from storage import Build, Clock, Pipeline, Rendered, Storage

_log = logging.getLogger(__name__)
_YAML = "2"
"""The way in which YAML files are read: another one renders what is cached again."""


def cache_name(organization: str, pipeline: str, archive: Path, images: Images, image: str) -> bytes:
    """Return a hash of everything that determines an envelope, except the time. Raises ImageNotFound."""
    languages = dsl_version(), program("load"), program("language"), _YAML
    parts = (organization, pipeline, sha256_of(archive), *languages, images.identity(image))
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def sha256_of(archive: Path) -> str:
    """Return the digest of a file, in hex."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def keep(storage: Storage, clock: Clock, seconds: float, name: bytes, rendered: Rendered) -> None:
    """Keep an envelope for some seconds, or until one of its cache keys would change.

    One that is of its build alone is not kept.
    """
    envelope = Envelope.parse(rendered.envelope)
    if envelope.of_build:
        return
    now = clock.now()
    until = now + timedelta(seconds=seconds)
    valid_until = envelope.valid_until(now.timestamp())
    if valid_until is not None:
        until = min(until, datetime.fromtimestamp(min(valid_until, until.timestamp()), UTC))
    if until > now:
        storage.renders.keep(name, rendered, until)


class RenderRecorder:
    """Writes the results of renders, announces them and counts them."""

    def __init__(self, parts: VmParts) -> None:
        self._storage = parts.storage
        self._images = parts.images
        self._live_settings = parts.live_settings
        self._metrics = parts.metrics
        self._root = parts.addresses.root
        self._watchers = parts.watchers

    def plan_from_cache(self, build: Build) -> bool:
        """Plan a build from an earlier render of the same archive; False if there is none.

        Also False if the archive is not on this host, or does not match the build's SHA-256.
        """
        if not build.has_source:
            return False
        archive = self._storage.sources.path(build.uuid)
        try:
            image = self._images.resolve(None)
            name = cache_name(build.organization_slug, build.pipeline_slug, archive, self._images, image)
        except ImageNotFound:
            return False
        rendered = self._storage.renders.cached(name)
        if rendered is None or (build.source_sha256 and build.source_sha256 != sha256_of(archive)):
            return False
        self.record(build, rendered)
        return True

    def record(self, build: Build, rendered: Rendered) -> None:
        """Record the result of a render: the build's plan, or why it has none."""
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        if pipeline is None:
            return
        try:
            envelope = Envelope.parse(rendered.envelope)
            pipeline_ir = envelope.select(pipeline.source_slug or pipeline.slug).pipeline_ir
            planned = load(pipeline_ir, self._live_settings.now.ir, built_of(self._storage, build, pipeline))
            planned = self._searched(build, planned)
        except RenderFailed as failure:
            self.refuse(build, BuildErrorCode.RENDER_FAILED, str(failure), rendered.log)
        except IrError as error:
            self.refuse(build, error.code, error.message, rendered.log)
        else:
            self._write_log(build, rendered.log)
            if self._storage.renders.plan(
                build.id,
                pipeline_ir,
                planned.timeout_seconds,
                planned.jobs,
                has_source=True,
                warnings=planned.warnings,
                strict_shell=planned.strict_shell,
                concurrency=planned.concurrency,
            ):
                self._metrics.rendered()
                self._root.post(BuildCreated(build.id))
                self._follow(build, pipeline, envelope)
            self._watchers.notify(build.uuid)

    def built(self, build: Build) -> Built | None:
        """Return what a build is of; None if its pipeline is deleted."""
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        return None if pipeline is None else built_of(self._storage, build, pipeline)

    def _searched(self, build: Build, planned: Plan) -> Plan:
        """Return a plan as it is, or that of the one job that a search looks at. Raises RenderFailed."""
        search = None if build.culprit_search_id is None else self._storage.culprits.get(build.culprit_search_id)
        return planned if search is None else _alone(planned, search.step_key)

    def _follow(self, build: Build, pipeline: Pipeline, envelope: Envelope) -> None:
        """Store the pipelines that the repository declares, if the build is of its default branch."""
        newest = build.culprit_search_id is None  # else it is of an earlier commit
        if newest and pipeline.repo_name is not None and build.branch == pipeline.default_branch:
            declared = {each.slug: each.declaration for each in envelope.pipelines}
            repository = DeclaringRepository(pipeline.organization_id, pipeline.repo_name, pipeline.repository)
            self._storage.declarations.follow(repository, declared)

    def refuse(self, build: Build, code: BuildErrorCode, message: str, log: bytes) -> None:
        """Fail a build that cannot be rendered or planned, and keep the output of its pipeline files."""
        self._write_log(build, log)
        if self._storage.renders.refuse(build.id, code, message):
            self._metrics.rendered(code)
        self._watchers.notify(build.uuid)

    def _write_log(self, build: Build, log: bytes) -> None:
        """Keep the output of the pipeline files, once. If it cannot be written, the build still gets its plan."""
        try:
            if log and not self._storage.logs.reader(build.uuid, RENDER_LOG).exists():
                with self._storage.logs.writer(build.uuid, RENDER_LOG, 1) as writer:
                    writer.output(log)
        except OSError as error:
            _log.warning("the render log of build %s cannot be written: %s", build.uuid, error)


def _alone(plan: Plan, step_key: str) -> Plan:
    """Return the plan with one job and what it needs.

    That may come from the cache, the job itself does not. Raises RenderFailed if the pipeline has no such job, or
    something would be deployed.
    """
    position = next((place for place, job in enumerate(plan.jobs) if job.step_key == step_key), None)
    if position is None:
        raise RenderFailed(f'the pipeline of this commit has no step "{step_key}"')
    alone = with_needed(plan, {position})
    for job in alone.jobs:
        if job.environment is not None:
            raise RenderFailed(f'"{job.step_key}" deploys to "{job.environment}", so that no search runs it')
    *needed, last = alone.jobs
    return replace(alone, jobs=(*needed, replace(last, cache_key=None)), concurrency=None)
