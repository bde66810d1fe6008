"""A conversation of the service with the supervisor of a VM's job, over a socket that sshd connects.

It is one request: a line of a word and a number, for ``start`` followed by so many bytes. The answer is lines; a line
``output N`` or ``result N`` is followed by so many bytes. ``paused`` says that there is more output than is shown while
the command runs, and ``skipped N`` that so many bytes of it are not kept.
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
        self._offset = self._position = 0
        self._paused = False
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

    def copy(self, output: Output, *, whole: bool) -> bool:
        """Copy as much of the output as the other end takes now; tell if that is all.

        Without ``whole`` more may come.
        """
        self.idle = False
        try:
            while self._head or self._left or (not self.finished and self._next_block(output, whole=whole)):
                if self._head:
                    self._head = self._head[self.socket.send(self._head) :]
                else:
                    sent = os.sendfile(self.socket.fileno(), output.file, self._position, self._left)
                    self._position += sent
                    self._left -= sent
        except BlockingIOError:
            return False
        self.idle = True
        return True

    def _next_block(self, output: Output, *, whole: bool) -> bool:
        """Begin the next block of output, or say what is not in it; tell if there is anything."""
        skipped, self._position, size = output.block(self._offset, whole=whole)
        self._left = min(size, _CHUNK)
        self._offset += skipped + self._left
        if skipped:
            self._head = b"skipped %d\n" % skipped
        if self._left:
            self._head += b"output %d\n" % self._left
        elif not whole and not self._paused and output.head <= self._offset < output.size:
            self._paused, self._head = True, b"paused\n"
        return bool(self._head)
