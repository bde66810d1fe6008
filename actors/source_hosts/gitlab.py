"""GitLab: its API, and its deliveries of pushes and merge requests."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
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


_ACTIONS = {"open": "opened", "reopen": "reopened", "close": "closed", "merge": "closed"}
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


class _Project(JsonModel):
    id: int


class _Delivery(JsonModel):
    project: _Project


class _Push(JsonModel):
    ref: HeadRef
    before: Commit
    after: Commit
    user_username: Login | None = None


class _User(JsonModel):
    id: int | None = None
    username: Login


class _LastCommit(JsonModel):
    id: Commit


class _Attributes(JsonModel):
    iid: int = Field(gt=0)
    action: str = ""
    title: Title
    author_id: int | None = None
    source_branch: str
    target_branch: str
    source_project_id: int | None = None
    target_project_id: int
    last_commit: _LastCommit
    oldrev: str | None = None


class _Changes(JsonModel):
    target_branch: object = None


class _MergeRequestDelivery(JsonModel):
    user: _User | None = None
    changes: _Changes | None = None
    object_attributes: _Attributes


class _OpenMergeRequest(JsonModel):
    """A merge request of a list, which has other names than one of a delivery."""

    iid: int = Field(gt=0)
    title: Title
    sha: Commit
    author: _User | None = None
    source_branch: str
    target_branch: str
    source_project_id: int | None = None
    target_project_id: int
    labels: object = None


def project_id(body: bytes) -> str | None:
    """Return the id of the project that a delivery says it is about."""
    try:
        return str(_Delivery.model_validate_json(body).project.id)
    except ValidationError:
        return None


def events(event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
    """Return what a delivery of the project at a clone URL reports; nothing of what cannot be read."""
    try:
        match event:
            case "Push Hook" | "Tag Push Hook":
                push = _Push.model_validate_json(body)
                return (PushedRef(push.ref, *moved(push.before, push.after), push.user_username),)
            case "Merge Request Hook":
                return (_merge_request(_MergeRequestDelivery.model_validate_json(body), url),)
            case _:
                return ()
    except ValidationError:
        return ()


def open_merge_requests(found: Iterable[AnyObject], url: str) -> list[PullRequest]:
    """Return the listed merge requests of the project at a clone URL, but for unreadable ones."""
    return [
        PullRequest(
            number=each.iid,
            action=FOUND_OPEN,
            title=each.title,
            head_commit=each.sha,
            head_ref=f"refs/merge-requests/{each.iid}/head",
            url=url,
            branch=each.source_branch,
            target_branch=each.target_branch,
            from_fork=each.source_project_id != each.target_project_id,
            author=each.author.username if each.author else None,
            labels=label_names(each.labels),
        )
        for each in readable(_OpenMergeRequest, (each.root for each in found))
    ]


def _merge_request(delivery: _MergeRequestDelivery, url: str) -> PullRequest:
    change = delivery.object_attributes
    return PullRequest(
        number=change.iid,
        action=_action(change, delivery.changes),
        title=change.title,
        head_commit=change.last_commit.id,
        head_ref=f"refs/merge-requests/{change.iid}/head",
        url=url,
        branch=change.source_branch,
        target_branch=change.target_branch,
        from_fork=change.source_project_id != change.target_project_id,
        author=_author(delivery),
        sender=delivery.user.username if delivery.user else None,
    )


def _action(change: _Attributes, changes: _Changes | None) -> str:
    """Return an action in the words of the triggers; an update without an old commit changed no code."""
    if change.action == "update" and change.oldrev is not None:
        return "synchronize"
    if change.action == "update" and changes is not None and changes.target_branch is not None:
        return RETARGETED
    return _ACTIONS.get(change.action, change.action)


def _author(delivery: _MergeRequestDelivery) -> str | None:
    """Return the author's login; None if somebody else caused the delivery, as only that one is named."""
    user, author_id = delivery.user, delivery.object_attributes.author_id
    return user.username if user is not None and user.id is not None and user.id == author_id else None


class _Version(JsonModel):
    version: str


class _Account(JsonModel):
    username: str


class _Access(JsonModel):
    access_level: int


class _Permissions(JsonModel):
    project_access: _Access | None = None
    group_access: _Access | None = None


class _ProjectSettings(JsonModel):
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
        return api.get("/api/v4/user", _Account).username

    def describe(self, api: HostApi, path: str) -> RepositoryAtForge:
        """Return the project at a path. Raises HostError."""
        found = api.get(f"/api/v4/projects/{quote(path, safe='')}", _ProjectSettings)
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

    def open_pull_requests(
        self, api: HostApi, remote: RepositoryAtForge, url: str, number: int | None
    ) -> list[PullRequest]:
        """Return the open merge requests that changed last, or that of a number. Raises HostError."""
        path, order = f"{_project(remote)}/merge_requests", {"order_by": "updated_at", "sort": "desc"}
        if number is not None:
            return open_merge_requests(if_open(api.find(f"{path}/{number}", AnyObject), "opened"), url)
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
