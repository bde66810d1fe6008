"""The service's end of the zygote, the process that VMs are forked from (``launcher/main.py``)."""

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
    """A client of the zygote, which starts programs on request.

    The zygote is started when first needed and after its death, and ends with `close`. Safe in any thread. The programs
    are not children of this process, and outlive both the service and the zygote.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None

    def start(self, program: str, told: _Told, descriptors: Sequence[int]) -> None:
        """Start a program that reads ``told`` from its standard input, in the format of `marshal`.

        The first two descriptors are its standard output and error; it gets the others too. Raises VmError.
        """
        read, write = os.pipe()
        with suppress(BrokenPipeError), os.fdopen(write, "wb") as telling:
            try:
                self._ask(program.encode(), [read, *descriptors])
            finally:
                os.close(read)
            telling.write(marshal.dumps(told))

    def run_inside(self, argv: Sequence[str], idmap: IdMap, folder: Path) -> bytes:
        """Run a program as root of a mapping of one extent, in a folder; return its output.

        Raises MappedFailed on a non-zero status, VmError if the zygote cannot be started.
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
        """Let the zygote end. It is started again when needed."""
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
    """Start the zygote and return the socket for requests to it. Raises VmError."""
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
