"""Approvals that people give at the source host of a repository."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from storage import ApprovalNotAwaited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.repositories.commit_builds import CommitBuilds
    from actors.source_hosts.host import ApprovalGiven, SourceHost
    from storage import Repository, Storage

_log = logging.getLogger(__name__)


class HostApprovals:
    """Approves builds in the name of people at their host who may push to the repository."""

    def __init__(self, *, storage: Storage, commits: CommitBuilds, hosts: Mapping[str, SourceHost]) -> None:
        self._storage = storage
        self._commits = commits
        self._hosts = hosts

    def give(self, repository: Repository, approval: ApprovalGiven) -> None:
        """Approve the build of a report, if it waits for that. It blocks. Raises HostError."""
        origin = self._storage.build_origins.by_report(repository.id, approval.report_id)
        build = None if origin is None else self._storage.builds.get(origin.build_id)
        if build is None or approval.actor is None:
            return
        if not self._hosts[repository.provider].trusts(repository, approval.actor):
            _log.warning("%s approves build %s, but may not push to %s", approval.actor, build.name, repository.url)
            return
        by = f"{approval.actor} at {repository.provider}"
        try:
            with self._storage.transaction():
                self._storage.approvals.approve(build.id, by)
                self._storage.audit.write(
                    by, "approveBuild", build.name, repository.url, organization=build.organization_slug
                )
        except ApprovalNotAwaited as error:
            _log.info("build %s cannot be approved by %s: %s", build.name, by, error)
        else:
            self._commits.announce([build.id])
