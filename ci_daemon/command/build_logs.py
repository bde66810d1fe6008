"""`ci-daemon build logs`: the logs of a build's jobs, read from the files."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ci_daemon.command.lookup import find_build
from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.submit.events import Begun, Line
from ci_daemon.submit.lines import LineSplitter
from ci_daemon.submit.records import BuildRecord, JobRecord
from ci_daemon.submit.screen import Screen
from storage import RENDER_LOG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage import Build, JobLog, Storage

__all__ = ["logs"]

_AT_ONCE = 2**20
_LOOK_SECONDS = 0.3


@click.command(cls=Command, name="logs", reads=True)
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@click.argument("step", metavar="[STEP]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until the build is over.")
@pass_session
def logs(session: Session, *, name: str, step: str | None, follow: bool) -> None:
    """Show the logs of a build's jobs, or of the job with the key STEP, each line with its job's name.

    Existing lines come job by job, in the order of the plan; new lines come as they are written. A build that failed
    before it had jobs shows the log of its rendering. The service need not run.
    """
    if follow and session.json:
        raise click.UsageError("--follow and --json do not go together: one document needs an end")
    with session.records() as storage:
        build = find_build(storage, name)
        if build.logs_expired_at is not None:
            raise Failure(f"the logs of build {name} were kept until {build.logs_expired_at:%Y-%m-%d} ([retention])")
        if follow:
            build = _planned(storage, build)
        tails = _tails(storage, build, step)
        if not tails and step is not None:
            raise Failure(f"build {name} has no step {step}: `ci-daemon build show {name}` lists them")
        if session.json:
            session.answer([each.document() for each in tails], "")
            return
        screen = Screen(sys.stdout)
        screen.show(Begun(_build_record(build), tuple(each.record for each in tails)))
        for line in _lines(storage, build, tails, follow=follow):
            screen.show(line)
        if build.error_message is not None and not storage.jobs.of_build(build.id):
            screen.say(f"build #{build.number} {build.state}: {build.error_message.partition(chr(10))[0]}")


def _planned(storage: Storage, build: Build) -> Build:
    """Wait until a build has jobs, or is over without any; return it as it then is."""
    found: Build | None = build
    while found is not None and not found.state.terminal and not storage.jobs.of_build(build.id):
        time.sleep(_LOOK_SECONDS)
        found = storage.builds.get(build.id)
    return found or build


def _tails(storage: Storage, build: Build, step: str | None) -> list[_Tail]:
    """Return the logs to show: those of the jobs, or that of the rendering if the build has no jobs."""
    jobs = storage.jobs.of_build(build.id)
    if jobs or step is not None:
        return [
            _Tail(
                JobRecord(job.uuid, job.name, job.step_key, job.state.value), storage.logs.reader(build.uuid, job.uuid)
            )
            for job in jobs
            if step in {None, job.step_key}
        ]
    log = storage.logs.reader(build.uuid, RENDER_LOG)
    return [_Tail(JobRecord(RENDER_LOG, RENDER_LOG, RENDER_LOG, build.state.value), log)] if log.exists() else []


class _Tail:
    """A log and the position in it. The log of a build's rendering is shown as that of a job."""

    def __init__(self, record: JobRecord, log: JobLog) -> None:
        self.record = record
        self._log = log
        self._read = 0
        self._splitter = LineSplitter()

    def document(self) -> dict[str, object]:
        """Return the whole log with its job."""
        text = self._log.read(0, self._log.size()).decode(errors="replace")
        job_id = None if self.record.id == RENDER_LOG else self.record.id
        return {"job_id": job_id, "key": self.record.step_key, "state": self.record.state, "log": text}

    def lines(self) -> Iterator[Line]:
        """Yield the lines that were completed since the last call."""
        while block := self._log.read(self._read, _AT_ONCE):
            self._read += len(block)
            yield from (Line(self.record, text) for text in self._splitter.feed(block))

    def rest(self) -> Iterator[Line]:
        """Yield the remaining lines of a log that has ended."""
        yield from self.lines()
        yield from (Line(self.record, text) for text in self._splitter.end())


def _lines(storage: Storage, build: Build, logs: list[_Tail], *, follow: bool) -> Iterator[Line]:
    while follow:
        # Read the state before the logs: if the build is over, the logs read afterwards are complete.
        found = storage.builds.get(build.id)
        if found is None or found.state.terminal:
            break
        for each in logs:
            yield from each.lines()
        time.sleep(_LOOK_SECONDS)
    for each in logs:
        yield from each.rest()


def _build_record(build: Build) -> BuildRecord:
    return BuildRecord(build.number, build.state.value, build.created_at, build.started_at, build.finished_at)
