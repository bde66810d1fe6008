"""All connected repositories of an organization (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from storage import Repository, Storage

__all__ = ["RepoSummariesResource", "RepoSummaryRecord"]


class RepoRegistrationRecord(JsonModel):
    """A way by which a repository is connected: its host, and the account there."""

    provider: str
    account: str


class RepoSummaryRecord(StoredRecord):
    """A connected repository, whatever its host.

    ``last_synced_at`` is the last comparison with it, ``last_error`` why the last look at it failed.
    """

    id: Uuid
    full_name: str
    name: str
    owner: str
    clone_url: str
    default_branch: str | None
    private: bool
    last_synced_at: Timestamp | None
    last_error: str | None
    registrations: list[RepoRegistrationRecord]


class RepoSummaryListRecord(JsonModel):
    """The connected repositories, by full name."""

    data: list[RepoSummaryRecord]


class RepoSummariesResource:
    """``/api/v0/organizations/{org}/repos``."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._storage = storage
        self._access = access

    @operation(
        "listOrgRepos",
        Answer(200, "The repositories.", RepoSummaryListRecord),
        errors=("organization_not_found",),
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the repositories of the organization at all source hosts, each clone URL once."""
        member = self._access.member(req, org)
        found = self._storage.repositories.of_organization(member.organization.id)
        answer(resp, RepoSummaryListRecord(data=[self._summary(each) for each in found]))

    def _summary(self, repository: Repository) -> RepoSummaryRecord:
        connection = self._storage.host_connections.get(repository.connection_id or 0)
        owner, _, name = repository.repo_name.rpartition("/")
        return RepoSummaryRecord.showing(
            repository,
            id=repository.uuid,
            full_name=repository.repo_name,
            name=name,
            owner=owner,
            clone_url=repository.url,
            last_synced_at=repository.checked_at if connection is None else connection.synced_at,
            registrations=[
                RepoRegistrationRecord(
                    provider=repository.provider, account=owner if connection is None else connection.account
                )
            ],
        )
