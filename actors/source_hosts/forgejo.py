"""Forgejo and Gitea: their API, and their deliveries of pushes and pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from pydantic import Field, ValidationError

from actors.source_hosts.api_client import HostRefused
from actors.source_hosts.forge_host import RepositoryAtForge
from actors.source_hosts.host import FOUND_OPEN, MOST_OPEN, RETARGETED, HostEvent, PullRequest, PushedRef, ReportState
from actors.source_hosts.payloads import (
    AnyObject,
    Claim,
    Commit,
    HeadRef,
    Login,
    Title,
    if_open,
    is_signed,
    label_names,
    moved,
    readable,
    required,
)
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.source_hosts.api_client import HostApi
    from actors.source_hosts.forge_host import CommitStatus


_AGIT = 1
_ACTIONS = {"synchronized": "synchronize"}
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
_PAGE = 50
_MOST_PAGES = 20


class _Account(JsonModel):
    login: Login


class _Repository(JsonModel):
    id: int


class _Delivery(JsonModel):
    repository: _Repository


class _Push(JsonModel):
    ref: HeadRef
    before: Commit
    after: Commit
    pusher: _Account | None = None


class _Head(JsonModel):
    ref: str
    sha: Commit
    label: str = ""
    repo: _Repository | None = None


class _Base(JsonModel):
    ref: str
    repo: _Repository


class _PullRequest(JsonModel):
    number: int = Field(gt=0)
    title: Title
    user: _Account | None = None
    head: _Head
    base: _Base
    flow: int = 0
    labels: object = None


class _Changes(JsonModel):
    ref: object = None
    """The previous target branch, at `from`."""


class _PullRequestDelivery(JsonModel):
    action: str
    changes: _Changes | None = None
    pull_request: _PullRequest
    sender: _Account | None = None


def repository_id(body: bytes) -> str | None:
    """Return the forge's id of the repository that a delivery says it is about."""
    try:
        return str(_Delivery.model_validate_json(body).repository.id)
    except ValidationError:
        return None


def events(event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
    """Return what a delivery of the repository at a clone URL reports; nothing of what cannot be read."""
    try:
        match event:
            case "push":
                push = _Push.model_validate_json(body)
                actor = push.pusher.login if push.pusher else None
                return (PushedRef(push.ref, *moved(push.before, push.after), actor),)
            case "pull_request":
                return (_pull_request(_PullRequestDelivery.model_validate_json(body), url),)
            case _:
                return ()
    except ValidationError:
        return ()


def open_pull_requests(found: Iterable[AnyObject], url: str) -> list[PullRequest]:
    """Return the listed pull requests of the repository at a clone URL, but for unreadable ones."""
    deliveries = ({"action": FOUND_OPEN, "pull_request": each.root} for each in found)
    return [_pull_request(each, url) for each in readable(_PullRequestDelivery, deliveries)]


def _pull_request(delivery: _PullRequestDelivery, url: str) -> PullRequest:
    change = delivery.pull_request
    return PullRequest(
        number=change.number,
        action=_action(delivery),
        title=change.title,
        head_commit=change.head.sha,
        head_ref=f"refs/pull/{change.number}/head",
        url=url,
        branch=change.head.label or change.head.ref,
        target_branch=change.base.ref,
        from_fork=_from_fork(change),
        author=change.user.login if change.user else None,
        sender=delivery.sender.login if delivery.sender else None,
        labels=label_names(change.labels),
    )


def _action(delivery: _PullRequestDelivery) -> str:
    if delivery.action == "edited" and delivery.changes is not None and delivery.changes.ref is not None:
        return RETARGETED
    return _ACTIONS.get(delivery.action, delivery.action)


def _from_fork(change: _PullRequest) -> bool:
    """Tell whether this could come from somebody who may only read the repository.

    One of the AGit flow needs no fork: it names the repository itself as the head's, and a ref that is no branch.
    """
    head = change.head
    return head.repo is None or head.repo.id != change.base.repo.id or change.flow == _AGIT or "refs/" in head.ref


class _Version(JsonModel):
    version: str


class _User(JsonModel):
    login: str


class _Permissions(JsonModel):
    admin: bool


class _RepositorySettings(JsonModel):
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
        found = api.get(f"/api/v1/repos/{quote(path)}", _RepositorySettings)
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
        found = api.find(who, _Permission)
        return found is not None and found.permission in _MAY_PUSH

    def open_pull_requests(
        self, api: HostApi, remote: RepositoryAtForge, url: str, number: int | None
    ) -> list[PullRequest]:
        """Return the open pull requests that changed last, or that of a number. Raises HostError."""
        path = f"/api/v1/repos/{quote(remote.path)}/pulls"
        if number is not None:
            return open_pull_requests(if_open(api.find(f"{path}/{number}", AnyObject), "open"), url)
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
