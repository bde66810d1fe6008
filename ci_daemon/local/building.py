"""One local build: from the files of a tree to the end of its jobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from actors import ir, render
from ci_daemon import lint as linting
from ci_daemon import local
from ci_daemon import submit as submission
from storage import NewBuild, SecretInvalid, SecretScope

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from ci_daemon.local import BuildInterrupts, LocalService, Request
    from ci_daemon.submit import Archive, Screen, Summary
    from storage import Build, Pipeline

_POLL_SECONDS = 0.05


class BuildRefused(Exception):
    """No build can be made of the tree or the options; the message says why."""


class LocalRun:
    """Builds what is requested, and shows it on a stream.

    The modules that plan, follow and show a build are imported while a VM renders it.
    """

    def __init__(self, service: LocalService, request: Request, stream: TextIO, interrupts: BuildInterrupts) -> None:
        self.service = service
        self.request = request
        self.interrupts = interrupts
        self._stream = stream
        self._warned: set[linting.Finding] = set()

    @cached_property
    def screen(self) -> Screen:
        """The display of its builds."""
        return submission.Screen(self._stream)

    def create(self, pack: Callable[[], Archive]) -> Build:
        """Pack, plan and store a build.

        Raises BuildRefused, what ``pack`` raises, and VmError.
        """
        if self.request.ir is not None:
            self._begin()
        with ThreadPoolExecutor(1) as background:
            asked = background.submit(submission.git_revision, self.request.tree)
            archive = pack()
            built = self._built(asked.result())
            declared = self._declared(archive, built, self._begin) if self.request.ir is None else None
            pipeline_ir = (self.request.ir or "") if declared is None else declared.pipeline_ir
            revision = asked.result()
            plan = self._plan(pipeline_ir, built)
            self._check_secrets(plan)
            self._warn(declared, plan)
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
            inputs=self.request.inputs,
            debug=self.request.shell is not None,
            strict_shell=plan.strict_shell,
            concurrency=plan.concurrency,
        )
        return self.service.storage.builds.create(pipeline, new, plan.jobs)

    def plan(self, pack: Callable[[], Archive]) -> linting.LintedPipeline:
        """Pack and plan what would be built, with the steps that its conditions skip; run nothing.

        Raises as `create` does.
        """
        built = self._built(submission.git_revision(self.request.tree))
        declared = self._declared(pack(), built, lambda: None) if self.request.ir is None else None
        pipeline_ir = (self.request.ir or "") if declared is None else declared.pipeline_ir
        plan = self._plan(pipeline_ir, built)
        return linting.LintedPipeline(self.request.pipeline, plan, None if declared is None else declared.triggers)

    def follow(self, build: Build) -> Summary:
        """Run a stored build to its end, and show its logs. The first interrupt cancels it."""
        reader = local.LocalBuild(self.service.storage, self.service.engine, build)
        try:
            with self.interrupts.canceling(lambda: self._cancel(build)):
                self.service.engine.jobs_added(build.id)
                for event in submission.Follower(reader, _POLL_SECONDS).events():
                    self.screen.show(event)
        finally:
            self._forget_secrets(build)
        return submission.Summary(reader.build(), tuple(map(submission.JobCost, reader.jobs())))

    def _begin(self) -> None:
        """Let the engine start, and then import what comes after the render, in other threads."""
        self.service.begin(self._import_the_rest)

    def _import_the_rest(self) -> None:
        """Import what shows a build."""
        _ = (
            ir.load,
            self.screen,
            submission.Follower,
            submission.Summary,
            local.LocalBuild,
            self.service.storage.pipelines,
        )

    def _cancel(self, build: Build) -> None:
        self.screen.print("canceling the build; another Ctrl-C ends it at once")
        self.service.cancel(build.id)

    def _built(self, revision: submission.GitRevision) -> ir.Built:
        return ir.Built(
            branch=revision.branch, commit=revision.commit, repository=revision.repository, inputs=self.request.inputs
        )

    def _declared(self, archive: Archive, built: ir.Built, begin: Callable[[], None]) -> render.DeclaredPipeline:
        """Return the pipeline that the archive declares; call ``begin`` once a VM renders it, or after that."""
        request, _ = self.request, render.ArchiveRenderer  # its imports first: only the render then waits for its VM
        self.service.prepare()
        try:
            envelope = self.service.discover(request.pipeline, archive.data, built=built, meanwhile=begin)
            begin()  # also if no VM was needed
            return submission.select_declared(envelope, request.tree, request.slug)
        except submission.SeveralPipelines as error:
            raise BuildRefused(str(error)) from error
        except render.RenderFailed as failure:
            raise BuildRefused(self._shown(failure)) from failure

    def _shown(self, failure: render.RenderFailed) -> str:
        """Show the output of the pipeline files up to the first traceback; return their mistakes."""
        for line in render.printed_before(failure.log.decode(errors="replace")).splitlines():
            self.screen.print(line)
        return "\n".join(each.text for each in linting.refused(failure).mistakes)

    def _plan(self, pipeline_ir: str, built: ir.Built) -> ir.Plan:
        try:
            plan = ir.load(pipeline_ir, self.service.config.ir, built)
            plan = local.select_steps(plan, self.request.steps) if self.request.steps else plan
            plan = local.without_deployments(plan, self.request.steps)
            if self.request.shell is not None:
                local.step_named(plan.jobs, self.request.shell)
            return plan
        except ir.IrError as error:
            raise BuildRefused(f"{error.code}: {error.message}") from error
        except local.UnknownStep as error:
            raise BuildRefused(str(error)) from error

    def _check_secrets(self, plan: ir.Plan) -> None:
        for job in plan.jobs:
            for name in job.secrets:
                if name not in self.request.secrets:
                    raise BuildRefused(f'the step "{job.name}" needs the secret {name}: give --secret {name}=@FILE')

    def _warn(self, declared: render.DeclaredPipeline | None, plan: ir.Plan) -> None:
        """Show what `ci-daemon lint` warns of in the steps that run, each warning once."""
        request, limits, strict = self.request, self.service.config.ir, self.service.config.jobs.strict_shell
        if declared is None:
            linted = linting.check_ir(request.pipeline, request.ir or "", None, limits, strict_shell=strict)
        else:
            files = linting.PipelineFiles.read(request.tree)
            linted = linting.check_declared(declared, files, limits, strict_shell=strict)
        run = {job.step_key for job in plan.jobs}
        for warning in linted.warnings:
            if warning not in self._warned and (warning.step is None or warning.step in run):
                self._warned.add(warning)
                self.screen.print(f"warning: {warning}")

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
