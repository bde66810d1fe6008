"""A server on a port of its own, and raw requests to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api import HttpSettings, Parts, Server, create_app
from storage import SystemClock
from tests.api.world import Account, World
from tests.fake_engine import FakeEngine
from tests.state import new_storage
from tests.waiting import until

MAX_BODY = 20_000


@dataclass
class Served:
    """A world behind a real server, and the connections to it."""

    world: World
    server: Server
    ada: Account
    opened: ExitStack = field(default_factory=ExitStack)

    def connect(self, timeout: float = 10.0) -> socket.socket:
        host, port = self.server.address.rsplit(":", 1)
        return self.opened.enter_context(socket.create_connection((host, int(port)), timeout))

    def send(self, data: bytes) -> http.client.HTTPResponse:
        """Send bytes on a new connection; return the answer with its body unread."""
        return answer(self.connect(), data)

    def get(self, path: str, *headers: str, token: bool = True) -> http.client.HTTPResponse:
        return self.send(self.request("GET", path, *headers, token=token))

    def request(self, method: str, path: str, *headers: str, body: bytes = b"", token: bool = True) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: ci", *headers]
        if token:
            lines.append(f"Authorization: Bearer {self.ada.token}")
        return "\r\n".join([*lines, "", ""]).encode() + body


def answer(connection: socket.socket, data: bytes = b"") -> http.client.HTTPResponse:
    connection.sendall(data)
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response


def refusal(response: http.client.HTTPResponse) -> tuple[int, str]:
    """Return the status and code of a refusal, after checking that it is a complete envelope."""
    error = json.loads(response.read())["error"]
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Request-Id"] == error["request_id"]
    assert error["doc_url"].endswith(f"/docs/errors/{error['code']}")
    return response.status, error["code"]


@contextmanager
def serving(directory: Path, **settings: Any) -> Iterator[Served]:
    clock = SystemClock()
    storage = new_storage(directory, clock)
    engine = FakeEngine(storage, None)
    wanted = {"threads": 6, "max_streams": 3, "max_body_bytes": MAX_BODY, "max_header_bytes": 8000, **settings}
    server = Server(HttpSettings(listen="127.0.0.1:0", **wanted))
    app = create_app(storage, engine, server.settings, Parts(slots=server.slots, clock=clock))
    world = World(storage, engine, clock, app)  # type: ignore[arg-type] # its clock is not moved by hand
    server.start(app)
    served = Served(world, server, world.sign_up("ada@example.org"))
    try:
        with served.opened:
            yield served
    finally:
        server.close()
        storage.close()
    until(lambda: not any(thread.name.startswith("http") for thread in threading.enumerate()), "the threads' end")
