"""Sessions of sshd that ask the supervisor of a VM's job for something (``guest/request.sh``)."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import os

from .kernel import descriptor_of

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from .output import Output

STDIN, STDERR, STDOUT, ANSWER = 0, 2, 3, 4
"""The descriptors of a session's process."""

_CHUNK = 1 << 20


class Session:
    """A session that waits for its answer."""

    def __init__(self, pid: int) -> None:
        """Find a session's process. Raises OSError if it has ended."""
        self.pidfd = os.pidfd_open(pid)
        self._taken: list[int] = []

    def take(self, number: int) -> int:
        """Return a copy of a descriptor, which `close` closes. Raises OSError if the session has ended."""
        copy = descriptor_of(self.pidfd, number)
        self._taken.append(copy)
        return copy

    def read(self) -> bytes:
        """Return its whole stdin. Raises OSError if it has ended."""
        received, stdin = bytearray(), self.take(STDIN)
        while chunk := os.read(stdin, _CHUNK):
            received += chunk
        return bytes(received)

    def answer(self, number: int) -> None:
        """Let the session go on with this answer."""
        try:
            os.write(self.take(ANSWER), b"%d\n" % number)
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGPIPE)  # a shell is silent about children that this ends
        except OSError:  # it has ended
            pass
        self.close()

    def close(self) -> None:
        """Forget the session."""
        for each in (*self._taken, self.pidfd):
            os.close(each)


class Follower:
    """A session to which the output is copied, from a byte on."""

    def __init__(self, session: Session, offset: int) -> None:
        """Take the session's stdout. Raises OSError if it has ended."""
        self.session = session
        self.stdout = session.take(STDOUT)
        os.set_blocking(self.stdout, False)
        self._offset = offset
        self.idle = True
        """True if the session has taken all that there is."""

    def copy(self, output: Output) -> bool:
        """Copy as much as the session takes now; tell if that is all. Raises OSError if the session has ended."""
        self.idle = False
        try:
            while self._offset < output.size:
                count = min(output.size - self._offset, _CHUNK)
                self._offset += os.sendfile(self.stdout, output.file, self._offset, count)
        except BlockingIOError:
            return False
        self.idle = True
        return True
