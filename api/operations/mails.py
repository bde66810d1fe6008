"""The mails that wait for the mail server, and a trial of it, for the owner of the host."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 - a command reads the annotations
from datetime import datetime  # noqa: TC003 - likewise
from typing import TYPE_CHECKING, Annotated

from api.operations.operation import GET, POST, Call, Refused, owners_operation
from storage import immutable, showing, shown_as

if TYPE_CHECKING:
    from actors.mail import MailSettings
    from storage import Mail

_NO_SERVER = (
    "no mail server is configured: set host in the section [mail]. Without one, nobody can prove an e-mail address to"
    " sign up, or get a link to sign in; invites show their token only to the inviter. `ci-daemon user link EMAIL`"
    " prints a link to sign in"
)


@immutable
class QueuedMail:
    """A mail that waits or was given up, without its content."""

    recipient: str = shown_as("to")
    kind: str
    created_at: datetime
    state: str
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None

    @classmethod
    def of(cls, mail: Mail) -> QueuedMail:
        """Return the record of a stored mail."""
        return showing(cls, mail, state="given up" if mail.next_attempt_at is None else "waiting")


@immutable
class MailSelection:
    """The number of mails to list."""

    limit: int


@immutable
class SendTestMailRequest:
    """The body of `send_test_mail`: ``told`` is called with each step that succeeded, when it has."""

    told: Callable[[str], object]


@immutable
class TestedServer:
    """The error of the mail server; None if it accepted the mail."""

    error: str | None


@immutable
class RetriedMails:
    """The number of mails that are tried again."""

    retried: int


@owners_operation("listMails", GET, "/mails")
def list_mails(call: Call, body: MailSelection) -> Annotated[list[QueuedMail], "The mails."]:
    """List the mails that wait and those given up in the last week, oldest first."""
    return [QueuedMail.of(each) for each in call.storage.mail.listed(body.limit)]


@owners_operation("testMail", POST, "/mails/{address}/test")
def send_test_mail(call: Call, address: str, body: SendTestMailRequest) -> TestedServer:
    """Send a mail to an address at once. Raises Refused without a mail server."""
    from actors import mail  # noqa: PLC0415 - SMTP, which the other operations need not

    try:
        mail.send_test_mail(_server(call), call.box.url, address, call.clock.now(), body.told)
    except mail.MailError as failed:
        return TestedServer(str(failed))
    return TestedServer(None)


@owners_operation("retryMails", POST, "/mails/retry")
def retry_mails(call: Call) -> RetriedMails:
    """Let the service try every mail that waits again at once. Raises Refused without a mail server."""
    _server(call)
    return RetriedMails(call.storage.mail.retry())


def _server(call: Call) -> MailSettings:
    settings = call.box.mail
    if not settings.host:
        raise Refused(_NO_SERVER)
    return settings
