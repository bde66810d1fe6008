"""`ci-daemon doctor`: check the machine, and mend it."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from ci_daemon.command.identity import as_owner
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import CallersCommand
from ci_daemon.doctor import Check, commands, examine, mend

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["doctor"]


@click.command(cls=CallersCommand)
@click.option("--fix", is_flag=True, help="As root: run those commands, as far as they are safe to run.")
@click.option("--quiet", is_flag=True, help="Say only what is lacking and needed.")
@pass_session
def doctor(session: Session, *, fix: bool, quiet: bool) -> int:
    """Check the machine and the state directory.

    Each finding is one sentence, with the command that mends it. The exit code is 1 if something needed is missing.
    """
    session.audited = not fix
    as_root = os.geteuid() == 0
    checks = _examined(session)
    if fix and (able := [check for check in checks if as_root or not check.root]):
        for done in mend(able):
            click.echo(f"ran: {done.command}" + (f": {done.fault}" if done.fault else ""), err=True)
        checks = _examined(session)
    if session.json:
        session.answer([_document(check, as_root=as_root) for check in checks], "")
    else:
        _show(checks, as_root=as_root, quiet=quiet)
    return 0 if all(check.ok or not check.needed for check in checks) else 1


def _examined(session: Session) -> list[Check]:
    """Run the checks as the service's user, whose VMs they are about; only mending takes root."""
    return as_owner(session.state_dir, partial(_findings, session.state_dir))


def _findings(state_dir: Path) -> list[Check]:
    return list(examine(state_dir, os.environ))


def _show(checks: list[Check], *, as_root: bool, quiet: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    shown = [check for check in checks if not quiet or (check.needed and not check.ok)]
    for check in shown:
        console.print(_line(check, as_root=as_root), soft_wrap=True)
    lacking = [check for check in checks if not check.ok and check.root and check.mend and check.fixable]
    if shown and len(lacking) > 1:
        sudo = "" if as_root else "sudo "
        console.print(f"all at once: {' && '.join(sudo + each for each in commands(lacking))}", soft_wrap=True)


def _document(check: Check, *, as_root: bool) -> dict[str, object]:
    return {
        "name": check.name,
        "ok": check.ok,
        "needed": check.needed,
        "detail": check.detail,
        "mend": check.command(as_root=as_root),
    }


def _line(check: Check, *, as_root: bool) -> Text:
    mark, style = ("ok", "green") if check.ok else ("lacks", "bold red") if check.needed else ("note", "yellow")
    command = check.command(as_root=as_root)
    return Text.assemble(
        (f"{mark:6}", style), f"{check.name}: {check.detail}", (f": run `{command}`" if command else "")
    )
