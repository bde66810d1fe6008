"""Deliveries of GitLab: pushes and merge requests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from actors.source_hosts.host import FOUND_OPEN, RETARGETED, HostEvent, PullRequest, PushedRef
from actors.source_hosts.payload_types import Commit, HeadRef, Login, Title, moved, readable
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.source_hosts.payload_types import AnyObject

_ACTIONS = {"open": "opened", "reopen": "reopened", "close": "closed", "merge": "closed"}


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
