"""A channel of paramiko's on which nothing follows its end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from actors.vms.ssh.receive_limits import BoundedBuffer

_Ends = tuple[paramiko.Message | None, paramiko.Message | None]
_NONE: _Ends = (None, None)


class Channel(paramiko.Channel):
    """A channel whose input and whose close are sent in order, by any threads.

    Paramiko makes a message under the channel's lock and sends it without, so that the close by another thread, as the
    answer to one from the VM, could overtake it. OpenSSH then ends the whole connection, with all other commands.
    """

    in_buffer: BoundedBuffer  # see `limit_unread`
    lock: threading.Lock
    remote_chanid: int
    timeout: float | None
    _check_add_window: Callable[[int], int]

    def __init__(self, channel_id: int) -> None:
        super().__init__(channel_id)
        self._senders = 0
        self._ends = _NONE

    def shutdown(self, how: int) -> None:
        """End the input, the output or both, as of a socket."""
        with self._sending():
            super().shutdown(how)

    def _send(self, s: bytes, m: paramiko.Message) -> int:
        with self._sending():
            sent: int = super()._send(s, m)  # type: ignore[misc] # typeshed lacks it
        return sent

    def receive(self) -> list[bytes]:
        """Return all that has come, in pieces; ``recv`` would join a copy of them. Wait for some as it does.

        None come after the end. Raises TimeoutError.
        """
        pieces = self.in_buffer.take(self.timeout)
        read = self._check_add_window(sum(map(len, pieces)))
        if read > 0:
            message = paramiko.Message()
            message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
            message.add_int(self.remote_chanid)
            message.add_int(read)
            self._transport_send(message)
        return pieces

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Let the block send messages. If the channel is closed meanwhile, the last such block sends that."""
        with self.lock:
            self._senders += 1
        try:
            yield
        finally:
            with self.lock:
                self._senders -= 1
                ends = _NONE
                if not self._senders:
                    ends, self._ends = self._ends, _NONE
            for message in ends:
                if message is not None:
                    self._transport_send(message)

    def _close_internal(self) -> _Ends:
        """Return what ends the channel, for the caller to send. The lock is held."""
        ends: _Ends = super()._close_internal()  # type: ignore[misc] # typeshed lacks it
        if not self._senders or ends == _NONE:
            return ends
        self._ends = ends
        return _NONE

    def _transport_send(self, message: paramiko.Message) -> None:
        transport: Any = self.transport
        transport._send_user_message(message)  # noqa: SLF001 - as paramiko's channels do
