"""`ci-daemon doctor`: check the machine, and fix it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from ci_daemon import doctor as doctor_checks
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import Session, as_owner, pass_session

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=CallerCommand)
@click.option("--fix", is_flag=True, help="Run the commands that are safe to run; most need root.")
@click.option("--quiet", is_flag=True, help="Print only failed checks that are needed.")
@pass_session
def doctor(session: Session, *, fix: bool, quiet: bool) -> ExitCode:
    """Check the machine and the state directory.

    Each result is one sentence, with the command that fixes a failure. The exit code is 1 if a needed check fails.
    """
    session.audited = not fix
    as_root = os.geteuid() == 0
    checks = _check_as_owner(session)
    if fix and (runnable := [check for check in checks if as_root or not check.root]):
        for done in doctor_checks.apply_fixes(runnable, lambda command: click.echo(f"running: {command}", err=True)):
            if done.error is not None:
                click.echo(f"failed: {done.command}: {done.error}", err=True)
        checks = _check_as_owner(session)
    if session.json:
        session.answer([_document(check, as_root=as_root) for check in checks], "")
    else:
        _print(checks, as_root=as_root, quiet=quiet)
    return ExitCode.SUCCESS if all(check.ok or not check.needed for check in checks) else ExitCode.FAILURE


def _check_as_owner(session: Session) -> list[doctor_checks.Check]:
    """Run the checks as the service's user, because they concern its VMs; only fixes need root."""
    return as_owner(session.state_dir, partial(_run_checks, session.state_dir))


def _run_checks(state_dir: Path) -> list[doctor_checks.Check]:
    return list(doctor_checks.run_checks(state_dir, os.environ))


def _print(checks: list[doctor_checks.Check], *, as_root: bool, quiet: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    shown = [check for check in checks if not quiet or (check.needed and not check.ok)]
    for check in shown:
        console.print(_line(check, as_root=as_root), soft_wrap=True)
    fixable = [check for check in checks if not check.ok and check.root and check.fix and check.fixable]
    if shown and len(fixable) > 1:
        sudo = "" if as_root else "sudo "
        console.print(
            f"all at once: {' && '.join(sudo + each for each in doctor_checks.fix_commands(fixable))}", soft_wrap=True
        )


def _document(check: doctor_checks.Check, *, as_root: bool) -> dict[str, object]:
    return {
        "name": check.name,
        "ok": check.ok,
        "needed": check.needed,
        "detail": check.detail,
        "mend": check.command(as_root=as_root),
    }


def _line(check: doctor_checks.Check, *, as_root: bool) -> Text:
    mark, style = ("ok", "green") if check.ok else ("fail", "bold red") if check.needed else ("note", "yellow")
    return Text.assemble((f"{mark:6}", style), check.sentence(as_root=as_root))
