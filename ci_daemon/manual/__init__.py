"""The manual page of the command, its reference, and its completion in shells, made from the help."""

from __future__ import annotations

from ci_daemon.manual.pages import CommandPage, pages
from ci_daemon.manual.shells import SHELLS, completion_script
