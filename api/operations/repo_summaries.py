"""All connected repositories of an organization (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Annotated, Self

from api.operations.operation import GET, Call, operation
from api.operations.things import REPOSITORIES, ThisMembership
from storage import Repository, Storage, immutable


@immutable
class RepoRegistration:
    """A way by which a repository is connected: its host, and the account there."""

    provider: str
    account: str


@immutable
class RepoSummary:
    """A connected repository, whatever its host.

    ``last_synced_at`` is the last comparison with it, ``last_error`` why the last look at it failed.
    """

    uuid: str
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    last_synced_at: datetime | None
    last_error: str | None
    registrations: tuple[RepoRegistration, ...]

    @property
    def provider(self) -> str:
        """The kinds of its hosts."""
        return ", ".join(each.provider for each in self.registrations)

    @classmethod
    def of(cls, storage: Storage, repository: Repository) -> Self:
        """Return the record of a stored repository."""
        connection = storage.host_connections.get(repository.connection_id or 0)
        owner, _, name = repository.repo_name.rpartition("/")
        account = owner if connection is None else connection.account
        return cls(
            uuid=repository.uuid,
            full_name=repository.repo_name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            default_branch=repository.default_branch,
            private=repository.private,
            last_synced_at=repository.checked_at if connection is None else connection.synced_at,
            last_error=repository.last_error,
            registrations=(RepoRegistration(repository.provider, account),),
        )


RepoSummaryList = Annotated[list[RepoSummary], "The connected repositories, by full name."]


@operation("listOrgRepos", GET, REPOSITORIES, "The repositories.")
def list_org_repos(call: Call, member: ThisMembership) -> RepoSummaryList:
    """List the repositories of the organization at all source hosts, each clone URL once."""
    found = call.storage.repositories.of_organization(member.organization.id)
    return [RepoSummary.of(call.storage, each) for each in found]
