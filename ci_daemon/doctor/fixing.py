"""Run the commands that fix failed checks, as root."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ci_daemon.doctor.check import Check

_INSTALL = "apt-get install -y "
_ROOT_PATHS = ":/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of root's programs: after a plain `su`, PATH is still that of an ordinary user."""


@immutable
class FixResult:
    """A command that was run; ``error`` is its last line of output if it failed, else None."""

    command: str
    error: str | None


def fix_commands(checks: Iterable[Check]) -> list[str]:
    """Return the commands that fix failed checks, in order; one command installs all packages."""
    wanted = list(dict.fromkeys(check.fix for check in checks if not check.ok and check.fixable and check.fix))
    installs = [command for command in wanted if command.startswith(_INSTALL)]
    together = _INSTALL + " ".join(command.removeprefix(_INSTALL) for command in installs)
    return list(dict.fromkeys(together if command in installs else command for command in wanted))


def apply_fixes(checks: Iterable[Check], begins: Callable[[str], None] = lambda _command: None) -> Iterator[FixResult]:
    """Run the commands that fix failed checks, and yield the result of each.

    ``begins`` gets each command before it runs.
    """
    for command in fix_commands(checks):
        begins(command)
        argv = shlex.split(command)
        error = _run(argv)
        if error is not None and command.startswith(_INSTALL):
            # A fresh machine has no package lists, and an old one has stale lists.
            error = _run(["apt-get", "update"]) or _run(argv)
        yield FixResult(command, error)


def _run(argv: list[str]) -> str | None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": f"{os.environ.get('PATH', '')}{_ROOT_PATHS}"}
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
        return error_reason(error)
    if done.returncode == 0:
        return None
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"ended with {done.returncode}"
