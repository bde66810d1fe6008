"""The API of Forgejo and Gitea (https://codeberg.org/api/swagger)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from actors.source_hosts.api_client import HostRefused
from actors.source_hosts.delivery_headers import required
from actors.source_hosts.forge import RepositoryAtForge
from actors.source_hosts.forgejo.payloads import events, open_pull_requests, repository_id
from actors.source_hosts.host import MOST_OPEN, ReportState
from actors.source_hosts.payload_types import AnyObject
from actors.source_hosts.webhook_secrets import Claim, is_signed
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.api_client import HostApi
    from actors.source_hosts.commit_status import CommitStatus
    from actors.source_hosts.host import HostEvent, PullRequest

_VERSIONS = {"forgejo": "/api/forgejo/v1/version", "gitea": "/api/v1/version"}
_EVENTS = ["push", "delete", "pull_request", "pull_request_sync"]
_STATES = {
    ReportState.WAITING: "pending",
    ReportState.RUNNING: "pending",
    ReportState.PASSED: "success",
    ReportState.FAILED: "failure",
    ReportState.CANCELED: "error",
}
_MAY_PUSH = {"write", "admin", "owner"}
_NOT_FOUND = 404
_PAGE = 50
_MOST_PAGES = 20


class _Version(JsonModel):
    version: str


class _User(JsonModel):
    login: str


class _Permissions(JsonModel):
    admin: bool


class _Repository(JsonModel):
    id: int
    full_name: str
    default_branch: str = ""
    private: bool
    permissions: _Permissions | None = None


class _HookConfig(JsonModel):
    url: str = ""


class _Hook(JsonModel):
    id: int
    config: _HookConfig


class _Permission(JsonModel):
    permission: str


class Forgejo:
    """The `Forge` of Forgejo and of Gitea, which differ in a few names."""

    def __init__(self, provider: Literal["forgejo", "gitea"]) -> None:
        self.provider: str = provider

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the header that brings a token."""
        return {"Authorization": f"token {token}"}

    def answers(self, api: HostApi) -> bool:
        """Tell whether the server has the version of this kind; Forgejo has that of Gitea, too."""
        try:
            api.get(_VERSIONS[self.provider], _Version)
        except HostRefused:
            return False
        return True

    def account(self, api: HostApi) -> str:
        """Return the login of the token's user. Raises HostError."""
        return api.get("/api/v1/user", _User).login

    def describe(self, api: HostApi, path: str) -> RepositoryAtForge:
        """Return the repository at a path. Raises HostError."""
        found = api.get(f"/api/v1/repos/{quote(path)}", _Repository)
        admin = found.permissions is not None and found.permissions.admin
        branch = found.default_branch or None
        return RepositoryAtForge(str(found.id), found.full_name, branch, found.private, may_administer=admin)

    def add_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str, secret: str) -> None:
        """Let a repository report to a URL. Raises HostError."""
        config = {"url": url, "content_type": "json", "secret": secret}
        hook = {"type": self.provider, "active": True, "events": _EVENTS, "config": config}
        api.post(f"{_hooks(remote)}", hook)

    def remove_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str) -> None:
        """Remove the webhooks with a URL. Raises HostError."""
        for page in range(1, _MOST_PAGES + 1):
            found = api.get_list(_hooks(remote), _Hook, page=page, limit=_PAGE)
            for hook in found:
                if hook.config.url == url:
                    api.delete(f"{_hooks(remote)}/{hook.id}")
            if len(found) < _PAGE:
                return

    def trusts(self, api: HostApi, remote: RepositoryAtForge, login: str) -> bool:
        """Tell whether somebody may push. Raises HostError."""
        who = f"/api/v1/repos/{quote(remote.path)}/collaborators/{quote(login, safe='')}/permission"
        try:
            return api.get(who, _Permission).permission in _MAY_PUSH
        except HostRefused as error:
            if error.status == _NOT_FOUND:
                return False
            raise

    def open_pull_requests(self, api: HostApi, remote: RepositoryAtForge, url: str) -> list[PullRequest]:
        """Return the open pull requests that changed last. Raises HostError."""
        path = f"/api/v1/repos/{quote(remote.path)}/pulls"
        return open_pull_requests(
            api.get_list(path, AnyObject, state="open", sort="recentupdate", page=1, limit=MOST_OPEN), url
        )

    def set_status(self, api: HostApi, remote: RepositoryAtForge, status: CommitStatus) -> None:
        """Show a status at a commit. Raises HostError."""
        api.post(
            f"/api/v1/repos/{quote(remote.path)}/statuses/{status.commit}",
            {
                "state": _STATES[status.state],
                "context": status.context,
                "description": status.description,
                "target_url": status.url,
            },
        )

    def claim(self, headers: Mapping[str, str], body: bytes) -> Claim:
        """Read the event and the repository. Raises DeliveryInvalid."""
        name = self.provider.capitalize()
        event = required(headers, f"X-{name}-Event", "X-Gitea-Event")
        return Claim(event, required(headers, f"X-{name}-Delivery", "X-Gitea-Delivery"), repository_id(body))

    def proves(self, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
        """Check `X-Hub-Signature-256`."""
        return is_signed(headers.get("X-HUB-SIGNATURE-256", ""), secret, body)

    def events(self, event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
        """Return the push or pull request of a delivery."""
        return events(event, body, url)


def _hooks(remote: RepositoryAtForge) -> str:
    return f"/api/v1/repos/{quote(remote.path)}/hooks"
