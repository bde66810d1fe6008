"""Requests to providers over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.sign_in.providers.bounded_http import ProviderHttp
from api.sign_in.providers.provider import ProviderError
from tests.identity.local_server import LocalServer, Reply, local_server
from tests.mail_server import certificate

NAMED = ("localhost", "127.0.0.1")


@pytest.fixture
def trusted(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """The certificate of localhost, for a server, and the file that a client trusts."""
    return certificate(tmp_path)


@pytest.fixture
def secured(trusted: tuple[ssl.SSLContext, Path]) -> Iterator[LocalServer]:
    with local_server(trusted[0]) as server:
        server.answers["/document"] = lambda _: Reply({"a": 1})
        yield server


@pytest.fixture
def trusting(trusted: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted[1]))


def url(server: LocalServer, host: str, path: str = "/document") -> str:
    return f"https://{host}:{server.server_port}{path}"


@pytest.mark.usefixtures("trusting")
def test_a_trusted_certificate_is_taken(secured: LocalServer):
    assert ProviderHttp(5, NAMED).connection().get_object(url(secured, "localhost")) == {"a": 1}


def test_an_unknown_certificate_is_refused(secured: LocalServer):
    with pytest.raises(ProviderError, match=r"cannot be reached: .*certificate verify failed"):
        ProviderHttp(5, NAMED).connection().get_object(url(secured, "localhost"))
    assert secured.seen == []


@pytest.mark.usefixtures("trusting")
def test_a_certificate_of_another_host_is_refused(secured: LocalServer):
    with pytest.raises(ProviderError, match=r"cannot be reached: .*mismatch"):
        ProviderHttp(5, NAMED).connection().get_object(url(secured, "127.0.0.1"))
    assert secured.seen == []


@pytest.mark.usefixtures("trusting")
def test_a_slow_drip_over_tls_ends_by_the_deadline(secured: LocalServer):
    secured.slow.add("/document")
    with pytest.raises(ProviderError, match="in time"):
        ProviderHttp(0.5, NAMED).connection().get_object(url(secured, "localhost"))


def test_proxies_of_the_environment_are_not_used(server: LocalServer, monkeypatch: pytest.MonkeyPatch):
    """Nor are its passwords: the request has no other credentials than the provider's own."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.answers["/document"] = lambda _: Reply({"a": 1})
    assert ProviderHttp(5, NAMED).connection().get_object(f"{server.url}/document") == {"a": 1}
    assert server.seen[0].headers.get("Authorization") is None
