"""A small HTTP server on the loopback that answers as an identity provider does, or must not."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class Asked:
    """A request: ``body`` is what a POST brings, and ``form`` that as a form."""

    method: str
    path: str
    headers: Mapping[str, str]
    form: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True)
class Reply:
    """A response; ``body`` is sent as it is if it is bytes, else as JSON."""

    body: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class LocalServer(ThreadingHTTPServer):
    """Answers each path by a function; one that is given `slow` never ends its answer.

    ``seen`` are the requests so far.
    """

    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._tls = tls
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answers: dict[str, Callable[[Asked], Reply]] = {}
        self.slow: set[str] = set()
        self.seen: list[Asked] = []
        self.closing = threading.Event()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer on a connection, in the thread that is its own; a failed handshake is not an error here."""
        with suppress(OSError):
            if self._tls is not None:
                request = self._tls.wrap_socket(request, server_side=True)
            super().finish_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_POST(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # its sender died
            self.close_connection = True
            return
        form = dict(parse_qsl(body.decode(errors="replace")))
        asked = Asked(self.command, self.path.partition("?")[0], dict(self.headers), form, body)
        self.server.seen.append(asked)
        if asked.path in self.server.slow:
            self._drip()
            return
        answer = self.server.answers.get(asked.path)
        reply = answer(asked) if answer else Reply({}, 404)
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    def _drip(self) -> None:
        """Send a header that never ends, a byte at a time, faster than any time-out of a single read."""
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.server.closing.wait(0.05):
                self.wfile.write(b"a")
                self.wfile.flush()
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def local_server(tls: ssl.SSLContext | None = None) -> Iterator[LocalServer]:
    """Serve while the block runs, over TLS if there is a context for it."""
    with LocalServer(tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
