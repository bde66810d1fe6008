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

from actors.vms.host.ids import MappedProgramFailed
from actors.vms.launcher.broker import ENVIRONMENT, launcher_argv
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from actors.vms.host.ids import IdMap


_Arguments: TypeAlias = dict[str, Any] | tuple[list[str], str, str, str]


class Zygote:
    """A client of the zygote, which starts programs on request.

    The zygote is started when first needed and after its death, and ends with `close`. Safe in any thread. The programs
    are not children of this process, and outlive both the service and the zygote.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None

    def start(self, program: str, arguments: _Arguments, descriptors: Sequence[int]) -> None:
        """Start a program that reads ``arguments`` from its standard input, in the format of `marshal`.

        The first two descriptors are its standard output and error; it gets the others too. Raises VmError.
        """
        read, write = os.pipe()
        with suppress(BrokenPipeError), os.fdopen(write, "wb") as pipe:
            try:
                self._request(program.encode(), [read, *descriptors])
            finally:
                os.close(read)
            pipe.write(marshal.dumps(arguments))

    def run_mapped(self, argv: Sequence[str], idmap: IdMap, folder: Path, files: Sequence[int] = ()) -> bytes:
        """Run a program as root of a mapping of one extent, in a folder; return its output.

        It gets the files as its descriptors from 3 on. Raises MappedProgramFailed on a non-zero status, VmError if the
        zygote cannot be started.
        """
        arguments = list(argv), str(idmap.uids[0]), str(idmap.gids[0]), str(folder.absolute())
        output_read, output_write = os.pipe()
        status_read, status_write = os.pipe()
        with os.fdopen(output_read, "rb") as output_pipe, os.fdopen(status_read, "rb") as status_pipe:
            try:
                self.start("mapped", arguments, [output_write, output_write, status_write, *files])
            finally:
                for each in (output_write, status_write):
                    os.close(each)
            output, status = output_pipe.read(), status_pipe.read()
        if status != b"\0":
            reason = output.decode(errors="replace").strip()[-2000:] or "it printed nothing"
            message = f"`{shlex.join(argv)}` failed with {f'status {status[0]}' if status else 'no status'}: {reason}"
            raise MappedProgramFailed(message)
        return output

    def measure_unlinked(self, process: int, place: Path, groups: Sequence[Path]) -> tuple[int, int]:
        """Return the bytes of a VM's unlinked files, and the number of files that may take more.

        Counts files on the disk that ``process`` sees at ``place``. The VM's processes are those of its control
        ``groups``, or the descendants of ``process`` if it has none. Zero if the process has ended.
        """
        read, write = os.pipe()
        errors = os.open(os.devnull, os.O_WRONLY)
        spec = {"process": process, "place": str(place), "groups": [str(group) for group in groups]}
        with os.fdopen(read, "rb") as output:
            try:
                self.start("unlinked", spec, [write, errors])
            finally:
                os.close(write)
                os.close(errors)
            size, in_doubt = map(int, output.read().split() or (0, 0))
        return size, in_doubt

    def close(self) -> None:
        """Let the zygote end. It is started again when needed."""
        with self._lock:
            if self._requests is not None:
                self._requests.close()
                self._requests = None

    def _request(self, program: bytes, descriptors: list[int]) -> None:
        with self._lock:
            if self._requests is not None:
                with suppress(ConnectionError):
                    socket.send_fds(self._requests, [program], descriptors)
                    return
                self._requests.close()
            self._requests = _start_zygote()
            socket.send_fds(self._requests, [program], descriptors)


def _start_zygote() -> socket.socket:
    """Start the zygote and return the socket for requests to it. Raises VmError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        done = subprocess.run(
            launcher_argv("main"),
            env=ENVIRONMENT,
            cwd="/",
            stdin=theirs.fileno(),
            capture_output=True,
            start_new_session=True,
            check=False,
        )
    if done.returncode != 0:
        ours.close()
        message = f"no VM can be created or destroyed: {done.stderr.decode(errors='replace').strip()[-1000:]}"
        raise VmError(message)
    return ours
