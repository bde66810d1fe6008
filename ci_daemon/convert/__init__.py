"""Conversion of GitLab CI files, and of workflows of GitHub, Forgejo and Gitea.

Three parts know nothing of each other's work: reading (`sources`, `kinds`, `located`), meaning (`github`, `gitlab`,
which make the model of `ci_daemon.draft` and notes), and writing (`ci_daemon.draft`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.convert.conversion import converted
    from ci_daemon.convert.github import convert_github
    from ci_daemon.convert.gitlab import convert_gitlab
    from ci_daemon.convert.located import NotReadable
    from ci_daemon.convert.omissions import Omission, Omissions
    from ci_daemon.convert.sources import Project
else:
    __getattr__ = on_first_use(__name__)
