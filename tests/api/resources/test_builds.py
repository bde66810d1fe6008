from __future__ import annotations

import re

from actors import EngineBusy
from storage import BuildState
from tests.api.world import Account, PipelinePath, World, steps


def test_a_build_is_created_scheduled_and_set_going(world: World, pipeline: PipelinePath):
    created = pipeline.post(message="first", pipeline_ir=steps("lint", "test"))

    assert created.status_code == 201
    record = created.json
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", record.pop("id"))
    assert record == {
        "number": 1,
        "state": "scheduled",
        "pipeline_slug": "demo",
        "created_at": "2026-01-02T03:04:05.000000Z",
        "branch": "main",
        "commit": "c0ffee",
        "message": "first",
        "source": "api",
        "scheduled_at": "2026-01-02T03:04:05.000000Z",
        "started_at": None,
        "finished_at": None,
        "error_code": None,
        "error_message": None,
        "rebuild_of": None,
        "pending_reason": None,
        "concurrency_group": None,
        "untrusted": False,
        "approved_by": None,
        "approved_at": None,
        "strict_shell": False,
        "warnings": [],
        "inputs": {},
        "base_commit": None,
        "merge_commit": None,
        "priority": "manual",
        "event": "api",
        "author": "Ada",
    }
    assert world.engine.added == 1


def test_a_build_is_read_as_it_was_created(pipeline: PipelinePath):
    created = pipeline.post()

    assert pipeline.account.client.simulate_get(f"{pipeline.path}/builds/1").json == created.json


def test_numbers_are_of_the_pipeline(ada: Account, pipeline: PipelinePath):
    other = ada.pipeline("other")

    assert [pipeline.post().json["number"], pipeline.post().json["number"], other.post().json["number"]] == [1, 2, 1]


def test_builds_are_listed_newest_first(ada: Account, pipeline: PipelinePath):
    for _ in range(3):
        pipeline.build()

    listed = ada.client.simulate_get(f"{pipeline.path}/builds").json["data"]
    assert [row["number"] for row in listed] == [3, 2, 1]


def test_what_is_missing_is_named_from_the_outside_in(ada: Account, bob: Account, pipeline: PipelinePath):
    pipeline.build()

    def code(account: Account, path: str) -> str:
        text: str = account.client.simulate_get(path).json["error"]["code"]
        return text

    assert code(ada, "/api/v0/organizations/none/pipelines/demo/builds/1") == "organization_not_found"
    assert code(ada, f"{ada.path}/pipelines/none/builds/1") == "pipeline_not_found"
    assert code(ada, f"{pipeline.path}/builds/2") == "build_not_found"
    assert code(bob, f"{pipeline.path}/builds/1") == "organization_not_found"
    assert code(bob, f"{pipeline.path}/builds") == "organization_not_found"


def test_a_queued_build_is_canceled_at_once(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    canceled = pipeline.account.client.simulate_put(f"{build.path}/cancel")

    assert canceled.status_code == 200
    assert canceled.json["state"] == "canceled"
    assert canceled.json["finished_at"] is not None


def test_a_finished_build_is_canceled_unchanged(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    before = build.get().json
    world.engine.refusal = EngineBusy("look at the build again")

    canceled = pipeline.account.client.simulate_put(f"{build.path}/cancel")
    assert canceled.status_code == 200
    assert canceled.json == before


def test_a_cancel_that_takes_too_long_asks_to_look_again(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    world.engine.refusal = EngineBusy("look at the build again")
    answered = pipeline.account.client.simulate_put(f"{build.path}/cancel")

    assert answered.status_code == 503
    assert answered.json["error"]["code"] == "busy"
    assert answered.headers["Retry-After"] == "1"


def test_only_members_cancel(world: World, bob: Account, ada: Account):
    build = ada.pipeline(visibility="public").build()

    assert bob.client.simulate_put(f"{build.path}/cancel").json["error"]["code"] == "organization_not_found"
    assert world.anonymous.simulate_put(f"{build.path}/cancel").status_code == 401
    assert ada.client.simulate_put(f"{build.path[:-1]}7/cancel").json["error"]["code"] == "build_not_found"
    assert build.stored.state is BuildState.SCHEDULED


def test_a_public_pipelines_builds_are_read_by_anyone(world: World, ada: Account, bob: Account):
    pipeline = ada.pipeline("open", visibility="public")
    build = pipeline.build()

    for client in (world.anonymous, bob.client):
        assert client.simulate_get(f"{pipeline.path}/builds").status_code == 200
        assert client.simulate_get(build.path).status_code == 200
        assert client.simulate_get(f"{build.path}/jobs").status_code == 200
        assert client.simulate_get(f"{pipeline.path}/builds/2").json["error"]["code"] == "build_not_found"


def test_a_private_pipelines_builds_are_no_ones_business(world: World, pipeline: PipelinePath):
    build = pipeline.build()

    for path in (
        f"{pipeline.path}/builds",
        build.path,
        f"{build.path}/jobs",
        "/api/v0/organizations/x/pipelines/y/builds",
    ):
        assert world.anonymous.simulate_get(path).status_code == 401, path


def test_a_bad_token_is_refused_even_where_none_is_needed(world: World, ada: Account):
    build = ada.pipeline("open", visibility="public").build()
    answered = world.anonymous.simulate_get(build.path, headers={"Authorization": "Bearer nonsense"})

    assert answered.status_code == 401


def test_a_draining_service_takes_no_new_builds(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    world.engine.draining = True
    answered = pipeline.post()

    assert answered.status_code == 503
    assert answered.json["error"]["code"] == "draining"
    assert answered.json["error"]["type"] == "service_unavailable"
    assert "Retry-After" in answered.headers
    assert build.get().status_code == 200
