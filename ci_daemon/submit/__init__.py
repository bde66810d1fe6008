"""The client behind `ci-daemon submit`: pack a tree, post a build, follow it to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.submit.build_reader import BuildReader, BuildRecords, ServedBuild
    from ci_daemon.submit.client import Client
    from ci_daemon.submit.declared import SeveralPipelines, declared_lines, default_slug, folder_slug, select_declared
    from ci_daemon.submit.events import FollowStarted, LogLine
    from ci_daemon.submit.follow import Follower
    from ci_daemon.submit.log_reader import LineSplitter
    from ci_daemon.submit.packing import Archive, PackError, pack
    from ci_daemon.submit.revision import GitRevision, git_revision
    from ci_daemon.submit.screen import Screen
    from ci_daemon.submit.shallow_git import git_folder
    from ci_daemon.submit.summary import JobCost, Summary, summarize
else:
    __getattr__ = on_first_use(__name__)
