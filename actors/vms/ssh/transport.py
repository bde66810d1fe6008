"""A transport of paramiko's with channels of ours."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.common import cMSG_CHANNEL_OPEN

from actors.vms.ssh.channel import Channel
from actors.vms.ssh.receive_limits import limit_unread

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.vms.ssh.stream import Deadline

_SESSION = "session"
_SOCKET = "direct-streamlocal@openssh.com"
_LOOK_SECONDS = 0.1
"""A pause between looks at the connection while an answer is awaited, as in paramiko."""


class Transport(paramiko.Transport):
    """A transport that opens channels of our class, to commands and to sockets of the peer.

    The latter are an extension of OpenSSH's. Paramiko's `open_channel`, which knows neither, does the same for others.
    """

    _channels: Any
    _next_channel: Callable[[], int]
    _send_user_message: Callable[[paramiko.Message], None]

    def open_command(self, deadline: Deadline) -> Channel:
        """Open a channel for a command. Raises SSHException, or OSError of the connection."""
        return self._open(_SESSION, b"", deadline)

    def open_socket(self, path: str, deadline: Deadline) -> Channel:
        """Open a channel to a listening socket in the VM. Raises SSHException, or OSError of the connection."""
        peer = paramiko.Message()
        peer.add_string(path)
        peer.add_string("")
        peer.add_int(0)
        return self._open(_SOCKET, peer.asbytes(), deadline)

    def _open(self, kind: str, details: bytes, deadline: Deadline) -> Channel:
        with self.lock:
            channel_id = self._next_channel()
            request = paramiko.Message()
            request.add_byte(cMSG_CHANNEL_OPEN)
            request.add_string(kind)
            request.add_int(channel_id)
            request.add_int(self.default_window_size)
            request.add_int(self.default_max_packet_size)
            request.add_bytes(details)
            channel: Any = Channel(channel_id)
            self._channels.put(channel_id, channel)
            self.channel_events[channel_id] = opened = threading.Event()
            self.channels_seen[channel_id] = True
            channel._set_transport(self)  # noqa: SLF001 - see above
            channel._set_window(self.default_window_size, self.default_max_packet_size)  # noqa: SLF001 - see above
            # Half of the window is read before the peer hears of it, not a tenth: each message costs CPU time.
            channel.in_window_threshold = self.default_window_size // 2
            limit_unread(channel)
        self._send_user_message(request)
        # Nobody sets the event of a connection that was closed, or that ended before the event was there.
        while self.is_active() and not opened.wait(_LOOK_SECONDS) and deadline.remaining() != 0:
            pass
        if opened.is_set() and self._channels.get(channel_id) is not None:
            return channel  # type: ignore[no-any-return]
        raise self.get_exception() or paramiko.SSHException("no channel was opened in time, or the connection ended")
