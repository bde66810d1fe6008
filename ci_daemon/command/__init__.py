"""The command `ci-daemon`."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command.audit import audit
from ci_daemon.command.backup import backup, restore
from ci_daemon.command.build import build
from ci_daemon.command.cache import cache
from ci_daemon.command.config import config
from ci_daemon.command.coupon import coupon
from ci_daemon.command.debug import debug
from ci_daemon.command.doctor import doctor
from ci_daemon.command.drain import drain, resume
from ci_daemon.command.faults import FAULTS, sentence
from ci_daemon.command.identity import become_owner
from ci_daemon.command.image import image
from ci_daemon.command.init import init
from ci_daemon.command.install import install, uninstall
from ci_daemon.command.lease import lease
from ci_daemon.command.ledger import ledger
from ci_daemon.command.logs import logs
from ci_daemon.command.org import org
from ci_daemon.command.pipeline import pipeline
from ci_daemon.command.queue import queue
from ci_daemon.command.render import render
from ci_daemon.command.retention import retention
from ci_daemon.command.secret import secret
from ci_daemon.command.serve import serve
from ci_daemon.command.session import DEFAULT_STATE_DIR, Session
from ci_daemon.command.status import status
from ci_daemon.command.style import RootGroup
from ci_daemon.command.submit import submit
from ci_daemon.command.token import token
from ci_daemon.command.top import top
from ci_daemon.command.user import user

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_HEADINGS: dict[str, list[click.Command]] = {
    "Set up": [install, uninstall, init, config, doctor, image],
    "See": [status, top, queue, lease, logs, audit],
    "Run": [serve, drain, resume, cache, retention, backup, restore],
    "People and money": [user, org, token, coupon, ledger],
    "Build": [submit, render, pipeline, build, debug, secret],
}

_AS_CALLER = {"install", "uninstall", "doctor", "backup", "restore", "logs"}
"""Commands that do what only root may where root calls them: all others become the state directory's owner."""


@click.pass_context
def _begin(context: click.Context, *, state_dir: Path) -> None:
    """A continuous-integration service for one Linux host.

    Builds run as jobs in VMs that are leased over SSH and billed in a ledger.
    """
    context.ensure_object(Session).state_dir = state_dir.absolute()
    if context.invoked_subcommand not in _AS_CALLER:
        become_owner(state_dir)


def _command() -> RootGroup:
    return RootGroup(
        name="ci-daemon",
        callback=_begin,
        help=_begin.__doc__,
        headings=_HEADINGS,
        params=[
            click.Option(
                ["--state-dir"],
                metavar="DIR",
                type=click.Path(file_okay=False, readable=False, path_type=Path),
                envvar="CI_DAEMON_STATE_DIR",
                default=DEFAULT_STATE_DIR,
                show_default=True,
                show_envvar=True,
                help="Where the service keeps everything.",
            ),
        ],
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0 done, 1 failed, 2 not understood; what went wrong is on stderr."""
    command = click.version_option(version("ci-daemon"), prog_name="ci-daemon")(_command())
    try:
        result = command.main(arguments, prog_name="ci-daemon", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "ci-daemon"
        return _complain(f"{error.format_message().rstrip('.')}: see `{path} --help`", error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except click.Abort:
        return _complain("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has enough; the interpreter's own flush at exit must not fail on it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except FAULTS as error:
        return _complain(sentence(error), 1)
    return result if isinstance(result, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"ci-daemon: {message}", err=True)
    return code
