"""`git http-backend` behind TLS with a local authority, with basic authentication."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.git_servers.lfs import lfs_answer
from tests.mail_server import certificate


@dataclass
class HttpsServer:
    """Serves the bare repositories below ``root``; with ``users`` only to these."""

    root: Path
    ca_file: Path
    port: int = 0
    users: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    """The Authorization headers of all requests."""

    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """The paths and headers of all requests."""

    redirect: str = ""
    """The address that all requests are sent to, if not empty."""

    before_pack: Callable[[], None] = lambda: None
    """Called before a pack is sent."""

    lfs_address: str = ""
    """The server from which files of git LFS are downloaded, if not this one."""

    lfs_header: dict[str, str] = field(default_factory=dict)
    """The headers that downloads of files of git LFS are told to have."""

    moved: dict[str, str] = field(default_factory=dict)
    """The addresses to which requests are redirected, by a part of their paths."""

    replaced: dict[str, bytes] = field(default_factory=dict)
    """Answers instead of those of git, by a part of the paths."""

    def url(self, name: str) -> str:
        return f"https://localhost:{self.port}/{name}"


@contextmanager
def https_server(root: Path, folder: Path) -> Iterator[HttpsServer]:
    """Serve the repositories below a folder until the end of the body."""
    folder.mkdir(exist_ok=True)
    context, ca_file = certificate(folder)
    served = HttpsServer(root, ca_file)

    class Handler(_Handler):
        server_state = served

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        served.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_state: HttpsServer

    def do_GET(self) -> None:
        served, given = self.server_state, self.headers.get("Authorization", "")
        served.seen.append(given)
        served.requests.append((self.path, dict(self.headers)))
        moved = next((to for part, to in served.moved.items() if part in self.path), "") or served.redirect
        expected = [base64.b64encode(f"{each}:{it}".encode()).decode() for each, it in served.users.items()]
        if moved:
            self.send_response(302)
            self.send_header("Location", moved + self.path)
            self.end_headers()
        elif served.users and given.removeprefix("Basic ") not in expected:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
        else:
            self._serve()

    do_POST = do_GET  # noqa: N815 - as the server calls it

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server_state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        lfs_address = self.server_state.lfs_address or self.server_state.url("")[:-1]
        replaced = next((it for part, it in self.server_state.replaced.items() if part in path), None)
        lfs = replaced or lfs_answer(self.server_state.root, lfs_address, path, body, self.server_state.lfs_header)
        if lfs is not None:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.git-lfs+json")
            self.send_header("Content-Length", str(len(lfs)))
            self.end_headers()
            with suppress(OSError):  # the client ends what it does not want
                self.wfile.write(lfs)
            return
        if b"command=fetch" in body:
            self.server_state.before_pack()
        done = subprocess.run(("git", "http-backend"), env=environ, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        self.send_response(int(headers.pop("Status", "200").split(" ")[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""
