"""Install the service on a host, upgrade it, roll it back, and uninstall it.

A release is a virtual environment; the unit and the command follow one link, ``current``.
"""

from __future__ import annotations

from ci_daemon.install.host import Host, InstallError
from ci_daemon.install.release import Release
from ci_daemon.install.steps import Done, Step, carry_out, outlook, steps
from ci_daemon.install.welcome import Newcomer

__all__ = ["Done", "Host", "InstallError", "Newcomer", "Release", "Step", "carry_out", "outlook", "steps"]
