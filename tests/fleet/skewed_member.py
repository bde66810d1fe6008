"""A member whose clock is wrong, as its clients see it: a server in front of the engine's socket."""

from __future__ import annotations

import re
import select
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Self

from tests.fleet.certificate import Certificate

_VALID = timedelta(days=3650)
_BLOCK_BYTES = 1 << 16
_INSTANT = re.compile(rb"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d")
_DATE = re.compile(rb"(?<=\r\nDate: )[^\r]+")
_UPGRADED = b"HTTP/1.1 101"


class SkewedMember:
    """An address by TLS, as a context manager, where each time in the engine's answers is ``ahead``.

    So is the begin of its certificate, which was made now and is valid for ten years.
    """

    def __init__(self, engine: Path, folder: Path, ahead: timedelta) -> None:
        begin = datetime.now(UTC) + ahead
        self._ahead = ahead
        self._engine = engine
        self.certificate = Certificate.of_time(folder, begin, begin + _VALID)
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(self.certificate.file, self.certificate.key)
        self.shifted = 0
        """The number of times that were changed."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    @property
    def url(self) -> str:
        """The address of the API."""
        return f"https://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self._listener.accept()[0]], daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        """Copy requests, and answers with other times of the same length; streams of programs as they are.

        One thread does both, because a TLS connection is not safe in two. The engine accepts a connection only when
        the first bytes of the one before have come, so each is opened with a request at hand.
        """
        with (
            suppress(OSError),
            self._tls.wrap_socket(accepted, server_side=True) as client,
            socket.socket(socket.AF_UNIX) as engine,
        ):
            request = client.recv(_BLOCK_BYTES)
            engine.connect(str(self._engine))
            engine.sendall(request)
            upgraded = False
            while True:
                ready = [client] if client.pending() else select.select([client, engine], [], [])[0]
                if client in ready:
                    if not (block := client.recv(_BLOCK_BYTES)):
                        return
                    engine.sendall(block)
                if engine in ready:
                    if not (block := engine.recv(_BLOCK_BYTES)):
                        return
                    upgraded = upgraded or block.startswith(_UPGRADED)
                    client.sendall(block if upgraded else self._shifted(block))

    def _shifted(self, block: bytes) -> bytes:
        return _DATE.sub(self._date, _INSTANT.sub(self._instant, block))

    def _instant(self, found: re.Match[bytes]) -> bytes:
        self.shifted += 1
        return (datetime.fromisoformat(found[0].decode()) + self._ahead).isoformat().encode()

    def _date(self, found: re.Match[bytes]) -> bytes:
        return format_datetime(parsedate_to_datetime(found[0].decode()) + self._ahead, usegmt=True).encode()
