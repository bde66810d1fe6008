"""The exit codes of all commands, in one table."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExitCode(IntEnum):
    """An exit code of the command itself; `debug` and `logs` may end with that of a program they run."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    UNFINISHED = 3
    INTERRUPTED = 130
    TERMINATED = 143


MEANINGS: Mapping[ExitCode, str] = {
    ExitCode.SUCCESS: "The command did what it says: a build passed, a check found nothing.",
    ExitCode.FAILURE: "It failed, and stderr says why; a build failed, a check found something.",
    ExitCode.USAGE: "The command line is wrong; nothing was done.",
    ExitCode.UNFINISHED: "A build was canceled; `convert` left something out; for `status`, no service runs.",
    ExitCode.INTERRUPTED: "Ctrl-C ended it.",
    ExitCode.TERMINATED: "SIGTERM ended it.",
}
"""The table, for people."""
