"""The logs of instances, in which the engine's runtime writes why one did not start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.incus.engine import part
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from actors.vms.incus.engine import Engine

_FILE = "lxc.log"
_READ_SECONDS = 10.0
_LEVEL = 3
"""The place of a line's level: ``lxc NAME TIME LEVEL PART - FILE:FUNCTION:LINE - MESSAGE``."""

_SHOWN_LINES = 8
_SHOWN_CHARS = 2000
_NO_TERMINAL = "No space left on device - Failed to allocate console"
_MORE_TERMINALS = "jobs have taken all terminals of its member: raise kernel.pty.max there"


def errors_of(engine: Engine, instance: str) -> str:
    """Return the errors in an instance's log; nothing if there are none, or the engine does not send it."""
    try:
        with engine.download(f"/1.0/instances/{part(instance)}/logs/{_FILE}", _READ_SECONDS) as blocks:
            return errors_in(b"".join(blocks).decode(errors="replace"))
    except VmError:
        return ""


def errors_in(log: str) -> str:
    """Return the first errors of a log, each with where it arose: the later ones follow from them.

    What to do comes first, where it is known and the errors do not say it.
    """
    words = [line.split(maxsplit=_LEVEL + 1) for line in log.splitlines()]
    errors = [each[-1] for each in words if len(each) > _LEVEL + 1 and each[_LEVEL] == "ERROR"]
    shown = [error.partition(" - ")[2] or error for error in errors[:_SHOWN_LINES]]
    advice = [_MORE_TERMINALS] if any(_NO_TERMINAL in each for each in shown) else []
    return "\n".join([*advice, *shown])[:_SHOWN_CHARS]
