"""Details of the audit: why a gate was answered, and whom a secret is for."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import apsw
import pytest

from api.middleware.audit import detail_of
from storage import NewBuild, NewEnvironment
from storage.files import DATABASE
from tests.api.world import HELLO, World
from tests.records import new_job

BUILD = {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}
LIMITED = SimpleNamespace(branches=("main", "v*"), events=("push",))


def answered(reason: str | None) -> object:
    return SimpleNamespace(gate=SimpleNamespace(reason=reason))


@pytest.mark.parametrize(
    ("operation", "record", "said"),
    [
        ("approveJob", answered("seen on staging"), 'reason "seen on staging", '),
        ("rejectJob", answered("not\non a Friday"), 'reason "not on a Friday", '),
        ("approveJob", answered("x" * 1000), f'reason "{"x" * 300}…", '),
        ("approveJob", answered(None), ""),
        ("getJob", answered("seen"), ""),
        ("limitPipelineSecret", LIMITED, "branches main v*; events push, "),
        ("setOrganizationSecret", SimpleNamespace(source={"url": "https://a.example"}), "from https://a.example, "),
        ("setOrganizationSecret", SimpleNamespace(), "no limits, "),
    ],
)  # fmt: skip
def test_a_detail_is_one_line(operation: str, record: object, said: str):
    assert detail_of(operation, record) == said


def test_the_audit_has_details_of_answers_and_limits(world: World):
    ada = world.sign_up("ada@example.org")
    pipeline = ada.pipeline()
    storage = world.storage
    storage.environments.create(ada.org_id, NewEnvironment("production", None, ("admin",)))
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    build = storage.builds.create(found, NewBuild("main", "c0ffee"), [new_job("deploy", environment="production")])
    (job,) = storage.jobs.of_build(build.id)
    storage.gates.ask(job.id, 600)
    path = f"{pipeline.path}/builds/{build.number}/jobs/{job.uuid}/approve"
    assert ada.client.simulate_post(path, json={"reason": "seen on staging"}).status_code == 200
    body = {"value": "hunter2-and-a-half", "branches": ["main"]}
    assert ada.client.simulate_put(f"{ada.path}/secrets/TOKEN", json=body).status_code == 200
    notes = {each.action: each.note or "" for each in storage.audit.page(10, None).rows}
    assert notes["approveJob"].startswith('reason "seen on staging", api, ')
    assert notes["setOrganizationSecret"].startswith("branches main, api, ")
    assert "hunter2" not in notes["setOrganizationSecret"]


def test_a_build_and_its_entry_are_written_together(world: World):
    """A build whose entry cannot be written is not made, and what asks for it is told."""
    ada = world.sign_up("ada@example.org")
    pipeline = ada.pipeline()
    builds = f"{pipeline.path}/builds"
    made = ada.client.simulate_post(builds, json=BUILD)
    again = ada.client.simulate_post(f"{builds}/{made.json['number']}/rebuild")
    entries = world.storage.audit.page(10, None).rows
    assert [(each.action, each.subject) for each in entries[:2]] == [
        ("rebuildBuild", f"{ada.org}/demo/1/2"),
        ("createBuild", f"{ada.org}/demo/1"),
    ]
    assert len([each for each in entries if each.action.endswith("Build")]) == 2
    assert entries[1].note == f"api, request {made.headers['x-request-id']}"
    assert entries[0].note == f"api, request {again.headers['x-request-id']}"
    with closing(apsw.Connection(str(world.storage.directory / DATABASE))) as connection:
        connection.execute("CREATE TRIGGER no BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(FAIL, 'no'); END")
        assert ada.client.simulate_post(builds, json=BUILD).status_code == 500
        connection.execute("DROP TRIGGER no")
    assert ada.client.simulate_get(f"{builds}/3").status_code == 404
    assert ada.client.simulate_post(builds, json=BUILD).json["number"] == 3


def test_a_repeated_request_leaves_an_entry_of_its_own(world: World):
    ada = world.sign_up("ada@example.org")
    builds, key = f"{ada.pipeline().path}/builds", {"Idempotency-Key": "once"}
    first, second = (ada.client.simulate_post(builds, json=BUILD, headers=key) for _ in range(2))
    assert first.json["number"] == second.json["number"] == 1
    entries = world.storage.audit.page(2, None).rows
    assert [each.note.split()[-1] for each in entries] == [
        second.headers["x-request-id"],
        first.headers["x-request-id"],
    ]
    assert [each.subject for each in entries] == [f"{ada.org}/demo/1"] * 2
