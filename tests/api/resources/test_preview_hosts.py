"""Previews at their hosts: who enters, what is passed on, and programs that answer as they should not."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from falcon import testing

from actors.vms import PortSocket
from api.resources import preview_hosts
from storage import Preview, PreviewSpec
from tests.api.world import Account, World

Program = Callable[[socket.socket], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"


class LocalPort(io.RawIOBase):
    """A connection to a program of this process, as the port of a VM is one."""

    number = 8000
    seconds: float | None = None

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._ours, theirs = socket.socketpair()
        self._program = threading.Thread(target=self._serve, args=(program, theirs))
        self._program.start()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._ours.settimeout(self.seconds)
        return self._ours.recv_into(buffer)

    def send(self, data: bytes) -> None:
        self._ours.sendall(data)

    def close(self) -> None:
        super().close()
        self._ours.close()
        self._program.join(10)

    @staticmethod
    def _serve(program: Program, theirs: socket.socket) -> None:
        with theirs, suppress(OSError):
            program(theirs)


class Site:
    """A preview of Ada's, and its visitors."""

    def __init__(self, ada: Account, *, everyone: bool) -> None:
        self.ada = ada
        self.world = ada.world
        build = ada.pipeline().build()
        job = replace(build.job().stored, preview=PreviewSpec(8000, "serve", everyone=everyone).document)
        self.world.storage.previews.add(build.stored, job, "a-disk")
        self.path = f"{build.path}/previews/{job.preview_uuid}"
        found = self.world.storage.previews.by_uuid(job.preview_uuid)
        assert found is not None
        self.preview: Preview = found
        self.host = f"preview-{job.preview_uuid}.previews.example.net"
        self.got = b""

    def answers(self, head: bytes, body: bytes = b"ok") -> None:
        """Let the program answer so."""

        def program(connection: socket.socket) -> None:
            self.got = connection.recv(1 << 16)
            connection.sendall(head + b"\r\n" + body)

        self.runs(program)

    def runs(self, program: Program) -> None:
        self.world.engine.previews.port = cast("PortSocket", LocalPort(program))

    def get(self, path: str = "/", host: str | None = None, **headers: str) -> testing.Result:
        return self.world.anonymous.simulate_get(
            path, host=host or self.host, headers={"Accept": "text/html", **headers}
        )


@pytest.fixture
def public(ada: Account) -> Site:
    return Site(ada, everyone=True)


@pytest.fixture
def closed(ada: Account) -> Site:
    return Site(ada, everyone=False)


def entered(site: Site, account: Account) -> str:
    """Enter by a link of the API; return the cookie."""
    link = urlsplit(account.client.simulate_post(f"{site.path}/entries").json["url"])
    assert link.netloc == site.host
    answered = site.get(f"{link.path}?{link.query}")
    assert (answered.status_code, answered.headers["location"]) == (302, "/")
    assert site.get(f"{link.path}?{link.query}").status_code == 403  # it works once
    name, _, rest = answered.headers["set-cookie"].partition("=")
    assert "Domain" not in rest
    return f"{name}={rest.partition(';')[0]}"


def test_members_enter_by_a_link_of_the_console(closed: Site, ada: Account):
    """Their cookie is for one preview, ends with their token, and is not for the program."""
    cookie = entered(closed, ada)
    closed.answers(OK)
    answered = closed.get(Cookie=f"{cookie}; own=1")
    assert (answered.status_code, answered.text) == (200, "ok")
    assert answered.headers["cache-control"] == "private, no-cache"
    assert b"Cookie: own=1\r\n" in closed.got
    assert b"ci-daemon" not in closed.got
    ada.world.storage.tokens.revoke(ada.token)
    assert closed.get(Cookie=cookie).status_code == 302


def test_to_others_a_preview_does_not_exist(closed: Site, world: World):
    """A stranger is answered as at a host that has none, and so is a member of another organization."""
    nowhere = "preview-11111111-1111-4111-8111-111111111111.previews.example.net"
    eve = world.sign_up("eve@example.org")
    for answers in zip(*(_answers(closed, host, eve) for host in (closed.host, nowhere)), strict=True):
        assert answers[0] == answers[1]


def _answers(site: Site, host: str, eve: Account) -> Iterator[object]:
    uuid = host.removeprefix("preview-").partition(".")[0]
    answered = site.get("/a?b=1", host)
    yield answered.status_code, answered.headers["location"].replace(uuid, "…")
    yield site.get("/a", host, Accept="*/*").status_code
    own = site.path.replace(site.preview.uuid, uuid)
    answered = eve.client.simulate_post(f"{own}/entries")
    yield answered.status_code, answered.json["error"]["code"]


def test_the_service_is_not_at_the_hosts_of_previews(public: Site, ada: Account):
    """Neither its pages nor its API, and a token or session changes nothing."""
    public.answers(OK)
    assert public.get("/api/v0/user", Authorization=f"Bearer {ada.token}").text == "ok"
    unknown = public.get("/healthz", f"preview-{public.preview.uuid}.elsewhere.example.net")
    assert unknown.status_code == 404
    assert "default-src 'none'" in unknown.headers["content-security-policy"]


def test_what_acts_on_other_hosts_is_left_out(public: Site):
    """Cookies are for the preview alone, and it leads nowhere by what its program takes for itself."""
    public.answers(
        OK + b"Set-Cookie: a=1; Domain=example.net; Path=/\r\nSet-Cookie: __Host-ci-daemon-preview=x; Path=/\r\n"
        b'Clear-Site-Data: "*"\r\nStrict-Transport-Security: max-age=1; includeSubDomains\r\n'
        b"X-Accel-Redirect: /private\r\nX-Sendfile: /etc/passwd\r\nX-Lighttpd-Send-File: /etc/passwd\r\n"
        b"Location: http://localhost:8000/next\r\nX-Own: yes\r\nConnection: keep-alive\r\n"
    )
    answered = public.get("/a?b=%2F", Origin=f"https://{public.host}")
    assert answered.headers["location"] == f"http://{public.host}/next"
    assert answered.headers["x-own"] == "yes"
    assert answered.headers["set-cookie"] == "a=1; Path=/"
    actors = {"clear-site-data", "strict-transport-security", "x-accel-redirect", "x-sendfile", "x-lighttpd-send-file"}
    assert not (actors | {"connection"}) & answered.headers.keys()
    head = public.got.decode()
    assert head.startswith("GET /a?b=%2F HTTP/1.1\r\nHost: localhost:8000\r\nConnection: close\r\n")
    assert "Origin: http://localhost:8000\r\n" in head
    assert f"X-Forwarded-Host: {public.host}\r\n" in head


@pytest.mark.parametrize("domain", ["Domain=example.net", "domain =example.net", "\tDOMAIN\t= example.net", "Domain"])
def test_no_cookie_is_for_another_host(public: Site, domain: str):
    public.answers(OK + f"Set-Cookie: a=1; {domain}; Path=/\r\n".encode())
    assert public.get().headers["set-cookie"] == "a=1; Path=/"


def _endless_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: " + b"x" * 4096 + b"\r\n")


def _continues_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def _is_silent(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def _no_http(connection: socket.socket) -> None:
    connection.sendall(b"\0" * 100)


def _endless_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        connection.sendall(b"x" * 4096)


def _few_large_headers(connection: socket.socket) -> None:
    """Answer well, after two lines that the client of Python alone would take."""
    connection.sendall(OK + (b"X: " + b"x" * 40_000 + b"\r\n") * 2 + b"\r\nok")


@pytest.mark.parametrize("program", [_endless_head, _few_large_headers, _continues_for_ever, _is_silent, _no_http])
def test_a_hostile_answer_is_cut(public: Site, program: Program, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preview_hosts, "_HEAD_SECONDS", 0.2)
    public.runs(program)
    assert public.get().status_code == 502


def test_an_endless_body_is_cut(public: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(preview_hosts, "_SECONDS", 0.2)
    public.runs(_endless_body)
    with pytest.raises(OSError, match="takes too long"):
        public.get()
