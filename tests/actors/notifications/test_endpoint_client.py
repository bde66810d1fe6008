"""Requests to endpoints that are slow, hostile, private or gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.notifications import NotificationSettings
from actors.notifications.sending import EndpointClient
from storage import EndpointAnswer
from tests.identity.local_server import Asked, LocalServer, Reply, local_server
from tests.mail_server import certificate
from tests.ports import reserved_port

HERE = NotificationSettings(networks=("127.0.0.0/8",), timeout=5)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with local_server() as server:
        yield server


def post(url: str, settings: NotificationSettings = HERE) -> EndpointAnswer:
    return EndpointClient().post(settings, url, b'{"a": 1}', {"webhook-id": "1"})


def test_a_body_is_posted_as_json(server: LocalServer):
    server.answers["/hook"] = lambda _: Reply(b"thanks\n\x1b[31m", 202)
    answer = post(f"{server.url}/hook?b=c")
    (asked,) = server.seen
    assert (asked.method, asked.path, asked.body) == ("POST", "/hook", b'{"a": 1}')
    assert (asked.headers["Content-Type"], asked.headers["webhook-id"]) == ("application/json", "1")
    assert (answer.status, answer.text, answer.error) == (202, "thanks\n [31m", None)


def test_an_error_is_kept_with_its_text(server: LocalServer):
    server.answers["/hook"] = lambda _: Reply(b"out of order", 500)
    answer = post(f"{server.url}/hook")
    assert (answer.status, answer.text, answer.error) == (500, "out of order", "the endpoint answers 500")


def test_redirects_are_not_followed(server: LocalServer):
    server.answers["/hook"] = lambda _: Reply(b"", 307, {"Location": f"{server.url}/elsewhere"})
    answer = post(f"{server.url}/hook")
    assert answer.error == "the endpoint answers 307, and redirects are not followed"
    assert [asked.path for asked in server.seen] == ["/hook"]


def test_a_huge_answer_is_read_only_at_its_beginning(server: LocalServer):
    server.answers["/hook"] = lambda _: Reply(b"x" * 50_000_000)
    answer = post(f"{server.url}/hook")
    assert (answer.status, answer.text, answer.error) == (200, "x" * 2048, None)


def test_a_drip_ends_by_the_deadline(server: LocalServer):
    server.slow.add("/hook")
    answer = post(f"{server.url}/hook", NotificationSettings(networks=("127.0.0.0/8",), timeout=0.5))
    assert (answer.status, answer.error) == (None, "no answer within 0.5 s")
    assert answer.duration_ms < 5000


def test_a_closed_connection_is_an_error(server: LocalServer):
    def close(_: Asked) -> Reply:
        raise ConnectionError

    server.answers["/hook"] = close
    answer = post(f"{server.url}/hook")
    assert answer.status is None
    assert str(answer.error).startswith("no connection: ")


def test_nobody_listening_is_an_error():
    with reserved_port() as port:
        assert str(post(f"http://127.0.0.1:{port}/").error).startswith("no connection: ")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_this_host_is_refused_by_any_name(server: LocalServer, host: str):
    for scheme in ("http", "https"):
        answer = post(f"{scheme}://{host}:{server.server_port}/hook", NotificationSettings())
        assert answer.status is None
        assert "has no public address" in str(answer.error)
    assert server.seen == []


def test_a_name_is_resolved_once_and_the_checked_address_used(server: LocalServer, monkeypatch: pytest.MonkeyPatch):
    """A name server that answers otherwise the second time gains nothing."""
    answers = iter(["127.0.0.1", "127.0.0.99"])
    asked: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    server.answers["/hook"] = lambda _: Reply(b"")
    monkeypatch.setattr("actors.outgoing.socket.getaddrinfo", _only("rebind.example", resolve))
    answer = post(f"http://rebind.example:{server.server_port}/hook", NotificationSettings(networks=("127.0.0.1/32",)))
    assert (answer.status, asked) == (200, ["rebind.example"])
    assert server.seen[0].headers["Host"] == f"rebind.example:{server.server_port}"


def test_a_private_address_beside_a_public_one_is_not_used(server: LocalServer, monkeypatch: pytest.MonkeyPatch):
    def resolve(_host: str, port: int, *_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]

    server.answers["/hook"] = lambda _: Reply(b"")
    monkeypatch.setattr("actors.outgoing.socket.getaddrinfo", _only("two.example", resolve))
    answer = post(f"http://two.example:{server.server_port}/hook", NotificationSettings(networks=("127.0.0.1/32",)))
    assert answer.status == 200


def _only(name: str, resolve):  # noqa: ANN001 - a stand-in for a function with many forms
    own = socket.getaddrinfo
    return lambda host, *rest, **named: (resolve if host == name else own)(host, *rest, **named)


def test_without_encryption_only_allowed_networks_are_reached(monkeypatch: pytest.MonkeyPatch):
    def resolve(_host: str, port: int, *_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    monkeypatch.setattr("actors.outgoing.socket.getaddrinfo", _only("public.example", resolve))
    answer = post("http://public.example/hook", NotificationSettings())
    assert "begins with http://" in str(answer.error)


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    context, trusted = certificate(tmp_path)
    with local_server(context) as server:
        server.answers["/hook"] = lambda _: Reply(b"")
        url = f"https://localhost:{server.server_port}/hook"
        assert "certificate" in str(post(url).error)
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        assert post(url).status == 200
