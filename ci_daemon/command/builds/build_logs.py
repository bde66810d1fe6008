"""`ci-daemon build logs`: the logs of a build's jobs."""

from __future__ import annotations

import sys
import time
from itertools import chain
from typing import TYPE_CHECKING

import click

from api.operations import JobRecord
from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal import print_paged
from storage import RENDER_LOG, JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.operations import BuildRecord
    from ci_daemon.submit import BuildReader, LogLine

_POLL_SECONDS = 0.3


@click.command(cls=SharedCommand, name="logs", reads=True)
@build_argument
@click.argument("step", metavar="[STEP]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until the build ends.")
@pass_session
def logs(session: Session, *, name: BuildName, step: str | None, follow: bool) -> None:
    """Show the logs of a build's jobs, or of the job with the key STEP, each line with its job's name.

    Existing lines come job by job, in the order of the plan; new lines come as they are written. A build that failed
    before it had jobs shows the log of its rendering. On the box, the service need not run. Ctrl-C ends this command
    alone; the build continues.
    """
    if follow and session.json:
        raise click.UsageError("--follow and --json cannot be combined")
    from ci_daemon.command.builds.build_files import build_reader  # noqa: PLC0415 - the other commands read no logs

    with build_reader(session, name) as reader:
        build = _wait_for_jobs(reader) if follow else reader.build()
        jobs = reader.jobs()
        tails = _log_tails(reader, build, jobs, step)
        if not tails and step is not None:
            raise Failure(f"build {name} has no step {step}: `ci-daemon build show {name}` shows all")
        if session.json:
            session.answer([each.document() for each in tails], "")
            return
        screen = submission.Screen(sys.stdout)
        screen.show(submission.FollowStarted(build, tuple(each.job for each in tails if each.service is None)))
        if follow:
            for line in chain(_followed(reader, tails), _of_generated(reader, tails, step)):
                screen.show(line)
        else:
            print_paged(screen.text(line) for each in tails for line in each.rest())
        if build.error_message is not None and not jobs:
            for text in _reason(build, build.error_message, logged=bool(tails)).splitlines():
                screen.print(text)


def _of_generated(reader: BuildReader, shown: list[_LogTail], step: str | None) -> Iterator[LogLine]:
    """Yield the lines of the jobs of a build that others have generated since its logs were ``shown``."""
    known = {each.job.uuid for each in shown}
    for tail in _log_tails(reader, reader.build(), reader.jobs(), step):
        if tail.job.uuid not in known:
            yield from tail.rest()


def _reason(build: BuildRecord, message: str, *, logged: bool) -> str:
    """Return why a build has no jobs: of a message that the log shows already, its last line."""
    from actors.render import without_excerpts  # noqa: PLC0415 - few builds have no jobs

    lines = message.splitlines()
    said = logged and len(lines) > 1 and without_excerpts(message) == message
    why = f"{build.error_code}: {lines[-1]}" if said else message
    return f"build #{build.number} {build.state}: {why}"


def _wait_for_jobs(reader: BuildReader) -> BuildRecord:
    """Wait until a build has jobs, or is over without any; return it as it then is."""
    build = reader.build()
    while not build.state.terminal and not reader.jobs():
        time.sleep(_POLL_SECONDS)
        build = reader.build()
    return build


def _log_tails(reader: BuildReader, build: BuildRecord, jobs: list[JobRecord], step: str | None) -> list[_LogTail]:
    """Return the logs to show: those of the jobs, or that of the rendering if the build has no jobs."""
    if jobs or step is not None:
        shown = [job for job in jobs if step in {None, job.step_key}]
        return [_LogTail(reader, job, service) for job in shown for service in (None, *job.services)]
    log = _LogTail(reader, _rendering(build))
    return [] if log.empty else [log]


def _rendering(build: BuildRecord) -> JobRecord:
    """Return the rendering of a build in the form of a job."""
    return JobRecord(
        uuid=RENDER_LOG,
        name=RENDER_LOG,
        step_key=RENDER_LOG,
        command="",
        state=JobState(build.state),  # a build without jobs is never failing, the one state that jobs do not have
        exit_code=None,
        depends_on=(),
        retry_policy=None,
        soft_fail_policy=None,
        soft_failed=False,
        error_code=build.error_code,
        error_message=build.error_message,
        attempt=1,
        pending_reason=None,
        queue_position=None,
        cache_key=None,
        cache_hit=False,
        image=None,
        image_digest=None,
        service_image_digests={},
        matrix_job=None,
        matrix=None,
        generated_by=None,
        taken_from=None,
        created_at=build.created_at,
        started_at=build.started_at,
        finished_at=build.finished_at,
    )


class _LogTail:
    """A log and the position in it, of a job or of its ``service``.

    The log of a build's rendering is shown as that of a job.
    """

    def __init__(self, reader: BuildReader, job: JobRecord, service: str | None = None) -> None:
        self.job = job
        self.service = service
        self._reader = reader
        self._offset = 0
        self._complete = False
        self._splitter = submission.LineSplitter()

    @property
    def empty(self) -> bool:
        """True if nothing was written to it yet."""
        with self._reader.log(self.job.uuid, 0, 0) as (chunks, _):
            return not any(chunks)

    def document(self) -> dict[str, object]:
        """Return the whole log with its job."""
        text = b"".join(self._chunks()).decode(errors="replace")
        job_id = None if self.job.uuid == RENDER_LOG else self.job.uuid
        of_service = {} if self.service is None else {"service": self.service}
        return {"job_id": job_id, "key": self.job.step_key, "state": self.job.state, **of_service, "log": text}

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines that were completed since the last call."""
        for chunk in self._chunks():
            yield from (submission.LogLine(self.job, text, self.service) for text in self._splitter.feed(chunk))

    def rest(self) -> Iterator[LogLine]:
        """Yield the remaining lines of a log that has ended."""
        yield from self.lines()
        yield from (submission.LogLine(self.job, text, self.service) for text in self._splitter.end())

    def _chunks(self) -> Iterator[bytes]:
        """Yield what was written since the last call."""
        grew = True
        while grew and not self._complete:
            grew = False
            with self._reader.log(self.job.uuid, self._offset, 0, self.service) as (chunks, last):
                for chunk in chunks:
                    grew = True
                    self._offset += len(chunk)
                    yield chunk
                self._complete = last


def _followed(reader: BuildReader, logs: list[_LogTail]) -> Iterator[LogLine]:
    """Yield lines as they are written, until the build is over."""
    started = time.monotonic()
    # Read the state before the logs: if the build is over, the logs read afterwards are complete.
    while not reader.build().state.terminal:
        for each in logs:
            yield from each.lines()
        # A build whose logs take long to read is polled less often, which spares the service.
        time.sleep(max(_POLL_SECONDS, 5 * (time.monotonic() - started)))
        started = time.monotonic()
    for each in logs:
        yield from each.rest()
