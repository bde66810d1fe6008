"""Deliveries of Forgejo, Gitea and GitLab: the examples of their documentation, and changed ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.source_hosts import forgejo, gitlab
from actors.source_hosts.host import RETARGETED, HostEvent, PullRequest, PushedRef
from tests.forges.deliveries import changed

URL = "https://git.example.org/acme/web.git"
ZERO = "0" * 40
PULL, MERGE = "forgejo-pull-request", "gitlab-merge-request"


def pull_request(**changes: Any) -> PullRequest:
    body = changed(PULL, {place.replace("__", "."): value for place, value in changes.items()})
    (event,) = forgejo.events("pull_request", body, URL)
    assert isinstance(event, PullRequest)
    return event


def merge_request(**changes: Any) -> PullRequest:
    attributes = {f"object_attributes.{place}": value for place, value in changes.items()}
    (event,) = gitlab.events("Merge Request Hook", changed(MERGE, attributes), URL)
    assert isinstance(event, PullRequest)
    return event


def test_a_push_to_forgejo_has_its_ref_commits_and_pusher():
    before, after = "28e1879d029cb852e4844d9c718537df08844e03", "bffeb74224043ba2feb48d137756c8a9331c449a"
    body = changed("forgejo-push", {})
    assert forgejo.events("push", body, URL) == (PushedRef("refs/heads/develop", before, after, "forgejo"),)
    assert forgejo.repository_id(body) == "140"


def test_a_push_to_gitlab_has_its_ref_commits_and_pusher():
    before, after = "95790bf891e76fee5e1747ab589903a6a1f80f22", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7"
    body = changed("gitlab-push", {})
    assert gitlab.events("Push Hook", body, URL) == (PushedRef("refs/heads/master", before, after, "jsmith"),)
    assert gitlab.project_id(body) == "15"


def test_a_new_tag_at_gitlab_has_no_old_commit():
    tag = "82b3d5ae55f7080f1e6022629cdb57bfae7cccc7"
    assert gitlab.events("Tag Push Hook", changed("gitlab-tag", {}), URL) == (PushedRef("refs/tags/v1.0.0", None, tag),)


def test_a_deleted_branch_has_no_new_commit():
    body = changed("forgejo-push", {"after": ZERO, "pusher": None})
    (event,) = forgejo.events("push", body, URL)
    assert isinstance(event, PushedRef)
    assert (event.new, event.actor) == (None, None)


def test_a_pull_request_of_a_fork_is_fetched_by_its_number():
    assert pull_request() == PullRequest(
        number=2,
        action="opened",
        title="Update README",
        head_commit="0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c",
        head_ref="refs/pull/2/head",
        url=URL,
        branch="feature/changes",
        target_branch="master",
        from_fork=True,
        author="eve",
        sender="eve",
    )


def test_a_merge_request_of_a_branch_is_no_fork():
    assert merge_request() == PullRequest(
        number=1,
        action="opened",
        title="MS-Viewport",
        head_commit="da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
        head_ref="refs/merge-requests/1/head",
        url=URL,
        branch="ms-viewport",
        target_branch="master",
        from_fork=False,
        author=None,
        sender="root",
    )


@pytest.mark.parametrize(
    ("changes", "from_fork"),
    [
        ({"pull_request__head__repo": {"id": 140}}, False),
        ({"pull_request__head__repo": None}, True),
        ({"pull_request__head__repo": {"id": 140}, "pull_request__flow": 1}, True),
        ({"pull_request__head__repo": {"id": 140}, "pull_request__head__ref": "refs/pull/2/head"}, True),
    ],
    ids=["a branch", "a fork that is gone", "AGit by its flow", "AGit by its ref"],
)
def test_a_head_that_needs_no_right_to_push_is_a_fork(changes: dict[str, Any], from_fork: bool):
    """A pull request of the AGit flow names the repository itself as that of its head."""
    assert pull_request(**changes).from_fork is from_fork


@pytest.mark.parametrize(
    ("told", "action"),
    [
        ("opened", "opened"),
        ("synchronized", "synchronize"),
        ("reopened", "reopened"),
        ("closed", "closed"),
        ("edited", "edited"),
    ],
)
def test_actions_at_forgejo_are_in_the_words_of_triggers(told: str, action: str):
    assert pull_request(action=told).action == action


@pytest.mark.parametrize(
    ("told", "oldrev", "action"),
    [
        ("open", None, "opened"),
        ("update", "a" * 40, "synchronize"),
        ("update", None, "update"),
        ("reopen", None, "reopened"),
        ("close", None, "closed"),
        ("merge", None, "closed"),
        ("approved", None, "approved"),
    ],
)
def test_actions_at_gitlab_are_in_the_words_of_triggers(told: str, oldrev: str | None, action: str):
    assert merge_request(action=told, oldrev=oldrev).action == action


def test_another_target_is_told_from_other_edits():
    """The examples have no such change: of Forgejo it is `ChangesPayload`, of GitLab a part of `changes`."""
    body = changed(PULL, {"action": "edited", "changes": {"ref": {"from": "develop"}}})
    (at_forgejo,) = forgejo.events("pull_request", body, URL)
    body = changed(MERGE, {"object_attributes.action": "update", "changes": {"target_branch": {"previous": "develop"}}})
    (at_gitlab,) = gitlab.events("Merge Request Hook", body, URL)
    assert isinstance(at_forgejo, PullRequest)
    assert isinstance(at_gitlab, PullRequest)
    assert (at_forgejo.action, at_gitlab.action) == (RETARGETED, RETARGETED)
    for changes in ({"title": {"from": "Old"}}, {}, None):
        body = changed(PULL, {"action": "edited", "changes": changes})
        assert [each.action for each in forgejo.events("pull_request", body, URL) if isinstance(each, PullRequest)] == [
            "edited"
        ]


def test_a_fork_at_gitlab_is_another_project_or_none():
    assert merge_request(source_project_id=99).from_fork
    assert merge_request(source_project_id=None).from_fork


def test_who_causes_a_delivery_of_gitlab_need_not_be_the_author():
    """A member who retitles a stranger's merge request does not vouch for its commits."""
    assert merge_request(author_id=51).author is None
    assert merge_request(author_id=1).author == "root"


@pytest.mark.parametrize(
    "changes",
    [
        {"ref": "refs/notes/x"},
        {"ref": "refs/heads/a\nb"},
        {"ref": "--upload-pack=x"},
        {"after": "HEAD"},
        {"after": f"{'a' * 40}\n"},
        {"after": 7},
        {"before": None},
    ],
    ids=str,
)
def test_a_push_that_git_could_not_make_reports_nothing(changes: dict[str, Any]):
    assert forgejo.events("push", changed("forgejo-push", changes), URL) == ()
    assert gitlab.events("Push Hook", changed("gitlab-push", changes), URL) == ()


@pytest.mark.parametrize("number", [0, -1, "1/../../x", 1.5])
def test_a_number_that_is_none_reports_nothing(number: object):
    body = changed(PULL, {"pull_request.number": number})
    assert forgejo.events("pull_request", body, URL) == ()


def test_no_body_is_an_error():
    names = ("push", "pull_request", "Push Hook", "Merge Request Hook", "delete")
    json = st.recursive(st.none() | st.integers() | st.text(), lambda it: st.lists(it) | st.dictionaries(st.text(), it))

    @given(st.sampled_from(names), st.binary(max_size=100) | json.map(repr).map(str.encode))
    def look(event: str, body: bytes) -> None:
        found: tuple[HostEvent, ...] = (*forgejo.events(event, body, URL), *gitlab.events(event, body, URL))
        assert found == ()
        assert forgejo.repository_id(body) is None

    look()
