"""The command `ci-daemon`."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from ci_daemon.command.support.catalog import Catalog
from ci_daemon.command.support.command_classes import RootGroup
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import DEFAULT_STATE_DIR, Session
from ci_daemon.interrupts import MESSAGE
from ci_daemon.terminal import disable_pager

if TYPE_CHECKING:
    from collections.abc import Sequence

_STDERR = 2


@click.pass_context
def _set_place(context: click.Context, *, state_dir: Path, context_name: str | None) -> None:
    """A continuous-integration service for one Linux host.

    Builds run as jobs in VMs that are leased over SSH and billed in a ledger.
    """
    session = context.ensure_object(Session)
    session.state_dir = state_dir.absolute()
    session.state_dir_given = context.get_parameter_source("state_dir") is not ParameterSource.DEFAULT
    session.context_name = context_name


def _forget_pager(_context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if wanted:
        disable_pager()


def root_command() -> RootGroup:
    """Return the command with all of its subcommands."""
    command = RootGroup(
        name="ci-daemon",
        callback=_set_place,
        help=_set_place.__doc__,
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
                help="The state directory of the service.",
            ),
            click.Option(
                ["--context", "context_name"],
                metavar="NAME",
                envvar="CI_DAEMON_CONTEXT",
                show_envvar=True,
                help="The server to speak to, of those that you are signed in to; by default the current one.",
            ),
            click.Option(
                ["--no-pager"],
                is_flag=True,
                expose_value=False,
                callback=_forget_pager,
                help="Print also what is longer than the terminal at once, and not by PAGER.",
            ),
        ],
    )
    return click.version_option(package_name="ci-daemon", prog_name="ci-daemon")(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code. Errors go to stderr."""
    _prepare_streams()
    try:
        result = root_command().main(arguments, prog_name="ci-daemon", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        return _fail(_usage_message(error), error.exit_code)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except click.Abort:
        return _fail(MESSAGE, ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of stdout has closed it; the interpreter's own flush at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILURE
    except Exception as error:
        from ci_daemon.command.support.errors import error_message, is_expected  # noqa: PLC0415 - most commands have no error

        if not is_expected(error):
            raise
        return _fail(error_message(error), ExitCode.FAILURE)
    return result if isinstance(result, int) else ExitCode.SUCCESS


def _usage_message(error: click.UsageError) -> str:
    """Return what is wrong with a command line, and the help to see."""
    path = error.ctx.command_path if error.ctx else "ci-daemon"
    message = " ".join(error.format_message().split()).rstrip(".")  # click lists choices below each other
    message = message.replace("is not a valid integer range", "is not a whole number")
    return f"{message} See `{path} --help`" if message.endswith("?") else f"{message}: see `{path} --help`"


def _fail(message: str, code: int) -> int:
    click.echo(f"ci-daemon: {message}", err=True)
    return code


def _prepare_streams() -> None:
    """Open streams that the caller has closed, and escape text that the terminal cannot encode."""
    # The next opened file would get a closed stream's descriptor, and children would write into it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the function has no keywords
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
