"""Error codes, and errors in words."""

from __future__ import annotations

import re
import socket
import ssl
from pathlib import Path

import httpx
import pytest

from storage import BuildErrorCode, JobErrorCode, error_reason

MONITORING = Path(__file__).parents[2] / "systemd" / "monitoring"
OF_SERVICE = {code for code in JobErrorCode if code.of_service}


def test_the_alert_counts_the_failures_of_the_service():
    [selected] = re.findall(r'job_attempts_total\{error=~"([^"]+)"', (MONITORING / "alerts.yml").read_text())
    assert set(selected.split("|")) == OF_SERVICE


def test_the_alert_about_renders_selects_an_error_code():
    [selected] = re.findall(r'renders_total\{error="([^"]+)"', (MONITORING / "alerts.yml").read_text())
    assert selected in set(BuildErrorCode)


def test_the_dashboard_names_the_failures_of_the_service():
    [named] = re.findall(r'"([^"]+) are the service\'s own faults', (MONITORING / "dashboard.json").read_text())
    assert set(re.findall(r"\w+_\w+", named)) == OF_SERVICE


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
