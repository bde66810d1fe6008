"""Install the service on a host, upgrade it, roll it back, and uninstall it.

A release is a virtual environment; the unit and the command follow one link, ``current``.
"""

from __future__ import annotations

from ci_daemon.install.first_owner import NewOwner
from ci_daemon.install.host import Host, InstallError
from ci_daemon.install.release import Release
from ci_daemon.install.steps import InstallStep, StepResult, missing_parts, plan, run_steps, steps
