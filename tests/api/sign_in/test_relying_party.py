from __future__ import annotations

import pytest

from api import HttpSettings, IdentitySettings, RelyingParty


def party(base_url: str | None = None, listen: str = "127.0.0.1:8800", **identity: object) -> RelyingParty:
    return RelyingParty.of(IdentitySettings(**identity), HttpSettings(listen=listen, base_url=base_url))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("base_url", "listen", "expected"),
    [
        (None, "127.0.0.1:8800", ("localhost", "http://localhost:8800")),
        (None, "[::1]:80", ("localhost", "http://localhost")),
        (None, "0.0.0.0:8080", ("localhost", "http://localhost:8080")),
        (None, "localhost:8800", ("localhost", "http://localhost:8800")),
        ("http://localhost:3000/ci", "127.0.0.1:8800", ("localhost", "http://localhost:3000")),
        ("https://CI.Example.org:443/ci", "127.0.0.1:8800", ("ci.example.org", "https://ci.example.org")),
        ("https://ci.example.org:8443", "127.0.0.1:8800", ("ci.example.org", "https://ci.example.org:8443")),
    ],
)
def test_it_is_the_host_of_the_services_address(base_url: str | None, listen: str, expected: tuple[str, str]):
    found = party(base_url, listen)
    assert (found.id, found.origins, found.warning) == (expected[0], (expected[1],), None)


def test_it_may_be_a_domain_above_with_other_origins():
    origins = ("https://app.Example.org:443/", "https://ci.example.org", "https://app.example.org")
    found = party("https://ci.example.org", rp_id="example.org", rp_name="Example", origins=origins)
    assert (found.id, found.name) == ("example.org", "Example")
    assert found.origins == ("https://app.example.org", "https://ci.example.org")


@pytest.mark.parametrize(
    ("rp_id", "says"),
    [
        ("example.com", "neither"),
        ("ample.org", "neither"),
        ("x.ci.example.co.uk", "neither"),
        ("localhost", "neither"),
        ("uk", "public suffix"),
        ("co.uk", "public suffix"),
        ("10.0.0.1", "IP address"),
        ("::1", "IP address"),
        ("https://ci.example.co.uk", "without a port"),
        ("ci.example.co.uk:443", "without a port"),
        ("CI.example.co.uk", "be a domain"),
        ("example.co.uk.", "be a domain"),
        ("", "be a domain"),
    ],
)
def test_an_id_that_browsers_refuse_is_an_error(rp_id: str, says: str):
    with pytest.raises(ValueError, match=rf"identity\.rp_id must .*{says}"):
        party("https://ci.example.co.uk", rp_id=rp_id)


def test_an_id_needs_the_address_of_the_service():
    with pytest.raises(ValueError, match="base_url"):
        party(rp_id="ci.example.org")
    assert party(rp_id="localhost").id == "localhost"


@pytest.mark.parametrize(
    "origin",
    ["https://example.org", "https://ci.example.org.evil.org", "http://ci.example.org", "https://eci.example.org"],
)
def test_an_origin_elsewhere_is_an_error(origin: str):
    with pytest.raises(ValueError, match=r"identity\.origins must"):
        party("https://ci.example.org", origins=(origin,))


@pytest.mark.parametrize("origin", ["ci.example.org", "https://*.example.org", "https://ci.example.org/path", "null"])
def test_what_is_no_origin_is_an_error(origin: str):
    with pytest.raises(ValueError, match="origins must be origins such as"):
        IdentitySettings(origins=(origin,))


@pytest.mark.parametrize("base_url", ["http://ci.example.org", "http://10.0.0.1:8800", "https://[2001:db8::1]"])
def test_where_browsers_refuse_passkeys_there_is_a_warning(base_url: str):
    assert "browsers" in (party(base_url).warning or "")
