"""Refusals and failures of servers: each is one clear sentence."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ci_daemon.command import main
from tests.mail_server import certificate

Answer = tuple[int, dict[str, str], bytes]


def refusal(status: int, code: str, **headers: str) -> Answer:
    return status, headers, json.dumps({"error": {"code": code, "message": f"it is {code}"}}).encode()


@contextmanager
def server(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve one answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Ask a server for a list that fails, and return the one line that says why."""

    def said(url: str) -> str:
        monkeypatch.setenv("CI_DAEMON_URL", url)
        monkeypatch.setenv("CI_DAEMON_TOKEN", "ci_x")
        assert main(["pipeline", "list", "acme"]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "ci_x" not in line
        return line

    return said


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (refusal(401, "unauthorized"), "it is unauthorized: sign in with `ci-daemon login URL`"),
        (refusal(403, "insufficient_org_role"), "it is insufficient_org_role"),
        (refusal(404, "organization_not_found"), "it is organization_not_found"),
        (refusal(404, "route_not_found"), "cannot do this: check the URL, or upgrade it if this command is newer"),
        (refusal(429, "rate_limited", Retry_After="7"), "it is rate_limited: try again in 7 s"),
        ((301, {"Location": "https://ci.example.org/"}, b""), "redirects to 'https://ci.example.org/"),
        ((200, {}, b"<html>"), "is not that of a ci-daemon (status 200): check the URL"),
        ((502, {}, b"<html>"), "is not that of a ci-daemon (status 502): check the URL"),
    ],
)
def test_a_refusal_is_one_sentence(said: Callable[[str], str], answer: Answer, sentence: str):
    with server(answer) as url:
        line = said(url)
    assert sentence in line


def test_a_server_that_is_away_is_named(said: Callable[[str], str]):
    assert "no service answers at http://127.0.0.1:9 (Connection refused): start" in said("http://127.0.0.1:9")


def test_an_unknown_certificate_is_named(said: Callable[[str], str], tmp_path: Path):
    context, _ = certificate(tmp_path)
    with server((200, {}, b""), context) as url:
        assert f"the certificate of {url} is not valid here" in said(url)
