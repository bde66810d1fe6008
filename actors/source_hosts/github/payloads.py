"""The parts of GitHub's deliveries that matter here. Pure."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from actors.source_hosts.host import FOUND_OPEN, RETARGETED, ApprovalGiven, PullRequest, PushedRef, RerunAsked
from actors.source_hosts.payloads import AnyObject, label_names, readable
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.source_hosts.host import HostEvent

APPROVE = "approve"
"""The identifier of the button of a check run that approves its build."""

_MEMBERS = {"OWNER", "MEMBER", "COLLABORATOR"}
_RERUN = "rerequested"
_BUTTON = "requested_action"

Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Ref = Annotated[str, Field(pattern=r"^refs/(heads|tags)/\S+$")]


class Account(JsonModel):
    """A person or organization at GitHub."""

    login: str


class _Id(JsonModel):
    id: int


class _Named(_Id):
    full_name: str = ""


class Payload(JsonModel):
    """The installation and the repository of a delivery."""

    action: str = ""
    repository: _Named | None = None
    installation: _Id | None = None

    def names_other_than(self, repo_name: str) -> bool:
        """Tell whether the repository has another name by now than this."""
        return self.repository is not None and self.repository.full_name not in {"", repo_name}

    def is_of_repository(self, event: str) -> bool:
        """True if the delivery reports something to build.

        GitHub also reports the check runs that this service makes; these are no reason to look at a repository.
        """
        asked = event in {"check_run", "check_suite"} and self.action in {_RERUN, _BUTTON}
        return event in {"push", "pull_request"} or asked


class _Push(JsonModel):
    ref: Ref
    before: Commit
    after: Commit
    sender: Account | None = None


class _Repository(_Id):
    clone_url: str


class _Head(JsonModel):
    sha: Commit
    ref: str
    repo: _Repository | None


class _Base(JsonModel):
    ref: str
    repo: _Repository


class _Change(JsonModel):
    title: str
    head: _Head
    base: _Base
    user: Account | None
    author_association: str = "NONE"
    labels: object = None


class _Changes(JsonModel):
    base: object = None


class _PullRequest(JsonModel):
    action: str
    changes: _Changes | None = None
    number: int
    pull_request: _Change
    sender: Account | None = None


class _Button(JsonModel):
    identifier: str


class _CheckRun(JsonModel):
    action: Literal["rerequested", "requested_action"]
    check_run: _Id
    requested_action: _Button | None = None
    sender: Account | None = None


class _Suite(JsonModel):
    head_sha: Commit


class _CheckSuite(JsonModel):
    action: Literal["rerequested"]
    check_suite: _Suite
    sender: Account | None = None


def is_signed(body: bytes, secret: str, signature: str) -> bool:
    """Tell whether a body has GitHub's signature."""
    expected = "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode(errors="replace"))


def events(event: str, body: bytes) -> tuple[HostEvent, ...]:
    """Return what a delivery of a repository reports; nothing of what cannot be read."""
    try:
        match event:
            case "push":
                return (_pushed(_Push.model_validate_json(body)),)
            case "pull_request":
                return (_pull_request(_PullRequest.model_validate_json(body)),)
            case "check_run":
                return _asked(_CheckRun.model_validate_json(body))
            case "check_suite":
                suite = _CheckSuite.model_validate_json(body)
                return (RerunAsked(None, suite.check_suite.head_sha, _login(suite.sender)),)
    except ValidationError:
        pass
    return ()


def open_pull_requests(found: Iterable[object]) -> list[PullRequest]:
    """Return the listed pull requests of a repository, but for unreadable ones."""
    listed = (each.root for each in readable(AnyObject, found))
    payloads = ({"action": FOUND_OPEN, "number": each.get("number"), "pull_request": each} for each in listed)
    return [_pull_request(each) for each in readable(_PullRequest, payloads)]


def _asked(run: _CheckRun) -> tuple[HostEvent, ...]:
    report_id, actor = str(run.check_run.id), _login(run.sender)
    if run.action == _RERUN:
        return (RerunAsked(report_id, actor=actor),)
    approves = run.requested_action is not None and run.requested_action.identifier == APPROVE
    return (ApprovalGiven(report_id, actor),) if approves else ()


def _pushed(push: _Push) -> PushedRef:
    old, new = (None if not each.strip("0") else each for each in (push.before, push.after))
    return PushedRef(push.ref, old, new, _login(push.sender))


def _pull_request(payload: _PullRequest) -> PullRequest:
    change = payload.pull_request
    head, base = change.head, change.base
    return PullRequest(
        number=payload.number,
        action=RETARGETED if payload.changes is not None and payload.changes.base is not None else payload.action,
        title=change.title,
        head_commit=head.sha,
        head_ref=f"refs/pull/{payload.number}/head",
        url=base.repo.clone_url,
        branch=head.ref,
        target_branch=base.ref,
        from_fork=head.repo is None or head.repo.id != base.repo.id,
        author=_login(change.user),
        trusted=change.author_association in _MEMBERS,
        sender=_login(payload.sender),
        labels=label_names(change.labels),
    )


def _login(account: Account | None) -> str | None:
    return None if account is None else account.login
