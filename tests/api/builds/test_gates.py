"""Answers to the gates of jobs, and the environments whose approvers give them."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from actors import refusal
from storage import Environment, Job, JobState, NewBuild, NewEnvironment, Role, Storage
from tests.api.world import HELLO, Account, BuildPath, PipelinePath
from tests.clock import ManualClock
from tests.records import new_job


def environment(*approvers: str, not_author: bool = False) -> Environment:
    return Environment(1, 1, "production", None, approvers, not_author, 60, ManualClock().now())


@pytest.mark.parametrize(
    ("approvers", "email", "role", "may"),
    [
        ((), "bob@example.org", Role.MEMBER, True),
        (("bob@example.org",), "Bob@example.org", Role.MEMBER, True),
        (("bob@example.org",), "ada@example.org", Role.OWNER, False),
        (("admin",), "ada@example.org", Role.OWNER, True),
        (("admin",), "ada@example.org", Role.ADMIN, True),
        (("admin",), "bob@example.org", Role.MEMBER, False),
        (("owner", "bob@example.org"), "bob@example.org", Role.MEMBER, True),
        (("owner",), "ada@example.org", Role.ADMIN, False),
        (("member",), "bob@example.org", Role.MEMBER, True),
    ],
)
def test_an_environment_names_its_approvers(approvers: tuple[str, ...], email: str, role: Role, may: bool):
    assert (refusal(environment(*approvers), email, role, ()) is None) is may


def test_people_of_a_build_do_not_approve_it_if_that_is_set():
    people = frozenset({"Bob@example.org"})
    assert refusal(environment("member"), "bob@example.org", Role.MEMBER, people) is None
    strict = environment("member", not_author=True)
    assert refusal(strict, "bob@example.org", Role.MEMBER, people) is not None
    assert refusal(strict, "ada@example.org", Role.MEMBER, people) is None


def gated(pipeline: PipelinePath, storage: Storage, created_by: int | None = None) -> tuple[BuildPath, Job]:
    """Create a build whose only job waits at the gate of production."""
    found = storage.pipelines.by_slug(pipeline.account.org_id, "demo")
    assert found is not None
    build = storage.builds.create(
        found, NewBuild("main", "c0ffee", created_by=created_by), [new_job("deploy", environment="production")]
    )
    (job,) = storage.jobs.of_build(build.id)
    storage.gates.ask(job.id, 600)
    return BuildPath(pipeline.account, f"{pipeline.path}/builds/{build.number}"), job


def production(storage: Storage, ada: Account, *approvers: str, not_author: bool = False) -> None:
    storage.environments.create(ada.org_id, NewEnvironment("production", None, approvers, not_author))


def answer(build: BuildPath, job: Job, by: Account, word: str = "approve", **body: Any) -> testing.Result:
    return by.client.simulate_post(f"{build.path}/jobs/{job.uuid}/{word}", json=body)


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_an_approver_lets_the_job_run_with_a_reason(
    ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage
):
    bob.join(ada, Role.MEMBER)
    production(storage, ada, bob.email)
    build, job = gated(pipeline, storage)
    waiting = build.get(f"/jobs/{job.uuid}").json
    assert (waiting["state"], waiting["environment"], waiting["gate"]["state"]) == ("pending", "production", "waiting")
    assert waiting["pending_reason"].startswith('waiting for approval to deploy to "production", until ')
    shown = answer(build, job, bob, reason="seen on staging").json["gate"]
    assert (shown["state"], shown["decided_by"], shown["reason"]) == ("approved", bob.email, "seen on staging")
    assert ada.world.engine.gates == [job.build_id]
    newest = storage.audit.page(1, None).rows[0]
    assert (newest.actor, newest.action) == (bob.email, "approveJob")
    assert newest.subject.endswith(job.uuid)


def test_an_answer_is_given_once(ada: Account, pipeline: PipelinePath, storage: Storage):
    production(storage, ada, "owner")
    build, job = gated(pipeline, storage)
    assert answer(build, job, ada, "reject", reason="no").json["gate"]["state"] == "rejected"
    second = answer(build, job, ada)
    assert code(second) == (409, "gate_not_awaited")
    assert f"deploy: {ada.email} rejected it at " in second.json["error"]["message"]


def test_others_do_not_answer(ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage):
    bob.join(ada, Role.MEMBER)
    production(storage, ada, "owner")
    build, job = gated(pipeline, storage)
    for word in ("approve", "reject"):
        assert code(answer(build, job, bob, word)) == (403, "not_an_approver")
    assert answer(build, job, ada).status_code == 200


def test_a_removed_member_does_not_answer(ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage):
    bob.join(ada, Role.MEMBER)
    production(storage, ada, bob.email)
    build, job = gated(pipeline, storage)
    storage.members.remove(ada.org_id, bob.user.uuid, ada.user.id)
    assert code(answer(build, job, bob)) == (404, "organization_not_found")
    gate = storage.gates.of_job(job.id)
    assert gate is not None
    assert gate.state == "waiting"


def test_the_author_rejects_but_does_not_approve(ada: Account, pipeline: PipelinePath, storage: Storage):
    production(storage, ada, "owner", not_author=True)
    build, job = gated(pipeline, storage, created_by=ada.user.id)
    assert code(answer(build, job, ada)) == (403, "not_an_approver")
    assert answer(build, job, ada, "reject").status_code == 200


def test_a_rebuild_by_another_is_still_of_its_author(
    ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage
):
    """The author's plan runs, also if somebody else began it again."""
    bob.join(ada, Role.ADMIN)
    production(storage, ada, "admin", not_author=True)
    build, _ = gated(pipeline, storage, created_by=ada.user.id)
    again = NewBuild("main", "c0ffee", created_by=bob.user.id, rebuild_of=int(build.path.rpartition("/")[2]))
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    repeated = storage.builds.create(found, again, [new_job("deploy", environment="production")])
    (job,) = storage.jobs.of_build(repeated.id)
    storage.gates.ask(job.id, 600)
    path = BuildPath(ada, f"{pipeline.path}/builds/{repeated.number}")
    assert code(answer(path, job, ada)) == (403, "not_an_approver")
    assert code(answer(path, job, bob)) == (403, "not_an_approver")


def test_an_approval_names_a_job_of_its_build(ada: Account, pipeline: PipelinePath, storage: Storage):
    """The path of another build does not lead to the job, nor the answer to another's gate."""
    production(storage, ada, "owner")
    (first, job), (second, other) = gated(pipeline, storage), gated(pipeline, storage)
    assert code(answer(second, job, ada)) == (404, "job_not_found")
    assert answer(first, job, ada).status_code == 200
    gate = storage.gates.of_job(other.id)
    assert gate is not None
    assert gate.state == "waiting"


def test_a_job_before_its_gate_takes_no_answer(ada: Account, pipeline: PipelinePath, storage: Storage):
    production(storage, ada, "owner")
    build, job = gated(pipeline, storage)
    storage.gates.forget(job.id)
    assert code(answer(build, job, ada)) == (409, "gate_not_awaited")


def test_environments_are_made_changed_and_deleted(ada: Account, storage: Storage):
    path = f"{ada.path}/environments"
    new = {"name": "production", "approvers": ["admin", " Grace@Example.org"], "url": "https://shop.example.org"}
    made = ada.client.simulate_post(path, json=new)
    assert made.status_code == 201
    assert made.json["approvers"] == ["admin", "grace@example.org"]
    assert (made.json["not_author"], made.json["gate_seconds"]) == (False, 604_800)
    assert code(ada.client.simulate_post(path, json=new)) == (409, "environment_exists")
    changed = ada.client.simulate_patch(f"{path}/production", json={"not_author": True, "url": None}).json
    assert (changed["not_author"], changed["url"], changed["approvers"]) == (True, None, made.json["approvers"])
    assert [each["name"] for each in ada.client.simulate_get(path).json["data"]] == ["production"]
    assert ada.client.simulate_delete(f"{path}/production").status_code == 204
    assert code(ada.client.simulate_get(f"{path}/production")) == (404, "environment_not_found")


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Production"},
        {"name": "a/b"},
        {"approvers": ["nobody"]},
        {"url": "javascript:alert(1)"},
        {"gate_seconds": 1},
        {"approvers": ["admin"] * 51},
    ],
)
def test_a_wrong_environment_is_refused(ada: Account, wrong: dict[str, Any]):
    answered = ada.client.simulate_post(f"{ada.path}/environments", json={"name": "production", **wrong})
    assert code(answered) == (422, "invalid_body")


def deployed(
    pipeline: PipelinePath, storage: Storage, commit: str, end: JobState = JobState.PASSED, **fields: Any
) -> Job:
    """Deploy a commit to production, as an approver lets it, and end the job."""
    found = storage.pipelines.by_slug(pipeline.account.org_id, "demo")
    assert found is not None
    new = NewBuild("main", commit, pipeline_ir=HELLO, created_by=pipeline.account.user.id, **fields)
    build = storage.builds.create(found, new, [new_job("deploy", environment="production")])
    (job,) = storage.jobs.of_build(build.id)
    storage.gates.ask(job.id, 600)
    storage.gates.decide(job.id, approved=True, by="grace@example.org", reason=None)
    assert storage.jobs.move(job.id, JobState.PENDING, JobState.SCHEDULED)
    assert storage.jobs.move(job.id, JobState.SCHEDULED, end)
    return job


def test_an_environment_knows_what_is_there(ada: Account, pipeline: PipelinePath, storage: Storage, clock: ManualClock):
    """The deployment is there that ended last and passed; what failed later is history alone."""
    production(storage, ada, "owner")
    path = f"{ada.path}/environments/production"
    assert ada.client.simulate_get(path).json["current"] is None
    for commit, end in (("c1", JobState.PASSED), ("c2", JobState.PASSED), ("c3", JobState.TIMED_OUT)):
        deployed(pipeline, storage, commit, end)
        clock.advance(60)
    _, waiting = gated(pipeline, storage)
    shown = ada.client.simulate_get(path).json
    now = shown["current"]
    assert (now["commit"], now["approved_by"], now["created_by"]) == ("c2", "grace@example.org", ada.email)
    assert [(each["job_id"], each["waits"]) for each in shown["waiting"]] == [(waiting.uuid, True)]
    listed = ada.client.simulate_get(f"{path}/deployments").json["data"]
    assert [(each["commit"], each["state"]) for each in listed] == [
        ("c0ffee", "pending"),
        ("c3", "timed_out"),
        ("c2", "passed"),
        ("c1", "passed"),
    ]
    first = ada.client.simulate_get(f"{path}/deployments", params={"limit": 3}).json
    after = ada.client.simulate_get(f"{path}/deployments", params={"cursor": first["next_cursor"]}).json
    assert [each["commit"] for each in after["data"]] == ["c1"]


def test_an_environment_is_rolled_back(ada: Account, pipeline: PipelinePath, storage: Storage, clock: ManualClock):
    """Its earlier build is deployed again; the job of the new build is asked for as any other."""
    production(storage, ada, "owner")
    path = f"{ada.path}/environments/production/rollback"
    assert code(ada.client.simulate_post(path)) == (409, "nothing_to_roll_back")
    jobs = []
    for commit in ("c1", "c2", "failed", "c3"):
        clock.advance(60)
        end = JobState.FAILED if commit == "failed" else JobState.PASSED
        jobs.append(deployed(pipeline, storage, commit, end).uuid)
    back = ada.client.simulate_post(path)
    assert (back.status_code, back.json["commit"], back.json["rebuild_of"]) == (201, "c2", 2)
    further = ada.client.simulate_post(path, json={"job_id": jobs[0]}).json
    assert (further["commit"], further["rebuild_of"]) == ("c1", 1)
    for job_id in (jobs[2], "00000000-0000-0000-0000-000000000000"):
        assert code(ada.client.simulate_post(path, json={"job_id": job_id})) == (409, "nothing_to_roll_back")


def test_neither_forks_nor_former_members_roll_back(
    ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage
):
    """A fork's build was let in once, for what it was then; who was removed has no say any more."""
    production(storage, ada, "owner")
    bob.join(ada, Role.MEMBER)
    of_fork = deployed(pipeline, storage, "c1", untrusted_origin="pull/1/7", from_fork=True)
    deployed(pipeline, storage, "c2")
    path = f"{ada.path}/environments/production/rollback"
    for body in ({}, {"job_id": of_fork.uuid}):
        refused = ada.client.simulate_post(path, json=body)
        assert code(refused) == (409, "deployment_not_kept")
        assert "is of a fork's pull request" in refused.json["error"]["message"]
    deployed(pipeline, storage, "c3")
    assert bob.client.simulate_post(path).json["rebuild_of"] == 2
    member = next(each for each in storage.members.all(ada.org_id) if each.email == bob.email)
    storage.members.remove(ada.org_id, member.uuid, ada.user.id)
    assert bob.client.simulate_post(path).status_code == 404
    assert ada.client.simulate_get(f"{pipeline.path}/builds/5").status_code == 404


def test_an_environment_is_its_organizations(ada: Account, bob: Account, pipeline: PipelinePath, storage: Storage):
    """Neither the settings of a namesake elsewhere nor its history are shown."""
    production(storage, ada, "owner")
    production(storage, bob)
    deployed(pipeline, storage, "c1")
    assert bob.client.simulate_get(f"{ada.path}/environments/production").status_code == 404
    assert bob.client.simulate_get(f"{bob.path}/environments/production").json["current"] is None
    assert bob.client.simulate_get(f"{bob.path}/environments/production/deployments").json["data"] == []
