"""What the doctor finds: one sentence a check, and the command that mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Check", "from_message", "good"]

_COMMAND = re.compile(r"^(?P<detail>.*?):? run `(?:sudo )?(?P<mend>[^`]+)`\.?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the service needs of its machine.

    ``mend`` is a command line without ``sudo``; ``root`` says whether it takes root, and with ``fixable`` the doctor
    runs it itself when asked to. What is not ``needed`` is told and fails nothing.
    """

    name: str
    ok: bool
    detail: str
    mend: str | None = None
    needed: bool = True
    root: bool = True
    fixable: bool = True

    def command(self, *, as_root: bool) -> str | None:
        """Return the command as the caller has to type it."""
        return f"sudo {self.mend}" if self.mend and self.root and not as_root else self.mend


def good(name: str, detail: str) -> Check:
    """Return a check that found all well."""
    return Check(name, ok=True, detail=detail)


def from_message(name: str, message: str, *, needed: bool = True) -> Check:
    """Return a failed check out of an error's message, whose last words are ``run `command```, if it has such."""
    found = _COMMAND.match(message)
    if found is None:
        return Check(name, ok=False, detail=message, needed=needed, fixable=False)
    return Check(name, ok=False, detail=found["detail"], mend=found["mend"], needed=needed)
