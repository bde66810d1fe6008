"""`ci-daemon mcp`: builds for coding agents."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.session import Session, pass_session

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command(cls=SharedCommand)
@pass_session
def mcp(session: Session) -> None:
    """Serve coding agents on stdin and stdout, by the Model Context Protocol.

    The tools tell why a build failed, read logs, start and retry builds, and run commands on forks of failed jobs. They
    do what the token of `ci-daemon login`, or of CI_DAEMON_TOKEN, may.
    """
    from ci_daemon.mcp.protocol import MAX_LINE, Server  # noqa: PLC0415 - the operations, which --help needs not
    from ci_daemon.mcp.tools import INSTRUCTIONS, tools  # noqa: PLC0415 - as above

    with session.connection() as server:
        Server(version("ci-daemon"), INSTRUCTIONS, tools(server)).serve(_lines(MAX_LINE), _answer)


def _lines(most: int) -> Iterator[bytes]:
    while line := sys.stdin.buffer.readline(most + 1):
        yield line


def _answer(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()
