"""The service's current work and queue, read from its rows and files, whether it runs or not."""

from __future__ import annotations

from ci_daemon.overview.waiting import WaitingJob, waiting
from ci_daemon.overview.work import Work, work

__all__ = ["WaitingJob", "Work", "waiting", "work"]
