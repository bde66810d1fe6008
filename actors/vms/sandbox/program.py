"""Command lines of the programs around VMs: run in isolation by this python, or by the starter."""

from __future__ import annotations

import os
import sys

from actors.vms.sandbox import starter

__all__ = ["ENVIRONMENT", "STARTER", "command"]

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

STARTER = "CI_DAEMON_STARTER"
"""The environment variable with the socket of ``starter.py``, which starts the programs if it is set."""


def command(program: str, *arguments: str) -> list[str]:
    """Return the argv that runs ``main``, ``flatten`` or ``unlinked`` of the launcher, or ``enter``.

    Only ``enter`` takes arguments. The programs run without site-packages and the service's own modules, so that they
    start in 7 ms rather than in a second.
    """
    if address := os.environ.get(STARTER):
        return [sys.executable, "-I", "-S", starter.__file__, address, program, *arguments]
    return starter.argv_of(program, list(arguments))
