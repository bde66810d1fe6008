"""Requests to hosts of the owner's choice go through the proxies of the environment."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Iterator

import pytest

from actors.timed_http import Answer, Deadline, NoAnswer, TimedBackend, exchange, proxy_to
from tests.identity.local_server import LocalServer, Reply, local_server


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with local_server() as server:
        yield server


def ask(url: str, ssl_context: Callable[[], ssl.SSLContext] = ssl.create_default_context) -> Answer:
    backend, proxy = TimedBackend(Deadline(20)), proxy_to(url)
    return exchange("GET", url, {}, b"", backend=backend, ssl_context=ssl_context, most_bytes=1000, proxy=proxy)


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_request_goes_through_the_proxy(proxy: LocalServer, monkeypatch: pytest.MonkeyPatch, scheme: str):
    address = proxy.url.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"{scheme}ada:p%40ss@{address}")
    proxy.answers["http://host.example/path"] = lambda _: Reply({"by": "proxy"})
    assert ask("http://host.example/path").content == b'{"by": "proxy"}'
    (seen,) = proxy.seen
    assert seen.headers["Host"] == "host.example"
    assert seen.headers["Proxy-Authorization"] == f"Basic {base64.b64encode(b'ada:p@ss').decode()}"


def test_a_host_without_proxy_is_asked_directly(proxy: LocalServer, monkeypatch: pytest.MonkeyPatch):
    """This host never has one."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert proxy_to("http://host.example.org/path") is None
    proxy.answers["/path"] = lambda _: Reply({})
    assert ask(f"{proxy.url}/path").ok


def test_a_proxy_that_refuses_is_named(proxy: LocalServer, monkeypatch: pytest.MonkeyPatch):
    """It has no CONNECT, without which nothing comes to a host by TLS."""
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    with pytest.raises(NoAnswer, match="through the proxy of the environment: 501"):
        ask("https://host.example/path")


def test_authorities_are_read_for_encryption_alone(proxy: LocalServer):
    """They take a tenth of a second."""
    read = []

    def authorities() -> ssl.SSLContext:
        read.append(True)
        return ssl.create_default_context()

    proxy.answers["/path"] = lambda _: Reply({})
    assert ask(f"{proxy.url}/path", authorities).ok
    assert read == []
    with pytest.raises(NoAnswer):
        ask(f"{proxy.url.replace('http', 'https', 1)}/path", authorities)
    assert read == [True]
