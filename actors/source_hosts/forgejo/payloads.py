"""Deliveries of Forgejo and Gitea: pushes and pull requests. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from actors.source_hosts.host import FOUND_OPEN, RETARGETED, HostEvent, PullRequest, PushedRef
from actors.source_hosts.payload_types import Commit, HeadRef, Login, Title, moved, readable
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.source_hosts.payload_types import AnyObject

_AGIT = 1
_ACTIONS = {"synchronized": "synchronize"}


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
