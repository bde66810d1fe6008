"""The service's end of the disk keepers, which change the disks of VMs (``launcher/disk_files.py``)."""

from __future__ import annotations

import marshal
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.vms.provider import VmError

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.sandbox.userns import IdMap
    from actors.vms.sandbox.zygote import Zygote

_IDLE = 2
"""The most keepers that stay for the next request; a burst has more."""

_IDLE_SECONDS = 1.0
_DONE = b"0"
_ANSWER_BYTES = 4096


class DiskKeepers:
    """The keepers of one folder of disks, which may be used in any thread.

    Each does one piece of work at a time. A keeper is started when none is idle. It ends when it has been idle for
    ``idle_seconds``, or this process has ended.
    """

    def __init__(self, folder: Path, idmap: IdMap, zygote: Zygote, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._folder = folder
        self._idmap = idmap
        self._zygote = zygote
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    def change(self, *work: str) -> None:
        """Do a piece of work, which may be repeated. Raises VmError with the reason if it fails."""
        with self._lock:
            keeper = self._idle.pop() if self._idle else None
        answer = _ask(keeper, work) if keeper is not None else b""
        if keeper is None or not answer:  # it has ended meanwhile
            keeper = self._start()
            answer = _ask(keeper, work)
        if answer:
            self._keep(keeper)
        if answer != _DONE:
            reason = answer[1:].decode(errors="replace") or "the program for it was ended"
            message = f"the disk cannot be changed ({' '.join(work)}): {reason}"
            raise VmError(message)

    @property
    def idle(self) -> int:
        """The number of keepers that wait for work."""
        with self._lock:
            return len(self._idle)

    def close(self) -> None:
        """Let the idle keepers end. Others are started when needed."""
        with self._lock:
            idle, self._idle = self._idle, []
        for keeper in idle:
            keeper.close()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_WRONLY)
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        try:
            spec = {
                "uid_map": str(self._idmap.uids[0]),
                "gid_map": str(self._idmap.gids[0]),
                "idle_seconds": self._idle_seconds,
            }
            self._zygote.start("disks", spec, [null, null, folder, theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(null)
            os.close(folder)
        return ours

    def _keep(self, keeper: socket.socket) -> None:
        with self._lock:
            if len(self._idle) < _IDLE:
                self._idle.append(keeper)
                return
        keeper.close()


def _ask(keeper: socket.socket, work: tuple[str, ...]) -> bytes:
    """Return a keeper's answer, or nothing if it has ended; its socket is closed then."""
    with suppress(ConnectionError):
        keeper.sendall(marshal.dumps(work))
        if answer := keeper.recv(_ANSWER_BYTES):
            return answer
    keeper.close()
    return b""
