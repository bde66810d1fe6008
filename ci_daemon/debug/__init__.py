"""Shells in VMs for the owner of the host: in that of a job or of a fork, and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.debug.fork_shell import ForkShell
    from ci_daemon.debug.shell import Shell, open_shell
else:
    __getattr__ = on_first_use(__name__)
