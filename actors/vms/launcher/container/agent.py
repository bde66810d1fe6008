"""The engine's agent in an instance with a kernel of its own.

It runs the service's programs there, as the engine itself does in a container.
"""

from __future__ import annotations

import os
import time

from ..kernel import mount
from .words import AGENT

_SHARE, _PROGRAM = "config", "incus-agent"
"""The file system by which the engine brings the agent with its keys, and the agent's name there."""

_OFF_SECONDS = 10.0


def start() -> None:
    """Start the agent; it ends with the instance. Raises OSError."""
    os.mkdir(AGENT, 0o700)
    mount(_SHARE, AGENT, "9p", data="trans=virtio")
    if os.fork() == 0:
        try:
            os.chdir(AGENT)
            os.execv(f"./{_PROGRAM}", [_PROGRAM])  # noqa: S606 - the engine's own
        finally:
            os._exit(127)


def turn_off() -> None:
    """Turn the instance off: the engine would start again one whose kernel panics without its PID 1."""
    with open("/proc/sysrq-trigger", "wb", buffering=0) as file:
        file.write(b"o")
    time.sleep(_OFF_SECONDS)
