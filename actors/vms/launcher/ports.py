"""Connections of the service to ports of the job, whose network the supervisor has and sshd has not.

Each passes bytes both ways, a bounded number at a time, until one end hangs up.
"""

from __future__ import annotations

import _socket
import select

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDRESSES = ((_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1"))
_CONNECT_SECONDS = 0.1
"""The loopback tells at once whether a port is listened to."""

_MOST_BYTES = 1 << 16


def connect(port: int) -> _socket.socket | None:
    """Connect to a port of the loopback; None if nothing takes connections there."""
    for family, address in _ADDRESSES:
        try:
            client = _socket.socket(family, _socket.SOCK_STREAM)
        except OSError:  # no such addresses here
            continue
        try:
            client.settimeout(_CONNECT_SECONDS)
            client.connect((address, port))
        except (OSError, OverflowError):
            client.close()
        else:
            client.setblocking(False)  # noqa: FBT003 - the function's own argument
            return client
    return None


class _Way:
    """The bytes from one end to the other, of which few wait."""

    def __init__(self, source: _socket.socket, target: _socket.socket) -> None:
        self.source = source
        self.target = target
        self.ended = False
        """True once the source has sent all, and the target has taken it."""

        self._waiting = b""
        self._last = False

    @property
    def reads(self) -> bool:
        """True if it takes more of the source."""
        return not self._waiting and not self._last

    @property
    def writes(self) -> bool:
        """True if it has something for the target."""
        return bool(self._waiting)

    def pass_on(self) -> None:
        """Pass on what there is. Raises OSError when an end is gone."""
        try:
            if self.reads:
                self._waiting = self.source.recv(_MOST_BYTES)
                self._last = not self._waiting
            if self._waiting:
                self._waiting = self._waiting[self.target.send(self._waiting) :]
        except BlockingIOError:
            return
        if self._last and not self._waiting and not self.ended:
            self.ended = True
            self.target.shutdown(_socket.SHUT_WR)


class Relay:
    """One connection to a port, and that of the service which asked for it."""

    def __init__(self, service: _socket.socket, program: _socket.socket) -> None:
        self._ends = service, program
        self._ways = _Way(service, program), _Way(program, service)

    def polled(self) -> Iterator[tuple[int, int]]:
        """Yield the descriptors to poll for `attend`, with their events."""
        for end in self._ends:
            reads = any(way.source is end and way.reads for way in self._ways)
            writes = any(way.target is end and way.writes for way in self._ways)
            yield end.fileno(), (select.POLLIN if reads else 0) | (select.POLLOUT if writes else 0)

    def attend(self, ready: dict[int, int]) -> bool:
        """Pass on what has come; tell whether it goes on."""
        events = [ready.get(end.fileno(), 0) for end in self._ends]
        if not any(events):
            return True
        try:
            for way in self._ways:
                way.pass_on()
        except OSError:  # an end is gone
            return False
        if any(each & (select.POLLERR | select.POLLNVAL) for each in events):
            return False
        hung_up = any(each & select.POLLHUP for each in events) and not any(way.writes for way in self._ways)
        return not (hung_up or self._ways[1].ended)

    def close(self) -> None:
        """Hang up at both ends."""
        for end in self._ends:
            end.close()
