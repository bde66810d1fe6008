"""`ci-daemon build watch`: follow a build to its end."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.pipeline_files import EXIT_CODES
from ci_daemon.command.support.session import Session, pass_session

if TYPE_CHECKING:
    from ci_daemon.submit import BuildReader, Screen, Summary


@click.command(cls=SharedCommand, name="watch", reads=True)
@build_argument
@pass_session
def watch(session: Session, *, name: BuildName) -> int:
    """Follow a build to its end: its states, and the log of every job as it is written.

    The exit code is 0 if the build passed, 1 if it failed, 3 if it was canceled. Ctrl-C stops watching; the build
    continues. With --json the log goes to stderr, and stdout gets one document at the end.
    """
    screen = submission.Screen(sys.stderr if session.json else sys.stdout)
    from ci_daemon.command.builds.build_files import build_reader  # noqa: PLC0415 - the other commands read no logs

    with build_reader(session, name) as reader:
        try:
            summary = _follow(reader, screen)
        except KeyboardInterrupt:
            screen.print(f"build {name} continues; `ci-daemon build cancel {name}` cancels it")
            raise click.Abort from None
    if session.json:
        click.echo(json.dumps(summary.as_json(), indent=2))
    else:
        screen.summarize(summary)
    return EXIT_CODES[summary.build.state]


def _follow(reader: BuildReader, screen: Screen) -> Summary:
    for event in submission.Follower(reader).events():
        screen.show(event)
    return submission.Summary(reader.build(), tuple(map(submission.JobCost, reader.jobs())))
