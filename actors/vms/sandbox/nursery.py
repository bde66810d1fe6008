"""The service's end of the process that VMs are born of (``launcher/main.py``)."""

from __future__ import annotations

import marshal
import os
import shlex
import socket
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.vms.provider import VmError
from actors.vms.sandbox.program import ENVIRONMENT, command
from actors.vms.sandbox.userns import MappedFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from actors.vms.sandbox.userns import IdMap

__all__ = ["Nursery"]

_Told: TypeAlias = dict[str, Any] | tuple[list[str], str, str]


class Nursery:
    """Has that process start programs. It is started when it is first needed, or has died, and ends with `close`.

    Safe in any thread. What was started is nobody's child and lives on, whatever becomes of the two ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None

    def start(self, program: str, told: _Told, descriptors: Sequence[int]) -> None:
        """Start a program that finds on its standard input what it is ``told``, as `marshal` writes it.

        Its standard output and error are the first two descriptors; it gets the others too. Raises VmError.
        """
        read, write = os.pipe()
        with suppress(BrokenPipeError), os.fdopen(write, "wb") as telling:
            try:
                self._ask(program.encode(), [read, *descriptors])
            finally:
                os.close(read)
            telling.write(marshal.dumps(told))

    def run_inside(self, argv: Sequence[str], idmap: IdMap, folder: Path) -> bytes:
        """Run a program as root of a mapping of one extent, in a folder, and return what it printed.

        Raises MappedFailed on a non-zero status.
        """
        told = list(argv), str(idmap.uids[0]), str(idmap.gids[0])
        read, write = os.pipe()
        answer, answering = os.pipe()
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        with os.fdopen(read, "rb") as output, os.fdopen(answer, "rb") as status:
            try:
                self.start("inside", told, [write, write, place, answering])
            finally:
                for each in (write, answering, place):
                    os.close(each)
            printed, ended = output.read(), status.read()
        if ended != b"\0":
            why = printed.decode(errors="replace").strip()[-2000:]
            message = f"`{shlex.join(argv)}` ended with {ended[0] if ended else 'no status'}: {why or 'no message'}"
            raise MappedFailed(message)
        return printed

    def close(self) -> None:
        """Let the process end. Another one is started where one is needed again."""
        with self._lock:
            if self._requests is not None:
                self._requests.close()
                self._requests = None

    def _ask(self, program: bytes, descriptors: list[int]) -> None:
        with self._lock:
            if self._requests is not None:
                with suppress(ConnectionError):
                    socket.send_fds(self._requests, [program], descriptors)
                    return
                self._requests.close()
            self._requests = _opened()
            socket.send_fds(self._requests, [program], descriptors)


def _opened() -> socket.socket:
    """Start the process and return the socket on which it is asked. Raises VmError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        done = subprocess.run(
            command("main"),
            env=ENVIRONMENT,
            cwd="/",
            stdin=theirs.fileno(),
            capture_output=True,
            start_new_session=True,
            check=False,
        )
    if done.returncode != 0:
        ours.close()
        message = f"no VM can be made or freed: {done.stderr.decode(errors='replace').strip()[-1000:]}"
        raise VmError(message)
    return ours
