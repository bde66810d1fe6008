"""Conversion of GitLab CI and GitHub Actions files: `ci-daemon convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.convert.github import convert_github
    from ci_daemon.convert.gitlab import convert_gitlab
    from ci_daemon.convert.located import NotReadable
    from ci_daemon.convert.omissions import Omission, Omissions
else:
    __getattr__ = on_first_use(__name__)

__all__ = ["NotReadable", "Omission", "Omissions", "convert_github", "convert_gitlab"]
