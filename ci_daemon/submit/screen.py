"""The display of a followed build: log lines with their job's name, and states.

On a terminal it has colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.state_looks import look_of
from ci_daemon.submit.events import BuildUpdated, FollowStarted, JobUpdated, LogLine
from ci_daemon.terminal import counted
from storage import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

    from api.operations import JobRecord
    from ci_daemon.submit.events import Event
    from ci_daemon.submit.summary import Summary

_NAME_COLOURS = ("cyan", "magenta", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_blue", "green")
_MAX_NAME_WIDTH = 32
_BUILD = "build"

# A log may contain any byte. Drop those that would move the cursor or ring the bell; rich handles colours (ESC).
_CONTROLS = dict.fromkeys([*range(9), *range(10, 27), *range(28, 32), *range(127, 160)])


class Screen:
    """Writes events, one line each, and the summary."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)
        self._width = len(_BUILD)
        self._colours: dict[str, str] = {}

    def print(self, text: str) -> None:
        """Write a line of the command itself."""
        self._console.print(Text(_clean(text)), soft_wrap=True)

    def text(self, event: Event) -> str:
        """Return an event as `show` writes it, for a pager."""
        with self._console.capture() as captured:
            self.show(event)
        return captured.get()

    def show(self, event: Event) -> None:
        """Write an event."""
        match event:
            case FollowStarted(build=build, jobs=jobs):
                self._prepare(jobs)
                for warning in build.warnings:
                    self.print(f"warning: {warning}")
            case LogLine(job=job, text=text, service=service):
                self._write(self._name(job, service), _coloured(text))
            case JobUpdated(job=job):
                if job.uuid not in self._colours:  # another job has generated it
                    self._prepare([job])
                if job.state is not JobState.PENDING:
                    style = look_of(job.state).style
                    self._write(self._name(job), Text(f"* {_clean(_outcome(job))}", style))
            case BuildUpdated(build=build):
                waits = None if build.state.terminal else build.pending_reason
                reason = f": {_clean(waits)}" if waits else ""
                self._write(Text(_BUILD, "bold"), Text(f"* {build.state}{reason}", look_of(build.state).style))
            case _:
                assert_never(event)

    def summarize(self, summary: Summary) -> None:
        """Write a table of the jobs, with their cost if somebody pays, and below it the build's result."""
        self._console.print()
        if summary.rows:
            self._console.print(_job_table(summary))
            self._console.print()
        self._console.print(
            Text.assemble(
                f"build #{summary.build.number} ",
                (summary.build.state, look_of(summary.build.state).style),
                f" in {_time(summary.build.seconds) or 'no time'}",
                f", {counted(summary.cents, 'cent')}" if summary.cents is not None else "",
                _after_colon(summary.build.error_message or ""),
            ),
            soft_wrap=True,
        )

    def _prepare(self, jobs: Iterable[JobRecord]) -> None:
        for job in jobs:
            self._colours[job.uuid] = _NAME_COLOURS[len(self._colours) % len(_NAME_COLOURS)]
            names = [_clean(job.name), *(_of_service(job, service) for service in job.services)]
            self._width = max(self._width, min(max(map(len, names)), _MAX_NAME_WIDTH))

    def _name(self, job: JobRecord, service: str | None = None) -> Text:
        name = _clean(job.name) if service is None else _of_service(job, service)
        return Text(name, self._colours.get(job.uuid, ""))

    def _write(self, name: Text, text: Text) -> None:
        name.truncate(self._width, overflow="ellipsis", pad=True)
        self._console.print(Text.assemble(name, (" | ", "dim"), text), soft_wrap=True)


def _of_service(job: JobRecord, service: str) -> str:
    """Return the beginning of a line of a service: the job and the service."""
    return f"{_clean(job.name)} {_clean(service)}"


def _job_table(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("job", no_wrap=True, overflow="ellipsis", max_width=_MAX_NAME_WIDTH)
    table.add_column("state", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    paid = summary.cents is not None
    if paid:
        table.add_column("cents", justify="right", no_wrap=True)
    for row in summary.rows:
        state = Text(row.job.state, look_of(row.job.state).style)
        table.add_row(_clean(row.job.name), state, _time(row.job.seconds), *([str(row.cents)] * paid))
    return table


def _after_colon(message: str) -> str:
    """Return a message for the end of a line; if it has several lines, such as a traceback, they stay."""
    return ": " + "\n".join(map(_clean, message.splitlines())) if message else ""


def _outcome(job: JobRecord) -> str:
    """Return a job's state, with the reason for it if there is one."""
    state = job.state.replace("_", " ")
    if job.state.terminal and job.seconds is not None:
        state += f" in {_time(job.seconds)}"
    if job.soft_failed:
        state += " (soft: the build goes on)"
    if job.error_code:
        return f"{state}: {job.error_code}" + (f": {job.error_message}" if job.error_message else "")
    if job.state is JobState.FAILED and job.exit_code is not None:
        return f"{state}: exit code {job.exit_code}"
    return f"{state}: {job.pending_reason}" if job.pending_reason and not job.state.terminal else state


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _clean(text: str) -> str:
    return text.translate(_CONTROLS).replace("\x1b", "")


def _coloured(line: str) -> Text:
    text = Text.from_ansi(line.translate(_CONTROLS))
    return text if "\x1b" not in text.plain else Text(_clean(text.plain))
