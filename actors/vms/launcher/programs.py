"""Programs of the service in the VM's own part of it, whose streams are pipes of the service's host.

They are what sshd would start for the service: a shell of the outer layer, as the VM's root. Bytes of a pipe are copied
once, where those of SSH are encrypted, sent, received and decrypted. The way in is a socket in the VM's folder on the
host, which is the service's alone, as is the one of SSH. Nothing of the VM sees it.

A datagram is a script and four descriptors: its standard streams, and the pipe on which the shell around it writes its
exit status. Who sends no such thing is not served.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import fcntl
import os
import struct
import time

_SHELL = "/bin/sh"
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": _SHELL,
}
_AROUND = 'sh -c "$1" 3>&-; echo $? >&3'
SCRIPT_BYTES = 1 << 16
"""The most bytes of a script."""

_STREAMS = 4
_FIRST_FREE = 16
"""The first descriptor above those of a program; copies go there first, so none is overwritten."""

_BACK_OFF_SECONDS = 0.05
_OOM_SCORE = 995


def spawn(argv: tuple[str | bytes, ...], environment: dict[str, str], streams: list[int]) -> int:
    """Start a program with these as its first descriptors; return its id. Raises OSError."""
    copies = [(os.POSIX_SPAWN_DUP2, each, number) for number, each in enumerate(streams)]
    default = (_signal.SIGCHLD,)
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=copies, setsid=True, setsigdef=default)
    with open(f"/proc/{pid}/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % _OOM_SCORE)  # above PID 1, whose end is that of the VM
    return pid


class Programs:
    """The programs that come at a socket."""

    def __init__(self, arrivals: int) -> None:
        self._arrivals = _socket.socket(fileno=arrivals)

    def attend(self) -> None:
        """Start the next program. If there is no room for its process, its streams end without a status."""
        received: list[int] = []
        try:
            space = _socket.CMSG_SPACE(_STREAMS * 4)
            text, rights, flags, _ = self._arrivals.recvmsg(SCRIPT_BYTES, space, _socket.MSG_CMSG_CLOEXEC)
            received += [number for _, _, sent in rights for (number,) in struct.iter_unpack("i", sent)]
            if len(received) == _STREAMS and not flags & (_socket.MSG_TRUNC | _socket.MSG_CTRUNC):
                _start(text, received)
        except OSError:
            time.sleep(_BACK_OFF_SECONDS)
        finally:
            for each in received:
                os.close(each)


def _start(text: bytes, streams: list[int]) -> None:
    moved: list[int] = []
    try:
        moved.extend(fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in streams)
        spawn((_SHELL, "-c", _AROUND, "sh", text), _ENVIRONMENT, moved)
    finally:
        for each in moved:
            os.close(each)
