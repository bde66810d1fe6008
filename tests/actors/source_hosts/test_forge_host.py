"""Deliveries, statuses and trust of connected repositories, with real servers."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.source_hosts import DeliveryInvalid, DeliveryUnsigned, HostError
from actors.source_hosts.host import FOUND_OPEN, MOST_OPEN, CommitReport, PushedRef, ReportState, Skip
from storage import CommitCheck, Storage, WaitsFor
from tests.actors.source_hosts.forges import COMMIT, SERVICE, Forged, forged, report
from tests.forges.deliveries import document
from tests.forges.server import Reply
from tests.records import new_owner

HOST_TIME = "Fri, 02 Jan 2026 09:04:05 GMT"
"""The time by the clock of a host, six hours ahead of that of this one."""


def test_a_signed_delivery_finds_its_repository(forge: Forged, org: int):
    repository = forge.connect(org)
    received = forge.host.receive(*forge.push())
    assert received.repository == repository
    assert received.delivery_id.startswith(f"{repository.uuid}/")


def test_a_delivery_reports_its_push(forge: Forged, org: int, storage: Storage):
    repository, (headers, body) = forge.connect(org), forge.push(ref="refs/heads/x", before="0" * 40)
    received = forge.host.receive(headers, body)
    storage.deliveries.receive(forge.kind, received.event, received.delivery_id, repository, body)
    (event,) = forge.host.events(storage.deliveries.pending(repository.id)[0])
    assert isinstance(event, PushedRef)
    assert (event.ref, event.old) == ("refs/heads/x", None)


def test_open_pull_requests_are_those_that_it_reports(forge: Forged, org: int):
    """Those that cannot be read, as one without a commit, are left out, and not all are asked for."""
    repository, gitlab = forge.connect(org), forge.kind == "gitlab"
    found = document("gitlab-open-merge-request") if gitlab else document("forgejo-pull-request")["pull_request"]
    broken = {**found, **({"sha": None} if gitlab else {"head": {**found["head"], "sha": ""}})}
    forge.server.pulls = [found, broken, *[found] * MOST_OPEN]
    change, *others = forge.host.open_pull_requests(repository)
    assert len(others) == MOST_OPEN - 2
    assert (change.action, change.sender, change.from_fork, change.url) == (FOUND_OPEN, None, True, repository.url)
    expected = ("8" * 40, "refs/merge-requests/1/head", "admin") if gitlab else forgejo_change(found)
    assert (change.head_commit, change.head_ref, change.author) == expected


def forgejo_change(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["head"]["sha"], f"refs/pull/{found['number']}/head", found["user"]["login"]


def test_a_changed_body_or_signature_is_refused(forgejo: Forged, org: int):
    forgejo.connect(org)
    headers, body = forgejo.push()
    for name, value in (
        ("X-HUB-SIGNATURE-256", headers["X-HUB-SIGNATURE-256"][:-1] + "x"),
        ("X-HUB-SIGNATURE-256", headers["X-HUB-SIGNATURE-256"].removeprefix("sha256=")),
        ("X-HUB-SIGNATURE-256", ""),
        ("X-HUB-SIGNATURE-256", "sha256=é"),
    ):
        with pytest.raises(DeliveryUnsigned):
            forgejo.host.receive({**headers, name: value}, body)
    for other in (body + b" ", b"", b"null", b"[" * 100_000, b"\xff"):
        with pytest.raises(DeliveryUnsigned):
            forgejo.host.receive(headers, other)
    assert forgejo.host.receive(headers, body)


def test_a_wrong_token_of_gitlab_is_refused(storage: Storage, org: int, tmp_path: Path):
    with forged("gitlab", storage, tmp_path / "forge") as forge:
        forge.connect(org)
        headers, body = forge.push()
        for wrong in ("", "x", headers["X-GITLAB-TOKEN"][:-1], "é"):
            with pytest.raises(DeliveryUnsigned):
                forge.host.receive({**headers, "X-GITLAB-TOKEN": wrong}, body)


def test_no_secret_speaks_for_another_repository(storage: Storage, org: int, tmp_path: Path):
    """Two servers have a repository of the same id, one of them a stranger's."""
    stranger = new_owner(storage, "eve@example.org").organization.id
    with forged("forgejo", storage, tmp_path / "a") as ours, forged("forgejo", storage, tmp_path / "b") as theirs:
        mine, evil = ours.connect(org), theirs.connect(stranger)
        assert mine.remote_id == evil.remote_id
        assert theirs.host.receive(*theirs.push()).repository == evil
        assert ours.host.receive(*ours.push()).repository == mine
        ours.connector.disconnect(mine)
        headers, body = theirs.push()
        assert ours.host.receive(headers, body).repository == evil
        theirs.server.id = 99
        with pytest.raises(DeliveryUnsigned):
            theirs.host.receive(*theirs.push())


def test_a_removed_repository_can_report_no_more(forge: Forged, org: int):
    repository, delivery = forge.connect(org), forge.push()
    forge.connector.disconnect(repository)
    with pytest.raises(DeliveryUnsigned):
        forge.host.receive(*delivery)
    forge.connect(org)
    with pytest.raises(DeliveryUnsigned):
        forge.host.receive(*delivery)


def test_a_delivery_needs_its_headers(forge: Forged, org: int):
    forge.connect(org)
    headers, body = forge.push()
    for kind in ("EVENT", "DELIVERY" if forge.kind != "gitlab" else "IDEMPOTENCY"):
        with pytest.raises(DeliveryInvalid) as caught:
            forge.host.receive({name: value for name, value in headers.items() if kind not in name}, body)
        assert caught.value.code == "delivery_event_missing"


def test_who_may_push_is_asked_at_the_host(forge: Forged, org: int):
    repository = forge.connect(org)
    assert forge.host.trusts(repository, "ann")
    for login in ("bob", "eve", "an", "../hooks"):
        assert not forge.host.trusts(repository, login), login


def test_a_commit_shows_the_state_of_its_build(forge: Forged, org: int, storage: Storage):
    repository = forge.connect(org)
    reported = report(storage, repository)
    for state, at_forgejo, at_gitlab, says in (
        (ReportState.WAITING, "pending", "pending", "Build #1 waits"),
        (ReportState.RUNNING, "pending", "running", "Build #1 runs"),
        (ReportState.PASSED, "success", "success", "Build #1 passed"),
        (ReportState.FAILED, "failure", "failed", "Build #1 failed"),
        (ReportState.CANCELED, "error", "canceled", "Build #1 was canceled"),
    ):
        assert forge.host.report(repository, replace(reported, state=state)) == "ci/ci"
        forge.host.report(repository, replace(reported, state=state))  # again, as after a crash
        status = forge.server.statuses[-1]
        assert status["sha"] == COMMIT
        assert status["state"] == (at_gitlab if forge.kind == "gitlab" else at_forgejo)
        assert status.get("context", status.get("name")) == "ci/ci"
        assert (status["description"], status["target_url"]) == (says, reported.url)


def test_a_pipeline_that_is_not_built_is_a_success_that_says_so(forge: Forged, org: int):
    """Forges have no state for it, and a required check must not wait for ever."""
    repository = forge.connect(org)
    forge.host.report_skip(repository, Skip("ci", COMMIT, f"no file has changed in {'x' * 200}", SERVICE))
    status = forge.server.statuses[-1]
    assert (status["sha"], status["state"], status["target_url"]) == (COMMIT, "success", SERVICE)
    assert status.get("context", status.get("name")) == "ci/ci"
    assert status["description"].startswith("Skipped: no file has changed in xx")
    assert len(status["description"]) == 140


def test_one_status_shows_all_pipelines_of_a_commit(forge: Forged, org: int):
    repository, told = forge.connect(org), CommitCheck(1, 1, COMMIT, None, "", None, 0)
    for state, description in ((ReportState.RUNNING, "Running: ci"), (ReportState.PASSED, f"Passed: {'x' * 200}")):
        check = CommitReport(COMMIT, state, description, SERVICE)
        assert forge.host.report_commit(repository, check, told) == "ci-daemon"
        status = forge.server.statuses[-1]
        assert (status["sha"], status["target_url"]) == (COMMIT, SERVICE)
        assert status.get("context", status.get("name")) == "ci-daemon"
        assert description.startswith(status["description"].removesuffix("…"))
        assert len(status["description"]) <= 140
    assert status["state"] == "success"


def test_a_merge_that_conflicts_says_so(forgejo: Forged, org: int, storage: Storage):
    """In the pipeline's status and in that of the commit."""
    repository = forgejo.connect(org)
    reported = report(storage, repository, ReportState.FAILED)
    said = {"error_code": "merge_conflict", "error_message": "conflicts with main in a.c: merge main into it"}
    failed = replace(reported, build=replace(reported.build, **said))
    forgejo.host.report(repository, failed)
    assert forgejo.server.statuses[-1]["description"] == "Build #1 conflicts with main in a.c"
    commit = CommitReport.of(COMMIT, [failed], [])
    assert commit is not None
    assert commit.description == "Failed: ci (conflicts with main in a.c)"


def test_a_build_that_waits_for_an_approval_says_so(forgejo: Forged, org: int, storage: Storage):
    repository = forgejo.connect(org)
    reported = report(storage, repository, ReportState.WAITING)
    waiting = replace(reported, build=replace(reported.build, waits_for=WaitsFor.APPROVAL))
    forgejo.host.report(repository, waiting)
    assert forgejo.server.statuses[-1]["description"] == "Build #1 waits for an approval"


def test_a_revoked_token_is_said(forge: Forged, org: int, storage: Storage):
    repository = forge.connect(org)
    forge.server.token = "revoked"
    with pytest.raises(HostError, match="refuses the token: it is wrong, was revoked or has expired, so connect again"):
        forge.host.report(repository, report(storage, repository))


@pytest.mark.parametrize(
    ("fault", "says", "pause"),
    [
        (Reply(429, {}, {"Retry-After": "7"}), "asks to wait", 7),
        (Reply(429, {}, {"Date": HOST_TIME, "Retry-After": "Fri, 02 Jan 2026 09:04:35 GMT"}), "asks to wait", 30),
        (Reply(429), "asks to wait", 60),
        (Reply(429, {}, {"Retry-After": "99999999999"}), "asks to wait", 3600),
        (Reply(503, b"busy\x1b[2J", {"Retry-After": "5"}), r"answers 503: busy \[2J", 5),
        (Reply(500), "answers 500", None),
        (Reply(302, b"", {"Location": "https://elsewhere.example.org/"}), "answers 302", None),
        (Reply(403, {"message": "token lacks scope"}), "may not do this: .*token lacks scope", None),
        (Reply(404), "does not find it", None),
        (None, "cannot be reached", None),
    ],
    ids=["429", "429 until", "429 alone", "429 for long", "503", "500", "302", "403", "404", "closed"],
)
def test_a_fault_of_the_host_says_what_it_is(
    forgejo: Forged, org: int, storage: Storage, fault: Reply | None, says: str, pause: float | None
):
    repository = forgejo.connect(org)
    forgejo.local.faults = [fault]
    with pytest.raises(HostError, match=says) as caught:
        forgejo.host.report(repository, report(storage, repository))
    assert caught.value.retry_after == pause
    assert forgejo.host.report(repository, report(storage, repository)) == "ci/ci"


def test_an_answer_that_is_none_of_the_api_is_an_error(forgejo: Forged, org: int):
    repository = forgejo.connect(org)
    for body in (b"", b"<html>", {"permission": 7}, [], b'{"permission": "write"' + b" " * 5_000_000 + b"}"):
        forgejo.local.faults = [Reply(200, body)]
        with pytest.raises(HostError, match=r"answers something|answers more than"):
            forgejo.host.trusts(repository, "ann")


def test_a_slow_host_is_given_up(forgejo: Forged, org: int, monkeypatch: pytest.MonkeyPatch):
    repository, over = forgejo.connect(org), threading.Event()
    answer = forgejo.server.answer
    monkeypatch.setattr("actors.source_hosts.api_client._TIMEOUT", 0.3)
    forgejo.server.answer = lambda asked: answer(asked) if over.wait(30) else Reply(500)  # type: ignore[method-assign]
    try:
        with pytest.raises(HostError, match="does not answer in time"):
            forgejo.host.trusts(repository, "ann")
    finally:
        over.set()


def test_a_credential_is_never_sent_elsewhere(forgejo: Forged, org: int, storage: Storage):
    """The sealed token has the root that it is for: an URL that changes in the database does not move it."""
    repository = forgejo.connect(org)
    forgejo.local.asked.clear()
    assert not forgejo.host.trusts(replace(repository, url="https://elsewhere.example.org/acme/web.git"), "ann")
    assert len(forgejo.local.asked) == 1
