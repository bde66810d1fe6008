"""Builds on this machine without a service: `ci-daemon run`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.local.building import BuildRefused, LocalRun
    from ci_daemon.local.changes import TreeChanges
    from ci_daemon.local.cleaning import clean_up
    from ci_daemon.local.folders import CacheUnusable, LocalFolders
    from ci_daemon.local.interrupts import BuildInterrupts
    from ci_daemon.local.reading import LocalBuild
    from ci_daemon.local.rendering import RenderedTree, read_files, render_tree
    from ci_daemon.local.request import Request
    from ci_daemon.local.requirements import HostUnfit, check_host, make_images
    from ci_daemon.local.selection import UnknownStep, select_steps, step_named, without_deployments
    from ci_daemon.local.service import ORGANIZATION, LocalService, local_config, local_service
else:
    __getattr__ = on_first_use(__name__)
