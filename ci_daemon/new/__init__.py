"""First pipelines of projects: `ci-daemon new`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.new.detecting import Found, detect, first_pipeline
    from ci_daemon.new.project import Project
else:
    __getattr__ = on_first_use(__name__)
