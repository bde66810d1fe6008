"""The result of a check: a sentence, and the command that fixes a failure."""

from __future__ import annotations

import re

from storage import immutable

_COMMAND = re.compile(r"^(?P<detail>.*?):? run `(?:sudo )?(?P<fix>[^`]+)`\.?$", re.DOTALL)


@immutable
class Check:
    """The result of one check of the machine.

    ``fix`` is a command line without ``sudo``; ``root`` says whether it takes root. If ``fixable``, the doctor can run
    it itself. A failed check that is not ``needed`` is shown, but the doctor does not fail.
    """

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    needed: bool = True
    root: bool = True
    fixable: bool = True

    def sentence(self, *, as_root: bool) -> str:
        """Return the result with its name, and the command as the caller must type it."""
        command = self.command(as_root=as_root)
        return f"{self.name}: {self.detail}" + (f": run `{command}`" if command else "")

    def command(self, *, as_root: bool) -> str | None:
        """Return the command as the caller must type it, None if there is none."""
        return f"sudo {self.fix}" if self.fix and self.root and not as_root else self.fix


def passed(name: str, detail: str) -> Check:
    """Return a passed check."""
    return Check(name, ok=True, detail=detail)


def failed_from_message(name: str, message: str, *, needed: bool = True) -> Check:
    """Return a failed check from an error's message.

    If the message ends with ``run `COMMAND```, that command is the fix.
    """
    found = _COMMAND.match(message)
    if found is None:
        return Check(name, ok=False, detail=message, needed=needed, fixable=False)
    return Check(name, ok=False, detail=found["detail"], fix=found["fix"], needed=needed)
