"""`ci-daemon logs`: the service's own log, from the journal."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.names import BuildName, find_build
from ci_daemon.command.support.session import Failure, Session, pass_session

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIT = "ci-daemon.service"
_JOURNALS = (Path("/run/log/journal"), Path("/var/log/journal"))
"""The folders of journals, with one for each machine in them; journald(8)."""

_LINES = 100


@click.command(
    cls=CallerCommand,
    json_help="Print one JSON document per line, as in the journal.",
    reads=True,
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help=f"How many of the last lines; {_LINES} unless --since.")
@click.option(
    "--since", metavar="TIME", help='Lines since this time, as journalctl takes it: "1 hour ago", 2026-03-01 12:00.'
)
@click.option("--build", "build", metavar="ORG/PIPELINE/NUMBER", help="Only lines about this build.")
@pass_session
def logs(session: Session, *, follow: bool, lines: int | None, since: str | None, build: str | None) -> int:
    """Show the service's own log from the systemd journal.

    `ci-daemon build logs` shows the output of a build's jobs.
    """
    journal = shutil.which("journalctl")
    if journal is None or not _has_journal():
        raise Failure("this host has no journal: the service's log is the stderr of `ci-daemon serve`")
    uuid = None
    if build is not None:
        with session.storage() as storage:
            uuid = find_build(storage, BuildName.parse(build)).uuid
    arguments = _arguments(follow=follow, lines=lines, since=since, build_uuid=uuid, json=session.json)
    unseen = subprocess.DEVNULL if session.quiet and not session.json else None
    environment = os.environ | {"SYSTEMD_COLORS": "auto"}
    return subprocess.run([journal, *arguments], stdout=unseen, check=False, env=environment).returncode


def _has_journal() -> bool:
    """Tell whether this host keeps a journal: journalctl is there without one in containers and chroots."""
    return any(next(folder.glob("*/*.journal"), None) for folder in _JOURNALS)


def _arguments(
    *, follow: bool, lines: int | None, since: str | None, build_uuid: str | None, json: bool
) -> Iterator[str]:
    yield f"--unit={_UNIT}"
    yield "--output=json" if json else "--output=short-iso"
    if lines is None and since is None:
        lines = _LINES
    if lines is not None:
        yield f"--lines={lines}"
    if since is not None:
        yield f"--since={since}"
    if follow:
        yield "--follow"
    else:
        yield "--no-pager"
    if build_uuid is not None:
        yield f"CI_BUILD={build_uuid}"
