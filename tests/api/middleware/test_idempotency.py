from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from falcon import testing

from storage import BuildState, Role
from tests.api.world import HELLO, Account, PipelinePath, World
from tests.clock import ManualClock

BODY = {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}


def post(account: Account, path: str, key: str | None = "push-1", **fields: Any) -> testing.Result:
    headers = {} if key is None else {"Idempotency-Key": key}
    return account.client.simulate_post(f"{path}/builds", json={**BODY, **fields}, headers=headers)


def count(pipeline: PipelinePath) -> int:
    number: int = pipeline.account.client.simulate_get(pipeline.path).json["build_count"]
    return number


def test_the_same_request_is_answered_with_the_same_build(world: World, ada: Account, pipeline: PipelinePath):
    first = post(ada, pipeline.path)
    again = post(ada, pipeline.path)

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json == first.json
    assert count(pipeline) == 1
    assert world.engine.added == 1


def test_the_build_is_shown_as_it_is_by_then(world: World, ada: Account, pipeline: PipelinePath):
    post(ada, pipeline.path)
    build = world.storage.builds.find(ada.org, "demo", 1)
    assert build is not None
    world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)

    assert post(ada, pipeline.path).json["state"] == "passed"


def test_without_a_key_every_request_makes_a_build(ada: Account, pipeline: PipelinePath):
    post(ada, pipeline.path, key=None)
    post(ada, pipeline.path, key=None)
    post(ada, pipeline.path, key="push-2")

    assert count(pipeline) == 3


@pytest.mark.parametrize("change", [{"commit": "beef"}, {"message": ""}, {"branch": 7}])
def test_another_body_under_the_same_key_is_refused(ada: Account, pipeline: PipelinePath, change: dict[str, object]):
    post(ada, pipeline.path)
    answered = post(ada, pipeline.path, **change)

    assert answered.status_code == 409
    assert answered.json["error"]["type"] == "conflict"
    assert answered.json["error"]["code"] == "idempotency_conflict"
    assert count(pipeline) == 1


def test_another_path_is_another_request(ada: Account, pipeline: PipelinePath):
    other = ada.pipeline("other", source_slug="ci")
    by_repo = {"repo_name": "acme/demo", "source_slug": "ci"}
    post(ada, pipeline.path, **by_repo)

    assert post(ada, other.path, **by_repo).json["error"]["code"] == "idempotency_conflict"
    assert post(ada, ada.path, **by_repo).json["error"]["code"] == "idempotency_conflict"
    assert count(other) == 0


def test_builds_by_repository_have_keys_too(ada: Account):
    pipeline = ada.pipeline(source_slug="ci")
    by_repo = {"repo_name": "acme/demo", "source_slug": "ci"}
    first = post(ada, ada.path, **by_repo)

    assert first.status_code == 201
    assert post(ada, ada.path, **by_repo).json == first.json
    assert count(pipeline) == 1


def test_keys_are_of_the_user_and_the_organization(ada: Account, bob: Account, pipeline: PipelinePath):
    bob.join(ada, Role.MEMBER)
    post(ada, pipeline.path)

    assert post(bob, pipeline.path, commit="beef").json["number"] == 2
    assert post(bob, bob.pipeline().path).json["number"] == 1


@pytest.mark.usefixtures("credit_required")
def test_a_refused_request_does_not_use_its_key_up(world: World, ada: Account):
    pipeline = ada.pipeline(allow_manual=False)
    ada.grant(-1000)
    assert post(ada, pipeline.path).status_code == 403
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": True})
    assert post(ada, pipeline.path).status_code == 402
    ada.grant(1000)
    assert post(ada, pipeline.path, branch=7).status_code == 422
    assert post(ada, pipeline.path, source_b64="!").status_code == 422
    world.engine.draining = True
    assert post(ada, pipeline.path).status_code == 503
    world.engine.draining = False

    assert post(ada, pipeline.path).status_code == 201


def test_a_rejected_build_is_rejected_again_by_its_key(ada: Account, pipeline: PipelinePath):
    """No second build is created."""

    first = post(ada, pipeline.path, pipeline_ir="{")
    again = post(ada, pipeline.path, pipeline_ir="{")

    def document(answered: testing.Result) -> dict[str, object]:
        return {name: value for name, value in answered.json["error"].items() if name != "request_id"}

    assert (first.status_code, again.status_code) == (422, 422)
    assert document(again) == document(first)
    assert document(again)["build_number"] == 1
    assert count(pipeline) == 1


def test_a_repeat_gets_its_build_even_if_new_ones_are_refused(world: World, ada: Account, pipeline: PipelinePath):
    first = post(ada, pipeline.path)
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": False})
    ada.grant(-1000)
    world.engine.draining = True

    assert post(ada, pipeline.path).json == first.json


def test_after_a_day_a_key_is_free(ada: Account, pipeline: PipelinePath, clock: ManualClock):
    post(ada, pipeline.path)
    clock.advance(24 * 3600 - 1)
    assert post(ada, pipeline.path).json["number"] == 1
    clock.advance(1)
    assert post(ada, pipeline.path, commit="beef").json["number"] == 2


def test_the_next_pipeline_of_a_slug_is_another(world: World, ada: Account, pipeline: PipelinePath):
    first = post(ada, pipeline.path)
    build = world.storage.builds.find(ada.org, "demo", 1)
    assert build is not None
    world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    ada.client.simulate_delete(pipeline.path)
    ada.pipeline()

    assert post(ada, pipeline.path).json["id"] != first.json["id"]


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_that_is_none_is_refused(ada: Account, pipeline: PipelinePath, key: str):
    answered = post(ada, pipeline.path, key)

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_idempotency_key"
    assert count(pipeline) == 0


@pytest.mark.parametrize("key", ["k" * 255, "a key, with 'quotes'; and : colons", "\xfcml\xe4ut"])
def test_any_string_is_a_key(ada: Account, pipeline: PipelinePath, key: str):
    assert post(ada, pipeline.path, key).json == post(ada, pipeline.path, key).json
    assert count(pipeline) == 1


@pytest.mark.parametrize("ir", [HELLO, "{"])
def test_of_many_at_once_one_makes_the_build(world: World, ada: Account, pipeline: PipelinePath, ir: str):
    ready = threading.Barrier(6)

    def send(_: int) -> testing.Result:
        ready.wait()
        return post(ada, pipeline.path, pipeline_ir=ir)

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(send, range(6)))

    assert {answered.status_code for answered in answers} == {201 if ir == HELLO else 422}
    assert count(pipeline) == 1
    assert world.engine.added == (1 if ir == HELLO else 0)
