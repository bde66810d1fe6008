"""A conversation of the service with the supervisor of a VM's job, over a socket that sshd connects.

It is one request: a line of a word and a number, for ``start`` followed by so many bytes. The answer is lines; a line
``output N`` or ``result N`` is followed by so many bytes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    import _socket

    from .output import Output

_CHUNK = 1 << 20
_MAX_REQUEST = 16 << 20
_LINE_BYTES = 100


class Conversation:
    """One connection. Its methods raise OSError once the other end is gone, and BlockingIOError never."""

    def __init__(self, socket: _socket.socket) -> None:
        self.socket = socket
        self.idle = True
        """True if the other end has taken all that there is."""
        self.asked = False
        """True once the request has come."""
        self.following = False
        self.finished = False
        """True once the result is on its way."""
        self._received = b""
        self._offset = 0
        self._head = b""
        self._left = 0

    def read(self) -> tuple[bytes, int, bytes] | None:
        """Return the request, as its word, number and bytes; None if more of it is to come."""
        chunk = self.socket.recv(_CHUNK)
        self._received += chunk
        line, newline, rest = self._received.partition(b"\n")
        word, _, number = line.partition(b" ")
        complete = newline and (word != b"start" or len(rest) >= int(number))
        if complete:
            self.asked = True
            return word, int(number), rest
        if not chunk or len(self._received) > _MAX_REQUEST or (not newline and len(line) > _LINE_BYTES):
            raise ConnectionAbortedError
        return None

    def say(self, text: bytes) -> None:
        """Send a short answer, for which a new connection has room."""
        self.socket.send(text)

    def follow(self, offset: int) -> None:
        """Begin to copy the output from a byte on."""
        self.following, self._offset = True, offset

    def finish(self, result: bytes) -> None:
        """Let the result follow the output that was copied."""
        self.finished, self._head = True, b"result %d\n%s" % (len(result), result)

    def copy(self, output: Output) -> bool:
        """Copy as much of the output as the other end takes now; tell if that is all."""
        self.idle = False
        try:
            while self._head or self._left or (not self.finished and self._next_block(output.size)):
                if self._head:
                    self._head = self._head[self.socket.send(self._head) :]
                else:
                    sent = os.sendfile(self.socket.fileno(), output.file, self._offset, self._left)
                    self._offset += sent
                    self._left -= sent
        except BlockingIOError:
            return False
        self.idle = True
        return True

    def _next_block(self, size: int) -> int:
        """Begin the next block of output, if there is any; return its size."""
        self._left = max(0, min(size - self._offset, _CHUNK))
        self._head = b"output %d\n" % self._left if self._left else b""
        return self._left
