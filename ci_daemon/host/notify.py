"""Report the service's state to systemd (the protocol of sd_notify)."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_log = logging.getLogger(__name__)

_MICROSECONDS = 1_000_000


@immutable
class Notifier:
    """Sends messages to the service manager, a datagram each; without an address it drops them.

    A message that cannot be sent is logged and dropped: the service runs on without it.
    """

    address: str | None = None
    watchdog_seconds: float | None = None

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str]) -> Notifier:
        """Read the service manager's variables, and remove them so that no child uses them.

        Args:
            environ: the process's environment; NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID are removed from it.
        """
        address = environ.pop("NOTIFY_SOCKET", None)
        interval = environ.pop("WATCHDOG_USEC", "")
        watched = environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        seconds = int(interval) / _MICROSECONDS if watched and interval.isdigit() and int(interval) else None
        return cls(address or None, seconds)

    @property
    def heartbeat_seconds(self) -> float | None:
        """Seconds between calls of `alive`: half of the watchdog's time-out; None without a watchdog."""
        return None if self.watchdog_seconds is None else self.watchdog_seconds / 2

    def ready(self, status: str) -> None:
        """Report that start-up is complete, with a status line."""
        self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, status: str) -> None:
        """Report a status line for `systemctl status`."""
        self._send(f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """Report that a reload of the configuration has begun; `ready` reports its end."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self, status: str) -> None:
        """Report that the service is stopping, with a status line."""
        self._send("STOPPING=1", f"STATUS={_line(status)}")

    def alive(self) -> None:
        """Reset the watchdog, if there is one."""
        if self.watchdog_seconds is not None:
            self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if self.address is None:
            return
        # A leading @ stands for the NUL of Linux's abstract socket names.
        target = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.sendto("\n".join(assignments).encode(), target)
        except OSError as error:
            _log.warning("cannot send %s to systemd over %s: %s", assignments[0], self.address, error)


def _line(text: str) -> str:
    return " ".join(text.split())
