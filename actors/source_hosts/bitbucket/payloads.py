"""Deliveries of Bitbucket: pushes and pull requests. Pure."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from actors.source_hosts.host import FOUND_OPEN, HostEvent, PullRequest, PushedRef
from actors.source_hosts.payloads import AbbreviatedCommit, Commit, FullName, HeadRef, Login, Title, readable
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.source_hosts.payloads import AnyObject

_FOLDERS = {"branch": "heads", "tag": "tags", "annotated_tag": "tags"}
_ACTIONS = {
    "pullrequest:created": "opened",
    "pullrequest:updated": "synchronize",
    "pullrequest:fulfilled": "closed",
    "pullrequest:rejected": "closed",
}


class _Repository(JsonModel):
    uuid: Login
    full_name: FullName


class _Delivery(JsonModel):
    repository: _Repository


class _Actor(JsonModel):
    nickname: Login | None = None
    uuid: Login | None = None


class _Target(JsonModel):
    hash: Commit


class _Head(JsonModel):
    type: str
    name: str
    target: _Target


class _Change(JsonModel):
    old: _Head | None = None
    new: _Head | None = None


class _Changes(JsonModel):
    changes: list[_Change]


class _Push(JsonModel):
    push: _Changes
    actor: _Actor | None = None


class _Ref(JsonModel):
    """A full name, so that a branch's own is checked."""

    ref: HeadRef


class _Branch(JsonModel):
    name: str


class _ShortCommit(JsonModel):
    hash: AbbreviatedCommit


class _Side(JsonModel):
    branch: _Branch
    commit: _ShortCommit
    repository: _Repository | None = None


class _PullRequest(JsonModel):
    id: int = Field(gt=0)
    title: Title
    author: _Actor | None = None
    source: _Side
    destination: _Side


class _PullRequestDelivery(JsonModel):
    pullrequest: _PullRequest
    actor: _Actor | None = None
    repository: _Repository


def repository_uuid(body: bytes) -> str | None:
    """Return Bitbucket's id of the repository that a delivery says it is about."""
    try:
        return _Delivery.model_validate_json(body).repository.uuid
    except ValidationError:
        return None


def events(event: str, body: bytes, git_url: str) -> tuple[HostEvent, ...]:
    """Return what a delivery reports; nothing of what cannot be read.

    Args:
        event: the event's key, such as ``repo:push``.
        body: as it came.
        git_url: the address below which all repositories are.
    """
    try:
        if event == "repo:push":
            return tuple(_pushed(_Push.model_validate_json(body)))
        if event in _ACTIONS:
            return tuple(_pull_request(_PullRequestDelivery.model_validate_json(body), _ACTIONS[event], git_url))
    except ValidationError:
        pass
    return ()


def open_pull_requests(found: Iterable[AnyObject], uuid: str, full_name: str, git_url: str) -> list[PullRequest]:
    """Return the listed pull requests of a repository, but for unreadable ones."""
    repository = {"uuid": uuid, "full_name": full_name}
    deliveries = readable(
        _PullRequestDelivery, ({"pullrequest": each.root, "repository": repository} for each in found)
    )
    changes = []
    for each in deliveries:
        with suppress(ValidationError):  # its branch has a name that no ref may have
            changes += _pull_request(each, FOUND_OPEN, git_url)
    return changes


def _pushed(push: _Push) -> list[PushedRef]:
    """Return the heads that moved; those of other kinds than git's are left out."""
    found = []
    for change in push.push.changes:
        head = change.new or change.old
        if head is not None and (folder := _FOLDERS.get(head.type)):
            ref = _Ref(ref=f"refs/{folder}/{head.name}").ref
            old, new = (each.target.hash if each else None for each in (change.old, change.new))
            found.append(PushedRef(ref, old, new, push.actor.nickname if push.actor else None))
    return found


def _pull_request(delivery: _PullRequestDelivery, action: str, git_url: str) -> list[PullRequest]:
    """Return the pull request; none if the repository that it comes from is gone.

    Its author is named by Bitbucket's id, because a nickname is anybody's choice.
    """
    change = delivery.pullrequest
    source = change.source.repository
    if source is None:
        return []
    pull_request = PullRequest(
        number=change.id,
        action=action,
        title=change.title,
        head_commit=change.source.commit.hash,
        head_ref=_Ref(ref=f"refs/heads/{change.source.branch.name}").ref,
        url=f"{git_url}/{source.full_name}.git",
        branch=change.source.branch.name,
        target_branch=change.destination.branch.name,
        from_fork=source.uuid != delivery.repository.uuid,
        author=change.author.uuid if change.author else None,
        sender=delivery.actor.uuid if delivery.actor else None,
    )
    return [pull_request]
