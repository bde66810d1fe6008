"""Errors in words."""

from __future__ import annotations

import socket
import ssl

import httpx
import pytest

from storage import error_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (FileNotFoundError(2, "No such file or directory", "/srv/key"), "No such file or directory: '/srv/key'"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (httpx.ConnectError("[Errno 113] No route to host"), "No route to host"),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"),
            "wrong version number",
        ),
        (TimeoutError(), "timed out"),
        (EOFError(), "EOFError"),
        (ValueError("port 99999 is [too] large"), "port 99999 is [too] large"),
    ],
)
def test_the_reason_is_in_words(error: Exception, reason: str):
    assert error_reason(error) == reason
