"""`ci-daemon doctor`: checks of the machine, each a sentence and the command that mends a failure."""

from __future__ import annotations

from ci_daemon.doctor.check import Check
from ci_daemon.doctor.examination import examine
from ci_daemon.doctor.mending import Mended, commands, mend

__all__ = ["Check", "Mended", "commands", "examine", "mend"]
