"""Repositories that cannot be fetched, or whose hosts are not told of builds, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import Storage


def repository_errors(storage: Storage) -> dict[int, str]:
    """Return why the last look at a repository, or the last report to its host, failed, by row id."""
    errors = {
        origin.repository_id: f"the host is not told of builds: {origin.report_error}"
        for origin in storage.build_origins.unreported()
        if origin.repository_id is not None
    }
    return errors | {each.id: each.last_error for each in storage.repositories.all() if each.last_error}
