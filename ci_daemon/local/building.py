"""One local build: from the files of a tree to the end of its jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.ir import IrError, Plan, load
from actors.render import RenderFailed
from ci_daemon.local.reading import LocalBuild
from ci_daemon.local.selection import UnknownStep, select_steps, step_named
from ci_daemon.submit import (
    Follower,
    JobCost,
    SeveralPipelines,
    Summary,
    git_revision,
    select_declared,
)
from storage import NewBuild, SecretInvalid, SecretScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from ci_daemon.local.interrupts import Interrupts
    from ci_daemon.local.request import Request
    from ci_daemon.local.service import LocalService
    from ci_daemon.submit import Archive, Screen
    from storage import Build, Pipeline

__all__ = ["BuildRefused", "LocalRun"]

_POLL_SECONDS = 0.05


class BuildRefused(Exception):
    """No build can be made of the tree or the options; the message says why."""


@dataclass(frozen=True, slots=True)
class LocalRun:
    """Builds what is requested, and shows it."""

    service: LocalService
    request: Request
    screen: Screen
    interrupts: Interrupts

    def create(self, pack: Callable[[], Archive]) -> Build:
        """Pack, plan and store a build.

        Raises BuildRefused, what ``pack`` raises, and VmError.
        """
        if self.request.ir is not None:
            self.service.prepare()
        with ThreadPoolExecutor(1) as background:
            asked = background.submit(git_revision, self.request.tree)
            archive = pack()
            pipeline_ir = self._rendered(archive) if self.request.ir is None else self.request.ir
            plan = self._plan(pipeline_ir)
            self._check_secrets(plan)
        revision = asked.result()
        pipeline = self.service.pipeline(self.request.pipeline, revision.repository, revision.branch)
        self._set_secrets(pipeline)
        new = NewBuild(
            branch=revision.branch,
            commit=revision.commit,
            message=revision.message,
            source="cli",
            env=self.request.env,
            pipeline_ir=pipeline_ir,
            timeout_seconds=plan.timeout_seconds,
            source_archive=archive.data,
            source_sha256=archive.sha256,
            debug=self.request.shell is not None,
        )
        return self.service.storage.builds.create(pipeline, new, plan.jobs)

    def follow(self, build: Build) -> Summary:
        """Run a stored build to its end, and show its logs. The first interrupt cancels it."""
        reader = LocalBuild(self.service.storage, self.service.engine, build)
        try:
            with self.interrupts.canceling(lambda: self._cancel(build)):
                self.service.engine.jobs_added(build.id)
                for event in Follower(reader, _POLL_SECONDS).events():
                    self.screen.show(event)
        finally:
            self._forget_secrets(build)
        return Summary(reader.build(), tuple(map(JobCost, reader.jobs())))

    def _cancel(self, build: Build) -> None:
        self.screen.print("canceling the build; another Ctrl-C ends it at once")
        self.service.cancel(build.id)

    def _rendered(self, archive: Archive) -> str:
        """Return the IR of the pipeline that the archive declares."""
        request = self.request
        try:
            envelope = self.service.discover(request.pipeline, archive.data)
            return select_declared(envelope, request.tree, request.slug).pipeline_ir
        except SeveralPipelines as error:
            raise BuildRefused(str(error)) from error
        except RenderFailed as failure:
            raise BuildRefused(self._shown(failure)) from failure

    def _shown(self, failure: RenderFailed) -> str:
        """Show the output of the pipeline files; return what it does not say of their failure."""
        output = failure.log.decode(errors="replace")
        for line in output.splitlines():
            self.screen.print(line)
        result, _, reason = str(failure).partition(": ")
        return result if reason.strip() and reason.strip() in output else str(failure)

    def _plan(self, pipeline_ir: str) -> Plan:
        try:
            plan = load(pipeline_ir, self.service.config.ir)
            plan = select_steps(plan, self.request.steps) if self.request.steps else plan
            if self.request.shell is not None:
                step_named(plan.jobs, self.request.shell)
            return plan
        except IrError as error:
            raise BuildRefused(f"{error.code}: {error.message}") from error
        except UnknownStep as error:
            raise BuildRefused(str(error)) from error

    def _check_secrets(self, plan: Plan) -> None:
        for job in plan.jobs:
            for name in job.secrets:
                if name not in self.request.secrets:
                    raise BuildRefused(f'the step "{job.name}" needs the secret {name}: give --secret {name}=@FILE')

    def _set_secrets(self, pipeline: Pipeline) -> None:
        """Store the secrets of the request, sealed, for the time of the build, and no others."""
        secrets, scope = self.service.storage.secrets, SecretScope(pipeline.organization_id, pipeline.id)
        for left in secrets.names(scope):
            secrets.remove(scope, left.name)
        for name, value in self.request.secrets.items():
            try:
                secrets.put(scope, name, value)
            except SecretInvalid as error:
                raise BuildRefused(f"--secret {name}: {error}") from error

    def _forget_secrets(self, build: Build) -> None:
        scope = SecretScope(build.organization_id, build.pipeline_id)
        for name in self.request.secrets:
            self.service.storage.secrets.remove(scope, name)
