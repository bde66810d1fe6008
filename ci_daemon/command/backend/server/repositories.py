"""Connected repositories of a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from api.operations import connected_repo, organizations, repo_summaries, repositories
from ci_daemon.command.backend.repositories import (
    HostedRepository,
    Repository,
    RepositoryChanges,
    RepositoryDetails,
    RepositoryHook,
    RepositoryKey,
    RepositoryPush,
)
from ci_daemon.command.support.session import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.remote.connection import Connection


class ServerRepositories:
    """Repositories by the API. Those on plain git servers are connected by the owner of the host alone."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, org: str | None) -> list[Repository]:
        """Return the repositories of an organization, or of all of the caller's."""
        orgs = [org] if org else [each.slug for each in self._connection.rows(organizations.list_organizations, {})]
        return [_listed(each, view) for each in orgs for view in self._summaries(each)]

    def show(self, org: str, url: str) -> tuple[RepositoryDetails, list[RepositoryPush]]:
        """Return a repository and its last pushes, newest first."""
        view = self._connection.perform(repositories.get_repo, self._names(org, url))
        return _details(org, view), [
            RepositoryPush(each.name, each.commit, each.outcome, list(each.builds), each.recorded_at)
            for each in view.pushes
        ]

    def connect(self, org: str, hosted: HostedRepository) -> RepositoryDetails:
        """Build what is pushed to a repository of a source host, and let that report pushes."""
        body = {key: value for key, value in asdict(hosted).items() if value is not None}
        made = self._connection.perform(repositories.connect_repo, {"org": org}, body)
        return _details(org, self._connection.perform(repositories.get_repo, {"org": org, "id": made.uuid}))

    def edit(self, org: str, url: str, changes: RepositoryChanges) -> RepositoryDetails:
        """Change what is packed of a repository. The rest is the owner's of the host."""
        if changes.poll_seconds is not None or changes.password is not None:
            raise Failure(
                "with a server only --submodules and --lfs can be changed: the owner of its host runs"
                " `ci-daemon repo edit` there with --poll, or with --user and --token-file"
            )
        body = {"submodules": changes.submodules, "lfs": changes.lfs}
        wanted = {key: value for key, value in body.items() if value is not None}
        return _details(org, self._connection.perform(repositories.update_repo, self._names(org, url), wanted))

    def remove(self, org: str, url: str) -> Repository:
        """Build no more pushes to a repository, and return it as it was."""
        found = self._find(org, url)
        self._connection.perform(repositories.disconnect_repo, {"org": org, "id": found.uuid})
        return _listed(org, found)

    def key(self, org: str, url: str) -> RepositoryKey:
        """Return the deploy key of a repository."""
        found = self._connection.perform(repositories.get_repo, self._names(org, url))
        if found.deploy_key is None or found.host_key_fingerprint is None:
            raise Failure(f"{url} has no deploy key: only repositories with an ssh URL have one")
        return RepositoryKey(found.uuid, found.deploy_key, found.host_key_fingerprint)

    def make_hook(self, org: str, url: str) -> RepositoryHook:
        """Make a hook that reports pushes to a repository on a plain git server."""
        names = self._names(org, url)
        return RepositoryHook(names["id"], self._connection.perform(connected_repo.make_repo_hook, names).script)

    def _summaries(self, org: str) -> Iterator[repo_summaries.RepoSummary]:
        return self._connection.rows(repo_summaries.list_org_repos, {"org": org})

    def _find(self, org: str, url: str) -> repo_summaries.RepoSummary:
        found = next((each for each in self._summaries(org) if each.clone_url == url), None)
        if found is None:
            raise Failure(f"{url} is not connected to {org}: `ci-daemon repo list` shows what is")
        return found

    def _names(self, org: str, url: str) -> dict[str, str]:
        return {"org": org, "id": self._find(org, url).uuid}


def _listed(org: str, view: repo_summaries.RepoSummary) -> Repository:
    return Repository(
        id=view.uuid,
        org=org,
        url=view.clone_url,
        provider=view.provider,
        repo_name=view.full_name,
        default_branch=view.default_branch,
        checked_at=view.last_synced_at,
        last_error=view.last_error,
    )


def _details(org: str, view: connected_repo.Repo) -> RepositoryDetails:
    return RepositoryDetails(
        id=view.uuid,
        org=org,
        url=view.clone_url,
        provider=view.provider,
        repo_name=view.full_name,
        default_branch=view.default_branch,
        checked_at=view.checked_at,
        last_error=view.last_error,
        poll_seconds=view.poll_seconds,
        submodules=view.submodules,
        lfs=view.lfs,
        next_check_at=view.next_check_at,
    )
