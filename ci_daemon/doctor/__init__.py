"""`ci-daemon doctor`: checks of the machine, each a sentence and the command that fixes a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.doctor.check import Check
    from ci_daemon.doctor.checks import run_checks
    from ci_daemon.doctor.fixing import FixResult, apply_fixes, fix_commands
    from ci_daemon.doctor.host import needed_by_vms
    from ci_daemon.doctor.state import default_image, state_directory
else:
    __getattr__ = on_first_use(__name__)
