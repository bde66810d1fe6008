"""A shell, or one command, in a VM that is there: with the job's variables, in its workspace."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from actors.vms import Connection, VmError
from ci_daemon.debug.terminal import converse, own_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.vms import Endpoint
    from storage import Clock

__all__ = ["Shell"]

_PREPARE_SECONDS = 30.0
_FOLDER = "/run/ci-daemon/debug"
_SHELL = "for shell in /bin/bash /usr/bin/bash /usr/local/bin/bash /bin/sh; do [ -x $shell ] && exec $shell; done"


class Shell:
    """A connection to a VM, as root in there, for programs that are given these variables. Raises VmError."""

    def __init__(self, endpoint: Endpoint, clock: Clock, variables: Mapping[str, str]) -> None:
        self._connection = Connection(endpoint, clock)
        try:
            self._entry = self._lay(variables)
        except BaseException:
            self._connection.close()
            raise

    def run(self, command: Sequence[str]) -> int:
        """Run a command, or a shell at this process's terminal where it is empty; return its exit code.

        Raises ConnectionLost where the VM goes meanwhile.
        """
        script = f"{self._entry}; " + (f"exec {shlex.join(command)}" if command else _SHELL)
        window = None if command else own_window()
        return converse(self._connection.dialog(script, window), interactive=window is not None)

    def close(self) -> None:
        """Hang up. What was started in the VM and waits for nobody runs on."""
        self._connection.close()

    def _lay(self, variables: Mapping[str, str]) -> str:
        """Put the variables into a file of root's in the VM, and return the shell line that takes them.

        What a program is given as arguments every user of the host may read. ``TERM`` stays the terminal's own.
        """
        exports = "".join(
            f"export {name}={shlex.quote(value)}\n" for name, value in variables.items() if name != "TERM"
        )
        file = f"{_FOLDER}/{os.urandom(8).hex()}"
        script = f"umask 077; mkdir -p {_FOLDER} && cat >{file}"
        done = self._connection.run(script, stdin=exports.encode(), timeout=_PREPARE_SECONDS)
        if done.exit_code:
            message = f"the VM takes no file: {done.stderr.decode(errors='replace').strip()}"
            raise VmError(message)
        return f". {file}; rm -f {file}; cd /workspace 2>/dev/null || cd /"
