"""`ci-daemon build logs`: the logs of a build's jobs, read from the files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.lookup import find_build
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import RENDER_LOG, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.submit import BuildView, JobView, LogLine
    from storage import Build, JobLog, Storage

__all__ = ["logs"]

_CHUNK_BYTES = 2**20
_POLL_SECONDS = 0.3


@click.command(cls=Command, name="logs", reads=True)
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@click.argument("step", metavar="[STEP]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the build ends.")
@pass_session
def logs(session: Session, *, name: str, step: str | None, follow: bool) -> None:
    """Show the logs of a build's jobs, or of the job with the key STEP, each line with its job's name.

    Existing lines come job by job, in the order of the plan; new lines come as they are written. A build that failed
    before it had jobs shows the log of its rendering. The service need not run.
    """
    if follow and session.json:
        raise click.UsageError("--follow and --json cannot be combined")
    with session.storage_without_billing() as storage:
        build = find_build(storage, name)
        if build.logs_expired_at is not None:
            raise Failure(f"the logs of build {name} were kept until {build.logs_expired_at:%Y-%m-%d} ([retention])")
        if follow:
            build = _wait_for_jobs(storage, build)
        tails = _log_tails(storage, build, step)
        if not tails and step is not None:
            raise Failure(f"build {name} has no step {step}: `ci-daemon build show {name}` shows all")
        if session.json:
            session.answer([each.document() for each in tails], "")
            return
        screen = submission.Screen(sys.stdout)
        screen.show(submission.FollowStarted(_build_view(build), tuple(each.job for each in tails)))
        for line in _lines(storage, build, tails, follow=follow):
            screen.show(line)
        if build.error_message is not None and not storage.jobs.of_build(build.id):
            for text in _reason(build, build.error_message, logged=bool(tails)).splitlines():
                screen.print(text)


def _reason(build: Build, message: str, *, logged: bool) -> str:
    """Return why a build has no jobs: of a message that the log shows already, its last line."""
    lines = message.splitlines()
    why = f"{build.error_code}: {lines[-1]}" if logged and len(lines) > 1 else message
    return f"build #{build.number} {build.state}: {why}"


def _wait_for_jobs(storage: Storage, build: Build) -> Build:
    """Wait until a build has jobs, or is over without any; return it as it then is."""
    found: Build | None = build
    while found is not None and not found.state.terminal and not storage.jobs.of_build(build.id):
        time.sleep(_POLL_SECONDS)
        found = storage.builds.get(build.id)
    return found or build


def _log_tails(storage: Storage, build: Build, step: str | None) -> list[_LogTail]:
    """Return the logs to show: those of the jobs, or that of the rendering if the build has no jobs."""
    jobs = storage.jobs.of_build(build.id)
    if jobs or step is not None:
        return [
            _LogTail(
                submission.JobView(job.uuid, job.name, job.step_key, job.state),
                storage.logs.reader(build.uuid, job.uuid),
            )
            for job in jobs
            if step in {None, job.step_key}
        ]
    log = storage.logs.reader(build.uuid, RENDER_LOG)
    # A build without jobs is never failing, the one state that jobs do not have.
    rendering = submission.JobView(RENDER_LOG, RENDER_LOG, RENDER_LOG, JobState(build.state))
    return [_LogTail(rendering, log)] if log.exists() else []


class _LogTail:
    """A log and the position in it. The log of a build's rendering is shown as that of a job."""

    def __init__(self, job: JobView, log: JobLog) -> None:
        self.job = job
        self._log = log
        self._offset = 0
        self._splitter = submission.LineSplitter()

    def document(self) -> dict[str, object]:
        """Return the whole log with its job."""
        text = self._log.read(0, self._log.size()).decode(errors="replace")
        job_id = None if self.job.id == RENDER_LOG else self.job.id
        return {"job_id": job_id, "key": self.job.step_key, "state": self.job.state, "log": text}

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines that were completed since the last call."""
        while chunk := self._log.read(self._offset, _CHUNK_BYTES):
            self._offset += len(chunk)
            yield from (submission.LogLine(self.job, text) for text in self._splitter.feed(chunk))

    def rest(self) -> Iterator[LogLine]:
        """Yield the remaining lines of a log that has ended."""
        yield from self.lines()
        yield from (submission.LogLine(self.job, text) for text in self._splitter.end())


def _lines(storage: Storage, build: Build, logs: list[_LogTail], *, follow: bool) -> Iterator[LogLine]:
    while follow:
        # Read the state before the logs: if the build is over, the logs read afterwards are complete.
        found = storage.builds.get(build.id)
        if found is None or found.state.terminal:
            break
        for each in logs:
            yield from each.lines()
        time.sleep(_POLL_SECONDS)
    for each in logs:
        yield from each.rest()


def _build_view(build: Build) -> BuildView:
    return submission.BuildView(build.number, build.state, build.created_at, build.started_at, build.finished_at)
