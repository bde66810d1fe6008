"""A daemon that dies at a call of one of its functions (tests/crash/fault_injection.py)."""

from __future__ import annotations

from tests.e2e.daemon import Daemon
from tests.waiting import until


def start_to_crash(daemon: Daemon, point: str, when: str, call: int = 1) -> None:
    """Start a daemon that dies ``before`` or ``after`` a call of a function; the first call is 1."""
    daemon.spawn("tests.crash.fault_injection", CRASH_POINT=point, CRASH_WHEN=when, CRASH_CALL=str(call))
    daemon.url = until(daemon.announced, "the daemon's address")


def await_crash(daemon: Daemon) -> None:
    """Wait until it is dead."""
    until(lambda: not daemon.running, "the crash")
