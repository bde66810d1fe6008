"""A server of archives on an address of this host, which VMs reach if the configuration allows it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.host_server import own_address

Answers = dict[str, tuple[int, bytes] | None]


class ArchiveServer(http.server.ThreadingHTTPServer):
    """Answers by path with a status and a body, or never; records each path and its authorization."""

    daemon_threads = True

    def __init__(self, answers: Answers) -> None:
        super().__init__((own_address(), 0), _Handler)
        self.answers = answers
        self.seen: list[tuple[str, str | None]] = []
        self.closing = threading.Event()
        self.url = f"http://{own_address()}:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        answer = self.server.answers.get(self.path, (404, b""))
        if answer is None:
            self.server.closing.wait()
            return
        status, body = answer
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body.decode())
            body = b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(answers: Answers) -> Iterator[ArchiveServer]:
    """Serve while the block runs.

    The body of a redirect is its target; an answer of None keeps the client waiting.
    """
    with ArchiveServer(answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
