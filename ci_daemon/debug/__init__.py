"""A shell in a job's VM for the owner of the host: the shell, and the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.debug.shell import Shell, open_shell
    from ci_daemon.debug.terminal import has_terminal
else:
    __getattr__ = on_first_use(__name__)
