"""Builds of pull requests from forks, which wait until a member approves them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from falcon import testing

from storage import NewBuild, Role, Storage
from tests.api.world import HELLO, Account, BuildPath, PipelinePath
from tests.records import new_job

REASON = "waiting for approval: eve is not a member"


def approve(build: BuildPath, by: Account | None = None) -> testing.Result:
    return (by or build.account).client.simulate_post(f"{build.path}/approve")


def code(answered: testing.Result) -> str:
    text: str = answered.json["error"]["code"]
    return text


@pytest.fixture
def of_fork(ada: Account, pipeline: PipelinePath, storage: Storage) -> BuildPath:
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    new = NewBuild("eve:main", "c0ffee", untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    build = storage.builds.create(found, new, [new_job("only", secrets=("TOKEN",))])
    return BuildPath(ada, f"{pipeline.path}/builds/{build.number}")


def record(build: BuildPath) -> dict[str, Any]:
    found: dict[str, Any] = build.get().json
    return found


def test_a_build_that_waits_says_so_and_for_what(of_fork: BuildPath):
    shown = record(of_fork)
    assert (shown["state"], shown["pending_reason"], shown["untrusted"]) == ("scheduled", REASON, True)
    (job,) = of_fork.get("/jobs").json["data"]
    assert (job["state"], job["pending_reason"], job["queue_position"]) == ("pending", REASON, None)
    assert of_fork.get(f"/jobs/{job['id']}").json["pending_reason"] == REASON


def test_any_member_approves_and_is_named(of_fork: BuildPath, ada: Account, bob: Account, storage: Storage):
    bob.join(ada, Role.MEMBER)
    answered = approve(of_fork, bob)
    assert answered.status_code == 200
    shown = answered.json
    assert (shown["pending_reason"], shown["approved_by"], shown["untrusted"]) == (None, bob.email, True)
    assert of_fork.get("/jobs").json["data"][0]["state"] == "scheduled"
    newest = storage.audit.page(1, None).rows[0]
    assert (newest.actor, newest.action) == (bob.email, "approveBuild")
    assert newest.subject.endswith(f"/{shown['number']}")


def test_an_approval_is_not_given_twice(of_fork: BuildPath):
    """The second answer says who gave it and when."""
    approve(of_fork)
    before = record(of_fork)
    answered = approve(of_fork)
    assert (answered.status_code, code(answered)) == (409, "approval_not_awaited")
    at = datetime.fromisoformat(before["approved_at"])
    told = f"{before['approved_by']} approved it at {at:%Y-%m-%d %H:%M:%S} UTC"
    assert answered.json["error"]["message"] == f"build {before['number']} cannot be approved: {told}"
    assert record(of_fork) == before


def test_a_build_of_a_member_needs_none(pipeline: PipelinePath):
    assert code(approve(pipeline.build())) == "approval_not_awaited"


def test_strangers_approve_nothing(of_fork: BuildPath, bob: Account):
    assert code(approve(of_fork, bob)) == "organization_not_found"
    assert record(of_fork)["pending_reason"] == REASON


def test_a_public_build_is_read_but_not_approved_by_strangers(of_fork: BuildPath, pipeline: PipelinePath, bob: Account):
    pipeline.account.client.simulate_patch(pipeline.path, json={"visibility": "public"})
    assert bob.client.simulate_get(of_fork.path).json["pending_reason"] == REASON
    assert approve(of_fork, bob).status_code == 404
    assert of_fork.account.world.anonymous.simulate_post(f"{of_fork.path}/approve").status_code == 401


def test_a_rebuild_is_untrusted_too_and_keeps_the_approval(ada: Account, pipeline: PipelinePath, storage: Storage):
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    new = NewBuild("m", "c", pipeline_ir=HELLO, untrusted_origin="pull/1/7", approval_reason="eve is not a member")
    build = BuildPath(ada, f"{pipeline.path}/builds/{storage.builds.create(found, new, [new_job()]).number}")
    again = ada.client.simulate_post(f"{build.path}/rebuild").json
    assert (again["untrusted"], again["pending_reason"]) == (True, REASON)
    approve(build)
    again = ada.client.simulate_post(f"{build.path}/rebuild").json
    assert (again["untrusted"], again["pending_reason"]) == (True, None)
