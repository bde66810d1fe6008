"""`ci-daemon mail`: the mails that wait, and a trial of the mail server."""

from __future__ import annotations

import click

from api.operations import mails
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.options import email_address, limit_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

_COLUMNS = ("to", "kind", "created_at", "state", "attempts", "next_attempt_at", "last_error")
_EMPTY = "no mail waits, and none was given up in the last week"


@click.group(cls=Group)
def mail() -> None:
    """E-mail: the mails that wait for the mail server, and a test."""


@mail.command()
@click.argument("address", type=email_address)
@pass_session
def test(session: Session, *, address: str) -> ExitCode:
    """Send a test mail to ADDRESS at once, and say what each step did.

    Exit code 0: the mail server accepted it; 1: it did not.
    """
    steps: list[str] = []

    def note(step: str) -> None:
        steps.append(step)
        if not session.json:
            click.echo(f"ok    {step}")

    with session.owners_door() as door:
        error = door.perform(mails.send_test_mail, {"address": address}, mails.SendTestMailRequest(note)).error
    outcome = f"sent to {address}" if error is None else f"FAIL  {error}"
    session.answer({"to": address, "sent": error is None, "steps": steps, "error": error}, outcome)
    return ExitCode.SUCCESS if error is None else ExitCode.FAILURE


@mail.command(reads=True)
@limit_option(100_000, default=100)
@pass_session
def queue(session: Session, *, limit: int) -> None:
    """List the mails that wait and those given up in the last week, oldest first, without their content."""
    with session.owners_door() as door:
        session.records(door.rows(mails.list_mails, {}, mails.MailSelection(limit)), _COLUMNS, _EMPTY)


@mail.command()
@pass_session
def retry(session: Session) -> None:
    """Let the service try every mail that waits again at once, such as after a repair of the mail server."""
    with session.owners_door() as door:
        done = door.perform(mails.retry_mails, {})
    told = f"{counted(done.retried, 'mail is', 'mails are')} tried again at once" if done.retried else "no mail waits"
    session.answer(document_of(done), told)
