"""How the programs around VMs are run: by this process's python, in isolation, or by a process that may do more."""

from __future__ import annotations

import os
import sys

from actors.vms.sandbox import starter

__all__ = ["ENVIRONMENT", "STARTER", "command"]

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

STARTER = "CI_DAEMON_STARTER"
"""The environment variable with the socket of ``starter.py``, by whom programs are started where it is set."""


def command(program: str, *arguments: str) -> list[str]:
    """Return the argv that runs ``main``, ``flatten`` or ``unlinked`` of the launcher, or ``enter`` with its arguments.

    They run without site-packages or the service's own modules around them: that is what makes them start in 7 ms
    rather than in a second.
    """
    if address := os.environ.get(STARTER):
        return [sys.executable, "-I", "-S", starter.__file__, address, program, *arguments]
    return starter.argv_of(program, list(arguments))
