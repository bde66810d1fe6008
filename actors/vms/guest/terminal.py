"""The terminal of a VM, independent of connections: open it, look at it, type, resize.

The supervisor of the VM's job (``launcher/terminal.py``) runs its shell, so it outlives dropped connections and the
daemon.
"""

from __future__ import annotations

import marshal
from dataclasses import field
from typing import TYPE_CHECKING

from actors.vms.guest.command import MARSHAL_VERSION, ask
from actors.vms.provider import VmError, VmLost
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.ssh.connection import Connection

_STARTED = b"started"
_TYPED = "typed"
_NUMBER_BYTES = 8
_SIZE_BITS = 16
MOST_SIZE = 1000
"""The most columns, and rows."""


@immutable
class TerminalSpec:
    """A terminal with a shell: bash, or ``sh`` without it; ``env`` is its whole environment."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    columns: int = 80
    rows: int = 24
    cwd: str = "/workspace"
    processes: int = 4000


@immutable
class ScreenPart:
    """A part of what a terminal has shown: ``data``, whose last byte has the number ``end``.

    ``left_out`` bytes before it are not kept any more. ``exit_code`` is that of the shell once it has ended; then no
    other part follows.
    """

    data: bytes = b""
    end: int = 0
    left_out: int = 0
    exit_code: int | None = None


def open_terminal(connection: Connection, spec: TerminalSpec) -> None:
    """Open the VM's terminal, unless that was done. Raises VmError, ConnectionLost and CommandTimeout."""
    wanted = {
        "env": dict(spec.env),
        "columns": spec.columns,
        "rows": spec.rows,
        "cwd": spec.cwd,
        "processes": spec.processes,
    }
    content = marshal.dumps(wanted, MARSHAL_VERSION)
    with ask(connection, "terminal", len(content), content) as supervisor:
        answer = supervisor.read_line()
    if answer != _STARTED:
        message = f"the VM cannot open a terminal: {answer.decode(errors='replace').removeprefix('failed ')}"
        raise VmError(message)


def type_in(connection: Connection, number: int, data: bytes) -> int:
    """Type into the VM's terminal; return how many bytes were taken since it was opened.

    ``number`` is that of the first byte. What was taken before is not typed again, nor what comes after a gap, or when
    programs read too little. Raises VmError, ConnectionLost and CommandTimeout.
    """
    content = number.to_bytes(_NUMBER_BYTES, "big") + data
    with ask(connection, "type", len(content), content) as supervisor:
        return _typed(supervisor.read_line())


def resize(connection: Connection, columns: int, rows: int) -> None:
    """Set the size of the VM's terminal in characters. Raises VmError, ConnectionLost and CommandTimeout."""
    with ask(connection, "resize", columns << _SIZE_BITS | rows) as supervisor:
        _typed(supervisor.read_line())


class Screen:
    """A look at the VM's terminal, from the byte ``number`` on.

    ``typed`` is the number of bytes that were typed until it began. Its methods raise ConnectionLost, VmLost and
    CommandTimeout.
    """

    def __init__(self, connection: Connection, number: int) -> None:
        self._supervisor = ask(connection, "screen", number)
        self._number = number
        self.typed = _typed(self._supervisor.read_line())
        self._supervisor.wait_without_limit()

    def part(self, seconds: float) -> ScreenPart | None:
        """Return the next part; None if nothing comes within so many seconds."""
        supervisor = self._supervisor
        if not supervisor.comes(seconds):
            return None
        word, _, number = supervisor.read_line().decode(errors="replace").partition(" ")
        size = int(number) if number.isdigit() else 0
        match word:
            case "output" if size <= _MOST_PART_BYTES:
                data = b"".join(supervisor.read_block(size))
                self._number += len(data)
                return ScreenPart(data, self._number)
            case "skipped":
                self._number += size
                return ScreenPart(end=self._number, left_out=size)
            case "result" if size <= _MOST_PART_BYTES:
                _, _, code = b"".join(supervisor.read_block(size)).decode(errors="replace").partition(" ")
                return ScreenPart(end=self._number, exit_code=int(code) if code.strip().isdigit() else _UNKNOWN)
            case _:
                message = "the VM has no terminal any more"
                raise VmLost(message)

    def close(self) -> None:
        """Look away. Idempotent."""
        self._supervisor.close()


_MOST_PART_BYTES = 1 << 20
_UNKNOWN = 255


def _typed(answer: bytes) -> int:
    word, _, number = answer.decode(errors="replace").partition(" ")
    if word != _TYPED or not number.isdigit():
        message = "the VM has no terminal"
        raise VmLost(message)
    return int(number)
