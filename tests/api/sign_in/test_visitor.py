from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.sign_in.visitor import agent_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/138.0 Safari/537.36", "Chrome on Windows"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/138.0 Safari/537.36 Edg/138.0", "Edge on Windows"),
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/138.0 Safari/537.36 OPR/122.0", "Opera on Linux"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 CriOS/138.0 Safari/604.1",
            "Chrome on iOS",
        ),
        ("Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0", "Firefox on Android"),
        (f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/138.0 Mobile Safari/537.36", "Chrome on Android"),
        (f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {WEBKIT} Chrome/138.0 Safari/537.36", "Chrome on ChromeOS"),
        ("curl/8.5.0", "curl"),
        ("ci-daemon/0.1.0", "ci-daemon"),
        ("python-httpx/0.27", "Python"),
        ("Go-http-client/2.0", "Go"),
        ("Mozilla/5.0", "unknown program"),
        ("", "unknown program"),
        (None, "unknown program"),
        ("evil curl/8", "unknown program"),
    ],
)
def test_a_program_is_known_by_its_name(header: str | None, name: str):
    assert agent_name(header) == name


@given(st.text(max_size=3000))
def test_any_text_gives_a_name_of_the_list(header: str):
    name = agent_name(header)
    assert len(name) <= 40
    assert name.isprintable()
    assert name.isascii()


def test_a_huge_text_takes_no_time():
    began = time.process_time()
    agent_name("Mozilla/5.0 (" * 100_000)
    assert time.process_time() - began < 0.5
