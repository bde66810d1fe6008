"""`ci-daemon doctor`: what a machine lacks, in one sentence each, with the command that mends it."""

from __future__ import annotations

from ci_daemon.doctor.check import Check
from ci_daemon.doctor.examination import examine
from ci_daemon.doctor.mending import Mended, commands, mend

__all__ = ["Check", "Mended", "commands", "examine", "mend"]
