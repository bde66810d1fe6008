from __future__ import annotations

import logging
import os
import socket
import uuid
from typing import TYPE_CHECKING

import pytest

from ci_daemon.host.notify import Notifier

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path):
    """The address for NOTIFY_SOCKET, and the service manager's end of that socket."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@{uuid.uuid4()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(5)
        sock.bind("\0" + address[1:] if address.startswith("@") else address)
        yield address, sock


def received(sock: socket.socket) -> str:
    return sock.recv(4096).decode()


def test_ready_status_stopping_and_alive_follow_the_protocol(manager: tuple[str, socket.socket]):
    address, sock = manager
    notifier = Notifier(address, watchdog_seconds=3.0)
    notifier.ready("serving\non http://127.0.0.1:1")
    assert received(sock) == "READY=1\nSTATUS=serving on http://127.0.0.1:1"
    notifier.status("3 jobs")
    assert received(sock) == "STATUS=3 jobs"
    notifier.alive()
    assert received(sock) == "WATCHDOG=1"
    notifier.stopping("draining")
    assert received(sock) == "STOPPING=1\nSTATUS=draining"


def test_without_a_watchdog_no_heartbeat_is_sent(manager: tuple[str, socket.socket]):
    address, sock = manager
    notifier = Notifier(address)
    notifier.alive()
    notifier.status("here")
    assert received(sock) == "STATUS=here"


def test_says_nothing_without_a_manager():
    notifier = Notifier.from_environment({})
    notifier.ready("ready")
    assert notifier == Notifier(None, None)
    assert notifier.heartbeat_seconds is None


def test_takes_its_variables_out_of_the_environment():
    environ = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier = Notifier.from_environment(environ)
    assert environ == {"HOME": "/"}
    assert notifier == Notifier("/run/n", 3.0)
    assert notifier.heartbeat_seconds == 1.5


@pytest.mark.parametrize("usec", ["", "0", "-4", "soon"])
def test_a_watchdog_without_a_time_is_none(usec: str):
    assert Notifier.from_environment({"WATCHDOG_USEC": usec}).heartbeat_seconds is None


def test_another_process_watchdog_is_not_ours():
    environ = {"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}
    assert Notifier.from_environment(environ).heartbeat_seconds is None


def test_a_manager_that_is_gone_is_logged_and_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        Notifier(str(tmp_path / "gone")).ready("ready")
    assert "cannot send READY=1 to systemd" in caplog.text
