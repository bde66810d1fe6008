"""Details of the audit: why a gate was answered, and whom a secret is for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from api.middleware.audit import detail_of
from storage import NewBuild, NewEnvironment
from tests.api.world import World
from tests.records import new_job

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
