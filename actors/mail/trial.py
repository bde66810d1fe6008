"""A trial of the configured mail server, while somebody waits for the result."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from actors.mail.letters import Letters
from actors.mail.smtp import SmtpConnection, message_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from actors.mail.settings import MailSettings


def try_mail_server(settings: MailSettings, note: Callable[[str], object]) -> None:
    """Connect, encrypt and log in, and tell ``note`` each step that succeeded. Raises MailError. Blocks."""
    connection = SmtpConnection(settings, note)
    connection.open()
    connection.quit()


def send_test_mail(settings: MailSettings, url: str, to: str, now: datetime, note: Callable[[str], object]) -> None:
    """Send a mail to one address at once, and tell ``note`` each step that succeeded.

    Raises MailError. Blocks.
    """
    connection = SmtpConnection(settings, note)
    connection.open()
    try:
        letter = Letters(url).write("test", why="It was sent by `ci-daemon mail test`.")
        message = message_of(letter, to=to, sender=settings.sender, message_id=str(uuid4()), date=now)
        connection.send(message, to)
    finally:
        connection.quit()
