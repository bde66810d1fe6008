"""Forges: source hosts whose repositories are connected one by one, by a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.api_client import HostApi
    from actors.source_hosts.commit_status import CommitStatus
    from actors.source_hosts.host import HostEvent, PullRequest
    from actors.source_hosts.webhook_secrets import Claim


@immutable
class RepositoryAtForge:
    """A repository as its forge describes it; ``path`` is that of its page, such as ``owner/repo``.

    ``may_administer`` if the token may make webhooks there.
    """

    remote_id: str
    path: str
    default_branch: str | None
    private: bool
    may_administer: bool


class Forge(Protocol):
    """One kind of forge. Each method with an ``api`` blocks and raises HostError. Safe in any thread."""

    provider: str

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the headers that bring a token."""

    def answers(self, api: HostApi) -> bool:
        """Tell whether a forge of this kind is at the root of the API."""

    def account(self, api: HostApi) -> str:
        """Return the login of the token's user."""

    def describe(self, api: HostApi, path: str) -> RepositoryAtForge:
        """Return the repository at a path."""

    def add_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str, secret: str) -> None:
        """Let a repository report pushes and pull requests to a URL."""

    def remove_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str) -> None:
        """Remove the webhooks of a repository with this URL, if there are any."""

    def trusts(self, api: HostApi, remote: RepositoryAtForge, login: str) -> bool:
        """Tell whether somebody may push to a repository."""

    def open_pull_requests(self, api: HostApi, remote: RepositoryAtForge, url: str) -> list[PullRequest]:
        """Return the open pull requests of the repository at a clone URL, as `SourceHost` does."""

    def set_status(self, api: HostApi, remote: RepositoryAtForge, status: CommitStatus) -> None:
        """Show a status at a commit; again is no error."""

    def claim(self, headers: Mapping[str, str], body: bytes) -> Claim:
        """Read the claim of a delivery. Raises DeliveryInvalid. Pure."""

    def proves(self, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
        """Tell whether a delivery comes from who knows the secret. Pure."""

    def events(self, event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
        """Return what a delivery of the repository at a clone URL reports. Pure."""
