"""Command lines of the programs around VMs: run in isolation by this python, or by the broker."""

from __future__ import annotations

import os
import sys

from actors.vms.sandbox import broker

ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

BROKER_VARIABLE = "CI_DAEMON_STARTER"
"""The environment variable with the broker's socket; if it is set, the broker starts the programs.

Its name is older than the broker's, and stays for the drop-ins of installed units.
"""


def launcher_argv(program: str, *arguments: str) -> list[str]:
    """Return the argv that runs ``main`` or ``flatten`` of the launcher, or ``enter``.

    Only ``enter`` takes arguments. The programs run without site-packages and the service's own modules, so that they
    start in 7 ms rather than in a second.
    """
    if address := os.environ.get(BROKER_VARIABLE):
        return [sys.executable, "-I", "-S", broker.__file__, address, program, *arguments]
    return broker.argv_of(program, list(arguments))
