"""The API of GitLab (https://docs.gitlab.com/api/rest/)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import quote

from actors.source_hosts.api_client import HostRefused
from actors.source_hosts.delivery_headers import required
from actors.source_hosts.forge import RepositoryAtForge
from actors.source_hosts.gitlab.payloads import events, open_merge_requests, project_id
from actors.source_hosts.host import MOST_OPEN, ReportState
from actors.source_hosts.payload_types import AnyObject
from actors.source_hosts.webhook_secrets import Claim
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.api_client import HostApi
    from actors.source_hosts.commit_status import CommitStatus
    from actors.source_hosts.host import HostEvent, PullRequest

_STATES = {
    ReportState.WAITING: "pending",
    ReportState.RUNNING: "running",
    ReportState.PASSED: "success",
    ReportState.FAILED: "failed",
    ReportState.CANCELED: "canceled",
}
_DEVELOPER, _MAINTAINER = 30, 40
_BAD_REQUEST, _UNAUTHORIZED = 400, 401
_PAGE = 100
_MOST_PAGES = 20


class _Version(JsonModel):
    version: str


class _User(JsonModel):
    username: str


class _Access(JsonModel):
    access_level: int


class _Permissions(JsonModel):
    project_access: _Access | None = None
    group_access: _Access | None = None


class _Project(JsonModel):
    id: int
    path_with_namespace: str
    default_branch: str | None = None
    visibility: str = "private"
    permissions: _Permissions | None = None


class _Hook(JsonModel):
    id: int
    url: str


class _Member(JsonModel):
    username: str
    access_level: int
    state: str = "active"


class GitLab:
    """The `Forge` of GitLab."""

    provider = "gitlab"

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the header that brings a token: of a person, a group or a project."""
        return {"PRIVATE-TOKEN": token}

    def answers(self, api: HostApi) -> bool:
        """Tell whether GitLab is there. It tells its version only to its users, and refuses others."""
        try:
            api.get("/api/v4/version", _Version)
        except HostRefused as error:
            return error.status == _UNAUTHORIZED
        return True

    def account(self, api: HostApi) -> str:
        """Return the login of the token's user. Raises HostError."""
        return api.get("/api/v4/user", _User).username

    def describe(self, api: HostApi, path: str) -> RepositoryAtForge:
        """Return the project at a path. Raises HostError."""
        found = api.get(f"/api/v4/projects/{quote(path, safe='')}", _Project)
        roles = found.permissions or _Permissions()
        levels = [each.access_level for each in (roles.project_access, roles.group_access) if each]
        return RepositoryAtForge(
            str(found.id),
            found.path_with_namespace,
            found.default_branch,
            private=found.visibility != "public",
            may_administer=max(levels, default=0) >= _MAINTAINER,
        )

    def add_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str, secret: str) -> None:
        """Let a project report to a URL. Raises HostError."""
        of_events = {"push_events": True, "tag_push_events": True, "merge_requests_events": True}
        api.post(_hooks(remote), {"url": url, "token": secret, "enable_ssl_verification": True, **of_events})

    def remove_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str) -> None:
        """Remove the webhooks with a URL. Raises HostError."""
        for page in range(1, _MOST_PAGES + 1):
            found = api.get_list(_hooks(remote), _Hook, page=page, per_page=_PAGE)
            for hook in found:
                if hook.url == url:
                    api.delete(f"{_hooks(remote)}/{hook.id}")
            if len(found) < _PAGE:
                return

    def trusts(self, api: HostApi, remote: RepositoryAtForge, login: str) -> bool:
        """Tell whether somebody is a member who may push, by the project or its groups. Raises HostError."""
        members = f"{_project(remote)}/members/all"
        return any(
            each.username == login and each.access_level >= _DEVELOPER and each.state == "active"
            for each in api.get_list(members, _Member, query=login, per_page=_PAGE)
        )

    def open_pull_requests(self, api: HostApi, remote: RepositoryAtForge, url: str) -> list[PullRequest]:
        """Return the open merge requests that changed last. Raises HostError."""
        path, order = f"{_project(remote)}/merge_requests", {"order_by": "updated_at", "sort": "desc"}
        return open_merge_requests(
            api.get_list(path, AnyObject, state="opened", **order, page=1, per_page=MOST_OPEN), url
        )

    def set_status(self, api: HostApi, remote: RepositoryAtForge, status: CommitStatus) -> None:
        """Show a status at a commit. Raises HostError."""
        told = {
            "state": _STATES[status.state],
            "name": status.context,
            "description": status.description,
            "target_url": status.url,
        }
        try:
            api.post(f"{_project(remote)}/statuses/{status.commit}", told)
        except HostRefused as error:
            # The state is told already: earlier releases of GitLab refuse one that comes again.
            if error.status != _BAD_REQUEST or "Cannot transition status" not in error.detail:
                raise

    def claim(self, headers: Mapping[str, str], body: bytes) -> Claim:
        """Read the event and the project; the key is that of the first attempt. Raises DeliveryInvalid."""
        event = required(headers, "X-Gitlab-Event")
        return Claim(event, required(headers, "Idempotency-Key", "X-Gitlab-Event-UUID"), project_id(body))

    def proves(self, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
        """Compare `X-Gitlab-Token`, which is the secret itself, in constant time."""
        return hmac.compare_digest(headers.get("X-GITLAB-TOKEN", "").encode("latin-1", "replace"), secret.encode())

    def events(self, event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
        """Return the push or merge request of a delivery."""
        return events(event, body, url)


def _project(remote: RepositoryAtForge) -> str:
    return f"/api/v4/projects/{remote.remote_id}"


def _hooks(remote: RepositoryAtForge) -> str:
    return f"{_project(remote)}/hooks"
