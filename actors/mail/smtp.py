"""SMTP: one connection to the mail server, over which mails go one after the other, and its trial."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import time
from contextlib import suppress
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.mail.mails import Letters
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from actors.settings import MailSettings
    from storage import Letter


_TIMEOUT = 30.0
_MOST_REPLY = 1 << 16
_RECEIVED = 1 << 12
_LEAST_SECONDS = 0.01
_LONGEST_ERROR = 200
_SECRET_LIKE = re.compile(r"[A-Za-z0-9_+/=-]{16,}")
"""A possible token, or a part of a mail in base64, in a server's answer."""

_PERMANENT = 500
_CLOSING = 421
_LOWEST = 200
"""The lowest code of an answer in SMTP."""

_LONGEST_LINE = 900
"""Bytes of a header's line; SMTP allows 998."""

_LONG_HEADERS = SMTP.clone(max_line_length=_LONGEST_LINE)
"""Keeps a long link in one piece. By default it is encoded, and no mail program offers it."""


class MailError(Exception):
    """No mail was sent; the message says why, and contains no secret."""


class MailServerError(MailError):
    """The server cannot be used: it is away, or refuses the connection, the encryption or the log-in."""


class MailTroubled(MailError):
    """One mail could not be sent now; another attempt may succeed."""

    def __init__(self, why: str, *, connected: bool) -> None:
        """Store why, and whether the connection is still good for other mails."""
        super().__init__(why)
        self.connected = connected


class MailRefused(MailError):
    """The server will never accept this mail. The connection is good for others."""


class SmtpConnection:
    """A connection to a mail server, on which one thread sends.

    No error contains the password or a part of a mail.
    """

    def __init__(self, settings: MailSettings, note: Callable[[str], object] = lambda _step: None) -> None:
        """Store the settings; ``note`` is told each step that succeeded."""
        self._settings = settings
        self._note = note
        self._server: smtplib.SMTP | None = None
        self._socket: socket.socket | None = None
        self._cut = False

    def open(self) -> None:
        """Connect, encrypt and log in as configured. Raises MailServerError."""
        settings = self._settings
        place = f"{settings.host}:{settings.port}"
        step = f"cannot connect to {place}"
        try:
            server = self._server = _Server(settings, self._watch)
            _expect(server.connect(settings.host, settings.port), 220)
            self._note(f"connected to {place}" + (", encrypted" if settings.security == "tls" else ""))
            step = f"{place} does not answer the greeting"
            server.ehlo_or_helo_if_needed()
            if settings.security == "starttls":
                step = f"{place} does not encrypt the connection"
                _expect(server.starttls(context=ssl.create_default_context()), 220)
                server.ehlo_or_helo_if_needed()
                self._note("encrypted the connection, with a valid certificate")
            if settings.user:
                step = f"{place} does not let {settings.user} log in"
                server.login(settings.user, settings.password)
                self._note(f"logged in as {settings.user}")
        except (OSError, smtplib.SMTPException, ValueError) as error:
            self.close()
            raise MailServerError(f"{step}: {self._reason(error)}") from None

    def send(self, message: EmailMessage, to: str) -> None:
        """Send a message to one address. Raises MailTroubled and MailRefused."""
        server = self._server
        if server is None:
            raise MailTroubled("the connection was closed", connected=False)
        try:
            _expect(server.mail(self._settings.sender), 250, temporary=True)
            _expect(server.rcpt(to), 250, 251)
            self._note(f"the server accepts {to}")
            _expect(server.data(message.as_bytes(policy=_LONG_HEADERS)), 250)
            self._note("the server accepted the mail")
        except smtplib.SMTPResponseException as error:
            self._reset(server, error.smtp_code)
            if error.smtp_code >= _PERMANENT and not isinstance(error, _Temporary):
                raise MailRefused(self._reason(error)) from None
            raise MailTroubled(self._reason(error), connected=self._server is not None) from None
        except (OSError, smtplib.SMTPException, ValueError) as error:
            self.close()
            raise MailTroubled(self._reason(error), connected=False) from None

    def cut(self) -> None:
        """End whatever the sending thread waits for, with an error. Safe in any thread."""
        self._cut = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def quit(self) -> None:
        """Say goodbye to the server, and close the connection."""
        if self._server is not None:
            with suppress(OSError, smtplib.SMTPException):
                self._server.quit()
        self.close()

    def close(self) -> None:
        """Close the connection at once."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _reset(self, server: smtplib.SMTP, code: int) -> None:
        """Make the connection ready for another mail, or close it if the server does not go on."""
        try:
            if code == _CLOSING or code < _LOWEST:
                raise smtplib.SMTPServerDisconnected
            server.rset()
        except (OSError, smtplib.SMTPException):
            self.close()

    def _watch(self, made: socket.socket) -> None:
        """Note the socket that `cut` ends."""
        self._socket = made
        if self._cut:
            raise OSError("the service is stopping")

    def _reason(self, error: Exception) -> str:
        if isinstance(error, smtplib.SMTPResponseException):
            said = error.smtp_error
            text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            return f"the server answered {error.smtp_code} {self._clean(text)}".strip()
        if isinstance(error, TimeoutError):
            return f"no answer within {_TIMEOUT:g} s"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not valid: {error.verify_message}"
        if isinstance(error, UnicodeError):
            return "the host, user or password has characters that cannot be sent"
        return error_reason(error)

    def _clean(self, text: str) -> str:
        """Return a server's text as one short line, without possible secrets: some servers repeat the mail."""
        if self._settings.password:
            text = text.replace(self._settings.password, "***")
        line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
        return _SECRET_LIKE.sub("***", line)[:_LONGEST_ERROR]


class _Server(smtplib.SMTP):
    """An SMTP client that shows its socket as soon as it has one, so that another thread can end it."""

    def __init__(self, settings: MailSettings, watch: Callable[[socket.socket], None]) -> None:
        own = socket.gethostname()  # the library would ask the DNS, for any time
        super().__init__(timeout=_TIMEOUT, local_hostname=own if "." in own else "[127.0.0.1]")
        self._settings = settings
        self._watch = watch
        self._host = settings.host  # where the library keeps the name that a certificate must have

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        made = socket.create_connection((host, port), timeout)
        self._watch(made)
        if self._settings.security != "tls":
            return made
        made = ssl.create_default_context().wrap_socket(made, server_hostname=host)
        self._watch(made)
        return made

    def getreply(self) -> tuple[int, bytes]:
        """Read a reply, for so many seconds and bytes in all: a server may send lines, or bytes, for ever."""
        if self.sock is not None and self.file is None:
            self.file = _Replies(self.sock)
        if isinstance(self.file, _Replies):
            self.file.begin()
        return super().getreply()


class _Replies:
    """The replies of a server, as smtplib reads them."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._read = bytearray()
        self.begin()

    def begin(self) -> None:
        """Begin with another reply."""
        self._end = time.monotonic() + _TIMEOUT
        self._left = _MOST_REPLY

    def readline(self, most: int) -> bytes:
        """Return a line, or so many bytes of it; nothing at the end. Raises TimeoutError and OSError."""
        while b"\n" not in self._read and len(self._read) < most:
            self._socket.settimeout(max(_LEAST_SECONDS, self._end - time.monotonic()))
            received = self._socket.recv(_RECEIVED)
            self._left -= len(received)
            if self._left < 0 or time.monotonic() >= self._end:
                raise TimeoutError("the answer does not end")
            if not received:
                break
            self._read += received
        size = min(most, self._read.find(b"\n") + 1 or len(self._read))
        line = bytes(self._read[:size])
        del self._read[:size]
        self._socket.settimeout(_TIMEOUT)
        return line

    def close(self) -> None:
        """Nothing more is read; the socket is its owner's."""


class _Temporary(smtplib.SMTPResponseException):
    """An answer about the server, not one mail: another attempt may succeed whatever its code."""


def message_of(letter: Letter, *, to: str, sender: str, message_id: str, date: datetime) -> EmailMessage:
    """Return the e-mail with a letter; one that is sent twice has the same id."""
    message = EmailMessage(policy=SMTP)
    message["From"] = Address("ci-daemon", addr_spec=sender)
    message["To"] = Address(addr_spec=to)
    message["Subject"] = letter.subject
    message["Date"] = date
    message["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    if letter.stop_link is not None:
        message["List-Unsubscribe"] = f"<{letter.stop_link}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(letter.text, cte=_encoding(letter.text))
    message.add_alternative(letter.html, subtype="html", cte="quoted-printable")
    return message


def _encoding(text: str) -> str:
    """Return an encoding in which each line is ASCII and short enough for every server."""
    plain = text.isascii() and all(len(line) <= _LONGEST_LINE for line in text.splitlines())
    return "7bit" if plain else "quoted-printable"


def _expect(answer: tuple[int, bytes] | tuple[int, Sequence[bytes]], *codes: int, temporary: bool = False) -> None:
    """Raise SMTPResponseException if an answer has another code than expected."""
    code, text = answer
    if code not in codes:
        said = text if isinstance(text, bytes) else b" ".join(text)
        raise (_Temporary if temporary else smtplib.SMTPResponseException)(code, said)


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
