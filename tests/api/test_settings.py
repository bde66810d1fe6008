from __future__ import annotations

from typing import Any

import pytest

from api import HttpSettings


def test_the_url_is_the_address_by_default():
    assert HttpSettings(listen="127.0.0.1:1234").url == "http://127.0.0.1:1234"
    assert HttpSettings(base_url="https://ci.example.org/").url == "https://ci.example.org"


@pytest.mark.parametrize(
    ("url", "pages"),
    [
        ("http://127.0.0.1:8800", "http://localhost:8800"),
        ("http://0.0.0.0:8800", "http://localhost:8800"),
        ("http://[::1]:8800", "http://localhost:8800"),
        ("http://[::]", "http://localhost"),
        ("http://127.0.0.1/ci", "http://localhost/ci"),
        *((url, url) for url in ("https://ci.example.org", "http://10.0.0.7:8800", "http://127.0.0.1.example.org")),
    ],
)
def test_pages_on_this_host_have_an_address_for_passkeys(url: str, pages: str):
    assert HttpSettings(base_url=url).pages_url == pages


@pytest.mark.parametrize(
    "listen", ["", "8800", ":8800", "localhost", "localhost:", "localhost:http", "h:-1", "h:65536"]
)
def test_an_address_is_host_and_port(listen: str):
    with pytest.raises(ValueError, match="HOST:PORT"):
        HttpSettings(listen=listen)


@pytest.mark.parametrize(("threads", "streams"), [(4, 4), (4, 5), (2, 2)])
def test_streams_leave_the_api_a_thread(threads: int, streams: int):
    with pytest.raises(ValueError, match="max_streams must be below threads"):
        HttpSettings(threads=threads, max_streams=streams)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "ci.example.org"}, "base_url must be a URL such as"),
        ({"base_url": "https://ci.example.org/?x"}, "base_url must be a URL such as"),
        ({"cors_origins": ("https://ok.example", "*")}, r'cors_origins must be origins .* not "\*"'),
        ({"cors_origins": ("https://app.example/page",)}, "cors_origins must be origins"),
        (
            {"trusted_proxies": ("10.0.0.1", "proxy")},
            r'trusted_proxies must be addresses or networks such as .* not "proxy"',
        ),
        ({"trusted_proxies": ("10.0.0.1/24",)}, "trusted_proxies must be addresses or networks such as"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(settings: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        HttpSettings(**settings)


def test_a_service_may_live_below_a_path():
    assert HttpSettings(base_url="https://example.org/ci/").url == "https://example.org/ci"
