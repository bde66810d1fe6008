from __future__ import annotations

import pytest

from api import HttpSettings


def test_the_url_is_the_address_unless_said():
    assert HttpSettings(listen="127.0.0.1:1234").url == "http://127.0.0.1:1234"
    assert HttpSettings(base_url="https://ci.example.org/").url == "https://ci.example.org"


@pytest.mark.parametrize(
    "listen", ["", "8800", ":8800", "localhost", "localhost:", "localhost:http", "h:-1", "h:65536"]
)
def test_an_address_is_host_and_port(listen: str):
    with pytest.raises(ValueError, match="HOST:PORT"):
        HttpSettings(listen=listen)


@pytest.mark.parametrize(("threads", "streams"), [(4, 4), (4, 0), (4, 5), (1, 1)])
def test_streams_leave_the_api_a_thread(threads: int, streams: int):
    with pytest.raises(ValueError, match="max_streams must be from 1 to"):
        HttpSettings(threads=threads, max_streams=streams)
