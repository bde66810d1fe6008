"""A source host on the loopback, behind TLS: its API, and the git repositories that it has."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

import httpx

from actors.source_hosts import HostNetwork
from storage import networks_of
from tests.clock import ManualClock
from tests.mail_server import certificate

LOOPBACK = ("127.0.0.0/8", "::1/128")


@dataclass(frozen=True)
class Asked:
    """A request to the API; ``body`` is the JSON or the form that it brought."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Reply:
    """An answer as JSON, or as it is if it is bytes."""

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


class Host(Protocol):
    """One kind of host, by its answers."""

    def answer(self, asked: Asked) -> Reply:
        """Return the answer to a request."""


@dataclass
class LocalHost:
    """The server; ``faults`` are used up one by one before it answers rightly.

    A fault that is None ends the connection without an answer.
    """

    host: Host
    folder: Path
    ca_file: Path
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    faults: list[Reply | None] = field(default_factory=list)
    git_passwords: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    """The passwords that git is refused with."""

    public: bool = False
    """True if anybody may fetch."""

    may_push: Callable[[str], bool] = lambda _password: False
    """Tells whether git may push with a password."""

    pushed_with: list[str] = field(default_factory=list)

    def network(self, *networks: str) -> HostNetwork:
        """Return where this host is trusted; these networks are allowed, too."""
        return HostNetwork(networks_of(networks), self.ca_file, ManualClock())

    def deliver(self, service: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
        """Report to a service, as the host does."""
        return httpx.post(service, content=body, headers={"Content-Type": "application/json", **headers})


@contextmanager
def serving(host: Host, folder: Path) -> Iterator[LocalHost]:
    """Serve a host, and the bare repositories below ``folder``, on a free port of the loopback."""
    folder.mkdir(parents=True, exist_ok=True)
    context, ca_file = certificate(folder)
    local = LocalHost(host, folder, ca_file)
    handler = type("Handler", (_Handler,), {"local": local, "protocol_version": "HTTP/1.1"})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        local.url = f"https://localhost:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield local
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    local: LocalHost

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        path, _, query = self.path.partition("?")
        if ".git/" in path:
            self._git(path, query, body)
            return
        asked = Asked(self.command, path, dict(parse_qsl(query)), dict(self.headers), self._parsed(body))
        self.local.asked.append(asked)
        reply = self.local.faults.pop(0) if self.local.faults else self.local.host.answer(asked)
        if reply is not None:
            self._send(reply.status, reply.headers, reply.content)

    do_POST = do_DELETE = do_GET  # noqa: N815 - as the server calls them

    def _parsed(self, body: bytes) -> Mapping[str, Any]:
        if self.headers.get("Content-Type") == "application/x-www-form-urlencoded":
            return dict(parse_qsl(body.decode()))
        parsed: Mapping[str, Any] = json.loads(body or b"{}")
        return parsed

    def _git(self, path: str, query: str, body: bytes) -> None:
        given = self.headers.get("Authorization")
        password = None if given is None else b64decode(given.removeprefix("Basic ")).decode().partition(":")[2]
        pushes = "git-receive-pack" in (path.rpartition("/")[2], query.removeprefix("service="))
        if password in self.local.revoked or (password is None and (pushes or not self.local.public)):
            self._send(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
            return
        if password is not None:
            self.local.git_passwords.add(password)
        if pushes:
            if not self.local.may_push(str(password)):
                self._send(403, {}, b"remote: You are not allowed to push code to this project.")
                return
            self.local.pushed_with.append(str(password))
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.local.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "REMOTE_USER": "somebody",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(("git", "http-backend"), env=environ, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self._send(int(headers.pop("Status", "200").split(" ")[0]), headers, content)

    def _send(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):  # a client that has read enough hangs up
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
