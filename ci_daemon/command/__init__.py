"""The command `ci-daemon`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon.command.catalog import Catalog
from ci_daemon.command.session import DEFAULT_STATE_DIR, Session
from ci_daemon.command.streams import prepare_streams
from ci_daemon.command.style import RootGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


@click.pass_context
def _begin(context: click.Context, *, state_dir: Path) -> None:
    """A continuous-integration service for one Linux host.

    Builds run as jobs in VMs that are leased over SSH and billed in a ledger.
    """
    context.ensure_object(Session).state_dir = state_dir.absolute()


def _command() -> RootGroup:
    return RootGroup(
        name="ci-daemon",
        callback=_begin,
        help=_begin.__doc__,
        commands=Catalog(),
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
    """Run the command and return its exit code: 0 success, 1 failure, 2 usage error.

    Errors go to stderr.
    """
    prepare_streams()
    command = click.version_option(package_name="ci-daemon", prog_name="ci-daemon")(_command())
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
        # The reader of stdout has closed it; the interpreter's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        # Imported only here, so that no command imports the exceptions of all others.
        from ci_daemon.command.faults import FAULTS, sentence  # noqa: PLC0415

        if not isinstance(error, FAULTS):
            raise
        return _complain(sentence(error), 1)
    return result if isinstance(result, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"ci-daemon: {message}", err=True)
    return code
