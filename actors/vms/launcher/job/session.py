"""Sessions of sshd that ask the supervisor of a VM's job to be let in (``guest/request.sh``)."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import os

from ..kernel import descriptor_of

_ANSWER = 4
"""The descriptor of a session's process that takes the answer."""


class Session:
    """A session that waits for its answer."""

    def __init__(self, pid: int) -> None:
        """Find a session's process. Raises OSError if it has ended."""
        self.pidfd = os.pidfd_open(pid)

    def answer(self, number: int) -> None:
        """Let the session go on with this answer."""
        try:
            answer = descriptor_of(self.pidfd, _ANSWER)
            os.write(answer, b"%d\n" % number)
            os.close(answer)
            _signal.pidfd_send_signal(self.pidfd, _signal.SIGPIPE)  # a shell is silent about children that this ends
        except OSError:  # it has ended
            pass
        os.close(self.pidfd)
