"""QEMU's machine protocol: commands to a machine that runs (https://wiki.qemu.org/Documentation/QMP)."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from actors.vms.provider import VmError
from storage import error_reason

if TYPE_CHECKING:
    from types import TracebackType

_LINE_BYTES = 1 << 20


class Qmp:
    """A connection to QEMU, which serves one at a time.

    It is not trusted, as its guest may have taken it over.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        """Use a new connection, and close it at the end of a `with`. All is to be done within ``seconds``."""
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._rest = b""

    def __enter__(self) -> Self:
        """Await QEMU's greeting. Raises VmError."""
        with ExitStack() as undo:
            undo.callback(self._connection.close)
            self._receive("QMP")
            self.execute("qmp_capabilities")
            undo.pop_all()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        """Hang up."""
        self._connection.close()

    def execute(self, command: str, arguments: dict[str, Any] | None = None, *, descriptor: int | None = None) -> Any:  # noqa: ANN401 - each command has a type of its own
        """Execute a command, which may take a descriptor; return its result. Raises VmError."""
        request = json.dumps({"execute": command, "arguments": arguments or {}}).encode() + b"\n"
        try:
            if descriptor is None:
                self._connection.sendall(request)
            else:
                socket.send_fds(self._connection, [request], [descriptor])
        except OSError as error:
            message = f"QEMU does not answer: {error_reason(error)}"
            raise VmError(message) from error
        return self._receive("return", command)

    def await_event(self, name: str) -> None:
        """Wait until QEMU tells of an event. Raises VmError."""
        while self._receive("event", name) != name:
            pass

    def _receive(self, wanted: str, command: str = "the greeting") -> Any:  # noqa: ANN401 - see above
        """Return what the next message with a ``wanted`` key has there."""
        while True:
            try:
                answer = json.loads(self._line())
                if wanted in answer:
                    return answer[wanted]
                if "error" in answer:
                    message = f"QEMU refuses {command}: {answer['error']['desc']}"
                    raise VmError(message)
            except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
                message = f"QEMU does not answer {command}: {error_reason(error)}"
                raise VmError(message) from error

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > _LINE_BYTES:
                message = "its answer is too long"
                raise ValueError(message)
            if (left := self._deadline - time.monotonic()) <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            if not (received := self._connection.recv(1 << 16)):
                raise ConnectionResetError
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line
