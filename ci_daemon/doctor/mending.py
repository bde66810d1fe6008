"""Run the commands that mend failed checks, as root."""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_daemon.doctor.check import Check

__all__ = ["Mended", "commands", "mend"]

_INSTALL = "apt-get install -y "
_OF_ROOT = ":/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of root's programs: after a plain `su`, PATH is still that of an ordinary user."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A command that was run; ``fault`` is its last line of output if it failed, else None."""

    command: str
    fault: str | None


def commands(checks: Iterable[Check]) -> list[str]:
    """Return the commands that mend failed checks, in order; one command installs all packages."""
    wanted = list(dict.fromkeys(check.mend for check in checks if not check.ok and check.fixable and check.mend))
    installs = [command for command in wanted if command.startswith(_INSTALL)]
    together = _INSTALL + " ".join(command.removeprefix(_INSTALL) for command in installs)
    return list(dict.fromkeys(together if command in installs else command for command in wanted))


def mend(checks: Iterable[Check]) -> Iterator[Mended]:
    """Run those commands and yield each when it is done."""
    for command in commands(checks):
        argv = shlex.split(command)
        fault = _run(argv)
        if fault is not None and command.startswith(_INSTALL):
            # A fresh machine has no package lists, and an old one has stale lists.
            fault = _run(["apt-get", "update"]) or _run(argv)
        yield Mended(command, fault)


def _run(argv: list[str]) -> str | None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": f"{os.environ.get('PATH', '')}{_OF_ROOT}"}
    try:
        done = subprocess.run(
            argv,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = done.stdout.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"ended with {done.returncode}"
