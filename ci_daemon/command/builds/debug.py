"""`ci-daemon debug`: a shell in a job's VM."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

from api.operations import debugging
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.raw import has_terminal
from storage import MICRO_CENTS, document_of, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.doors import LocalDoor

_SEPARATOR = "--"


class _WithCommand(Command):
    """A command whose arguments after ``--`` are another program's, whatever precedes them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Set the arguments after ``--`` aside."""
        at = args.index(_SEPARATOR) if _SEPARATOR in args else len(args)
        ctx.meta[_SEPARATOR] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])


@click.command(cls=_WithCommand, options_metavar="[OPTIONS]")
@build_argument
@click.argument("step", metavar="[STEP] [-- COMMAND...]", required=False)
@click.option("--release", is_flag=True, help="End the hold at once instead, and the VM with it.")
@click.pass_context
@pass_session
def debug(session: Session, context: click.Context, *, name: BuildName, step: str | None, release: bool) -> int:
    """Open a shell as root in the VM of a build's job, or run COMMAND there and exit with its exit code.

    The job runs, or it has failed and its VM is held, because its build was made with `debug`, as by `ci-daemon submit
    --debug`. Without a STEP it is the only VM, or the only one that is held. The job's variables are set, its secrets
    are not. `ci-daemon audit` shows who used it.

    It works on the box alone, because only there a VM can be reached: `ssh -t HOST sudo ci-daemon debug …` opens the
    shell from elsewhere. `ci-daemon build show` tells anywhere which job failed.
    """
    command: tuple[str, ...] = context.meta[_SEPARATOR]
    if release and command:
        raise click.UsageError("give either a command or --release")
    with session.owners_door() as door:
        if not release and not command and not has_terminal():
            raise Failure("a shell needs a terminal: give a command after --, as in `-- cat /etc/os-release`")
        target = door.perform(debugging.find_vm, name.names, debugging.FindVmRequest(step))
        job_name, names = f"{name} {target.job.step_key}", {**name.names, "step": target.job.step_key}
        if release:
            _release(session, door, names, job_name)
            return ExitCode.SUCCESS
        opened = door.perform(debugging.open_shell, names, debugging.OpenShellRequest(command=bool(command)))
    with closing(opened.shell) as shell:
        click.echo(_hold_summary(target, job_name), err=True)
        return shell.run(command)


def _release(session: Session, door: LocalDoor, names: Mapping[str, str], job_name: str) -> None:
    released = door.perform(debugging.release_vm, names)
    when = (
        "its VM is destroyed now"
        if released.serves
        else f"its VM is destroyed when the service runs: start it with {session.start_command}"
    )
    session.answer(document_of(released), f"{job_name} is no longer held: {when}")


def _hold_summary(target: debugging.Target, job_name: str) -> str:
    """Return a sentence about the end and the cost of the VM."""
    hold = target.hold
    if hold is None:
        return f"{job_name} is {target.job.state}: its VM is destroyed when the job ends"
    cents = hold.micro_cents * 60 / MICRO_CENTS
    return (
        f"{job_name} {target.job.state} and its VM is held until {timestamp(hold.until)},"
        f" for {cents:.4g} cents a minute; `ci-daemon debug --release {target.build.name}` ends that"
    )
