"""Mail servers whose answers do not end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from actors.mail import MailSettings
from actors.mail.smtp import MailServerError, SmtpConnection


@contextmanager
def endless(part: bytes, pause: float) -> Iterator[MailSettings]:
    """Serve a greeting that goes on for ever, a part at a time."""
    over = threading.Event()

    def serve() -> None:
        connected, _ = listening.accept()
        with connected, suppress(OSError):
            while not over.wait(pause):
                connected.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield MailSettings(
                host="127.0.0.1", port=listening.getsockname()[1], sender="ci@example.org", security="none"
            )
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(("part", "pause"), [(b"220-more\r\n", 0.0), (b"x", 0.05)], ids=["lines", "bytes"])
def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch, part: bytes, pause: float):
    monkeypatch.setattr("actors.mail.smtp._TIMEOUT", 1.0)
    began = time.monotonic()
    with endless(part, pause) as settings, pytest.raises(MailServerError, match=r"does not end|timed out"):
        SmtpConnection(settings).open()
    assert time.monotonic() - began < 20
