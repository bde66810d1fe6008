"""A mail server of its own for a test, whose faults the test chooses."""

from __future__ import annotations

import asyncio
import queue
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.ports import reserved_port

DROP = "drop"
"""A fault: the server closes the connection instead of answering."""

HANG = "hang"
"""A fault: the server does not answer; `MailServer.hanging` is set."""

_PHASES = ("EHLO", "MAIL", "RCPT", "DATA")


@dataclass
class MailServer:
    """Keeps the messages that it accepts.

    ``faults`` are answers by phase (EHLO, MAIL, RCPT, DATA), or by phase and recipient: a line of SMTP, `DROP` or
    `HANG`. ``before_answer`` is called when a message is there and not yet accepted.
    """

    messages: queue.Queue[EmailMessage] = field(default_factory=queue.Queue)
    recipients: list[str] = field(default_factory=list)
    faults: dict[str | tuple[str, str], str] = field(default_factory=dict)
    connections: int = 0
    hanging: threading.Event = field(default_factory=threading.Event)
    before_answer: Callable[[], None] = field(default=lambda: None)
    port: int = 0

    async def handle_EHLO(  # noqa: N802 - the library's names
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        fault = await self._fault(server, "EHLO", "")
        return responses if fault is None else [fault]

    async def handle_MAIL(  # noqa: N802 - the same
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return await self._fault(server, "MAIL", "") or "250 OK"

    async def handle_RCPT(  # noqa: N802 - the same
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        fault = await self._fault(server, "RCPT", address)
        if fault is None:
            envelope.rcpt_tos.append(address)
        return fault or "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - the same
        (recipient,) = envelope.rcpt_tos
        self.before_answer()
        fault = await self._fault(server, "DATA", recipient)
        if fault is not None:
            return fault
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.recipients.append(recipient)
        self.messages.put(message)
        return "250 OK"

    async def _fault(self, server: SMTP, phase: str, recipient: str) -> str | None:
        assert phase in _PHASES
        fault = self.faults.get((phase, recipient), self.faults.get(phase))
        if fault == DROP:
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
        elif fault == HANG:
            self.hanging.set()
            await server.loop.create_future()
        return fault


class _Controller(Controller):
    """Serves on a free port, which is known once it listens."""

    def factory(self) -> SMTP:
        self.handler.connections += 1
        made: SMTP = super().factory()  # type: ignore[no-untyped-call]
        return made


@contextmanager
def mail_server(port: int = 0, **options: Any) -> Iterator[MailServer]:
    """Serve on loopback, at a free port unless one is given; ``options`` are aiosmtpd's."""
    handler = MailServer()
    with reserved_port() as free:
        controller = _Controller(handler, hostname="127.0.0.1", port=port or free, **options)
        controller.start()
    handler.port = controller.port
    handler.connections = 0  # the controller connects once to see that it listens
    try:
        yield handler
    finally:
        controller.stop(no_assert=True)


def password_check(user: str, password: str) -> Callable[..., AuthResult]:
    """Return an authenticator that lets one user in."""

    def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (user.encode(), password.encode()), handled=False)

    return check


def certificate(folder: Path, name: str = "localhost") -> tuple[ssl.SSLContext, Path]:
    """Make a certificate of a host; return a server's context, and the file that a client trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.NameAttribute(NameOID.ORGANIZATION_NAME, secrets.token_hex(8))  # a client may trust several
    subject = x509.Name([authority, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    made = folder / f"{name}.pem"
    made.write_bytes(signed.public_bytes(Encoding.PEM))
    both = folder / f"{name}.both.pem"
    both.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return context, made


@contextmanager
def rude_server(says: bytes) -> Iterator[int]:
    """Accept one connection, say something and close it; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            made, _ = listening.accept()
            with made:
                made.sendall(says)

        thread = threading.Thread(target=serve)
        thread.start()
        port: int = listening.getsockname()[1]
        yield port
        thread.join(10)
