"""`ci-daemon mail`: the mails that wait, and a trial of the mail server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.options import email_address
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.counts import counted
from storage import SystemClock, timestamp

if TYPE_CHECKING:
    from storage import Mail

_COLUMNS = ("to", "kind", "created_at", "state", "attempts", "next_attempt_at", "last_error")
_EMPTY = "no mail waits, and none was given up in the last week"
_NO_SERVER = (
    "no mail server is configured: set host in the section [mail]. Without one, nobody can prove an e-mail address to"
    " sign up, or get a link to sign in; invites show their token only to the inviter. `ci-daemon user link EMAIL`"
    " prints a link to sign in"
)


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
    from actors.mail import MailError, send_test_mail  # noqa: PLC0415 - the other commands need no SMTP

    config = session.config()
    if not config.mail.host:
        raise Failure(_NO_SERVER)
    steps: list[str] = []

    def note(step: str) -> None:
        steps.append(step)
        if not session.json:
            click.echo(f"ok    {step}")

    error = None
    try:
        send_test_mail(config.mail, config.http.url, address, SystemClock().now(), note)
    except MailError as failed:
        error = str(failed)
    outcome = f"sent to {address}" if error is None else f"FAIL  {error}"
    session.answer({"to": address, "sent": error is None, "steps": steps, "error": error}, outcome)
    return ExitCode.SUCCESS if error is None else ExitCode.FAILURE


@mail.command(reads=True)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="The maximum number to list."
)
@pass_session
def queue(session: Session, *, limit: int) -> None:
    """List the mails that wait and those given up in the last week, oldest first, without their content."""
    with session.storage_without_billing() as storage:
        documents = [_document(each) for each in storage.mail.listed(limit)]
    session.table(documents, _COLUMNS, _EMPTY)


@mail.command()
@pass_session
def retry(session: Session) -> None:
    """Let the service try every mail that waits again at once, such as after a repair of the mail server."""
    if not session.config().mail.host:
        raise Failure(_NO_SERVER)
    with session.storage_without_billing() as storage:
        hastened = storage.mail.retry()
    told = f"{counted(hastened, 'mail is', 'mails are')} tried again at once" if hastened else "no mail waits"
    session.answer({"retried": hastened}, told)


def _document(each: Mail) -> dict[str, object]:
    next_attempt = each.next_attempt_at
    return {
        "to": each.recipient,
        "kind": each.kind,
        "created_at": timestamp(each.created_at),
        "state": "given up" if next_attempt is None else "waiting",
        "attempts": each.attempts,
        "next_attempt_at": next_attempt and timestamp(next_attempt),
        "last_error": each.last_error,
    }
