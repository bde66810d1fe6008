"""Deliveries of Bitbucket: the examples of its documentation, and changed ones."""

from __future__ import annotations

from typing import Any

import pytest

from actors.source_hosts.bitbucket.payloads import events, repository_uuid
from actors.source_hosts.host import PullRequest, PushedRef
from tests.forges.deliveries import changed, document

GIT = "https://bitbucket.org"
NEW, OLD = "709d658dc5b6d6afcd46049c2f332ee3f515a67d", "1e65c05c1d5171631d92438a13901ca7dae9618c"
PULL = "bitbucket-pull-request"


def pushed(*changes: dict[str, Any]) -> tuple[object, ...]:
    return events("repo:push", changed("bitbucket-push", {"push.changes": list(changes)}), GIT)


def head(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "target": {"hash": NEW}}


def test_a_push_has_each_head_that_moved():
    body = changed("bitbucket-push", {})
    assert events("repo:push", body, GIT) == (PushedRef("refs/heads/name-of-branch", OLD, NEW, "emmap1"),)
    assert repository_uuid(body) == document("bitbucket-push")["repository"]["uuid"]
    assert pushed({"new": head("branch", "x"), "old": None}, {"new": None, "old": head("annotated_tag", "v1")}) == (
        PushedRef("refs/heads/x", None, NEW, "emmap1"),
        PushedRef("refs/tags/v1", NEW, None, "emmap1"),
    )


def test_a_head_that_git_could_not_have_reports_nothing():
    assert pushed({"new": head("branch", "a b")}) == ()
    assert pushed({"new": head("named_branch", "default")}) == ()
    assert pushed({"new": None, "old": None}) == ()
    assert events("repo:push", b"{}", GIT) == ()


def test_a_pull_request_is_fetched_from_its_own_repository():
    """Its commit is abbreviated; its author is known by an id, because a nickname is anybody's choice."""
    assert events("pullrequest:created", changed(PULL, {}), GIT) == (
        PullRequest(
            number=1,
            action="opened",
            title="Title of pull request",
            head_commit="d3022fc0ca3d",
            head_ref="refs/heads/branch2",
            url="https://bitbucket.org/emmap1/repo_name.git",
            branch="branch2",
            target_branch="master",
            from_fork=True,
            author="{a54f16da-24e9-4d7f-a3a7-b1ba2cd98aa3}",
            sender="{a54f16da-24e9-4d7f-a3a7-b1ba2cd98aa3}",
        ),
    )


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("pullrequest:created", "opened"),
        ("pullrequest:updated", "synchronize"),
        ("pullrequest:fulfilled", "closed"),
        ("pullrequest:rejected", "closed"),
    ],
)
def test_events_are_in_the_words_of_triggers(event: str, action: str):
    (found,) = events(event, changed(PULL, {}), GIT)
    assert isinstance(found, PullRequest)
    assert found.action == action


def test_a_branch_of_the_repository_itself_is_no_fork():
    same = document(PULL)["repository"]
    (found,) = events("pullrequest:created", changed(PULL, {"pullrequest.source.repository": same}), GIT)
    assert isinstance(found, PullRequest)
    assert not found.from_fork


@pytest.mark.parametrize(
    "changes",
    [
        {"pullrequest.source.repository": None},
        {"pullrequest.source.repository.full_name": "../../etc"},
        {"pullrequest.source.repository.full_name": "a/b/c"},
        {"pullrequest.source.repository.full_name": "a/b?x"},
        {"pullrequest.source.branch.name": "a b"},
        {"pullrequest.source.commit.hash": "HEAD"},
        {"pullrequest.id": 0},
    ],
    ids=str,
)
def test_a_pull_request_of_nothing_usable_reports_nothing(changes: dict[str, Any]):
    assert events("pullrequest:created", changed(PULL, changes), GIT) == ()


def test_other_events_report_nothing():
    for event in ("issue:created", "workspace connected", "pullrequest:approved", ""):
        assert events(event, changed(PULL, {}), GIT) == ()
