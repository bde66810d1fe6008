from __future__ import annotations

import pytest

from storage import BuildState, Pipeline, Role, Storage
from tests.api.world import HELLO, Account, BuildPath, PipelinePath, World


@pytest.fixture
def stored(ada: Account, pipeline: PipelinePath, storage: Storage) -> Pipeline:
    """The pipeline's row before the change."""
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    return found


def finish(build: BuildPath) -> None:
    builds = build.account.world.storage.builds
    assert builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)


def test_what_is_given_changes_and_the_slug_stays(ada: Account, pipeline: PipelinePath):
    before = ada.client.simulate_get(pipeline.path).json
    change = {
        "name": "Another Name",
        "description": "d" * 10_000,
        "default_branch": "trunk",
        "visibility": "public",
        "allow_manual": False,
        "repo_name": "acme/other",
        "concurrency_group": "deploy {branch}",
        "concurrency_limit": 3,
        "cancel_superseded": "all",
        "strict_shell": True,
        "test_command": "rspec -e {tests}",
    }
    changed = ada.client.simulate_patch(pipeline.path, json=change)

    assert changed.status_code == 200
    assert changed.json == before | change
    assert changed.json["slug"] == "demo"
    assert ada.client.simulate_get(pipeline.path).json == changed.json


@pytest.mark.parametrize("body", [{}, {"slug": "else"}, {"repository": "https://x/y/z"}, {"created_at": None}])
def test_what_is_absent_or_unknown_stays(ada: Account, pipeline: PipelinePath, body: dict[str, object]):
    before = ada.client.simulate_get(pipeline.path).json

    assert ada.client.simulate_patch(pipeline.path, json=body).json == before


def test_null_empties_optional_fields(ada: Account, storage: Storage):
    pipeline = ada.pipeline(description="words", source_slug="ci")
    assert ada.client.simulate_patch(pipeline.path, json={"strict_shell": False}).json["strict_shell"] is False
    nulls = dict.fromkeys(("description", "repo_name", "source_slug", "strict_shell"))
    changed = ada.client.simulate_patch(pipeline.path, json=nulls)

    assert changed.status_code == 200
    assert (changed.json["description"], changed.json["repo_name"], changed.json["strict_shell"]) == (None, None, None)
    found = storage.pipelines.by_slug(ada.org_id, "demo")
    assert found is not None
    assert found.source_slug is None


def test_what_is_not_shown_is_changed_too(ada: Account, pipeline: PipelinePath, stored: Pipeline, storage: Storage):
    changed = ada.client.simulate_patch(pipeline.path, json={"source_slug": "ci", "fail_fast": True})

    assert changed.status_code == 200
    assert "source_slug" not in changed.json
    found = storage.pipelines.by_id(stored.id)
    assert found is not None
    assert (found.source_slug, found.fail_fast) == ("ci", True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "name: expected a string"),
        ({"name": " "}, "name: expected a string that is not blank"),
        ({"default_branch": ""}, "default_branch: expected a string that is not blank"),
        ({"visibility": None}, "visibility: expected 'private' or 'public'"),
        ({"allow_manual": None}, "allow_manual: expected true or false"),
        (
            {"test_command": "rspec {test}"},
            "test_command: expected {tests}, {suites} or {pattern} in it, which stand for the tests",
        ),
        ({"fail_fast": 1}, "fail_fast: expected true or false"),
        ({"description": "d" * 10_001}, "description: expected at most 10000 characters"),
        ({"repo_name": ""}, "repo_name: expected a string that is not blank"),
        ({"source_slug": "s" * 256}, "source_slug: expected at most 255 characters"),
        (["name"], "$: expected an object"),
    ],
)
def test_a_wrong_change_is_named_and_changes_nothing(
    ada: Account, pipeline: PipelinePath, stored: Pipeline, storage: Storage, change: object, message: str
):
    body = {"name": "Else", "visibility": "public", **change} if isinstance(change, dict) else change
    answered = ada.client.simulate_patch(pipeline.path, json=body)

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["message"] == message
    assert storage.pipelines.by_id(stored.id) == stored


def test_a_pipeline_made_private_is_read_by_members_only(world: World, ada: Account):
    pipeline = ada.pipeline(visibility="public")
    build = pipeline.build()
    assert world.anonymous.simulate_get(build.path).status_code == 200
    ada.client.simulate_patch(pipeline.path, json={"visibility": "private"})

    assert world.anonymous.simulate_get(build.path).status_code == 401


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_only_owners_and_admins_change_pipelines(
    world: World, ada: Account, bob: Account, pipeline: PipelinePath, method: str
):
    def answered(account: Account, path: str = pipeline.path, **options: object) -> str:
        result = account.client.simulate_request(method, path, **options)
        return "ok" if result.status_code < 300 else str(result.json["error"]["code"])

    assert world.anonymous.simulate_request(method, pipeline.path).status_code == 401
    assert answered(bob) == "organization_not_found"
    bob.join(ada, Role.MEMBER)
    assert answered(bob, f"{ada.path}/pipelines/none") == "pipeline_not_found"
    assert answered(bob, body="{") == "insufficient_org_role"
    carol = world.sign_up("carol@example.org")
    carol.join(ada, Role.ADMIN)
    assert answered(carol, json={}) == "ok"


def test_a_deleted_pipeline_leaves_lists_and_look_ups(world: World, ada: Account):
    pipeline = ada.pipeline(visibility="public")
    build = pipeline.build()
    job, token = build.job(), build.token()
    finish(build)
    deleted = ada.client.simulate_delete(pipeline.path)

    assert deleted.status_code == 204
    assert deleted.content == b""
    assert ada.client.simulate_get(f"{ada.path}/pipelines").json["data"] == []
    for path in (pipeline.path, f"{pipeline.path}/builds", build.path, f"{build.path}/jobs", job.path):
        answered = ada.client.simulate_get(path)
        assert (answered.status_code, answered.json["error"]["code"]) == (404, "pipeline_not_found"), path
        assert world.anonymous.simulate_get(path).status_code == 401
    for path in (f"{job.path}/log", f"/v0/jobs/{job.uuid}/logs"):
        assert world.anonymous.simulate_get(path, params={"token": token}).status_code in {403, 404}, path
    assert ada.client.simulate_get(f"/v0/jobs/{job.uuid}/logs").json["error"]["code"] == "job_not_found"
    assert ada.client.simulate_delete(pipeline.path).json["error"]["code"] == "pipeline_not_found"
    assert ada.client.simulate_patch(pipeline.path, json={}).json["error"]["code"] == "pipeline_not_found"
    assert pipeline.post().json["error"]["code"] == "pipeline_not_found"


@pytest.mark.parametrize(
    ("method", "below", "body"),
    [
        ("PATCH", "", {"name": "Else"}),
        ("PUT", "/secrets/TOKEN", {"value": "hush"}),
        ("POST", "/builds", {"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO}),
        ("POST", "/builds", {"branch": "main", "commit": "c0ffee", "pipeline_ir": "{"}),
    ],
)
def test_what_comes_while_it_is_deleted_finds_it_gone(
    ada: Account,
    pipeline: PipelinePath,
    stored: Pipeline,
    storage: Storage,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    below: str,
    body: dict[str, object],
):
    storage.pipelines.delete(stored.id)
    monkeypatch.setattr(storage.pipelines, "by_slug", lambda *_: stored)
    answered = ada.client.simulate_request(method, pipeline.path + below, json=body)

    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "pipeline_not_found"


def test_its_slug_is_free_for_a_pipeline_that_counts_from_one(ada: Account, pipeline: PipelinePath):
    finish(pipeline.build())
    ada.client.simulate_delete(pipeline.path)
    again = ada.pipeline()

    assert again.path == pipeline.path
    assert ada.client.simulate_get(again.path).json["build_count"] == 0
    assert again.build().get().json["number"] == 1


def test_a_cursor_of_its_builds_is_of_no_use_for_the_next_one(ada: Account, pipeline: PipelinePath):
    for _ in range(2):
        finish(pipeline.build())
    cursor = ada.client.simulate_get(f"{pipeline.path}/builds", params={"limit": "1"}).json["next_cursor"]
    ada.client.simulate_delete(pipeline.path)
    again = ada.pipeline()
    answered = ada.client.simulate_get(f"{again.path}/builds", params={"cursor": cursor})

    assert answered.json["error"]["code"] == "invalid_cursor"


def test_while_builds_run_it_is_not_deleted(ada: Account, pipeline: PipelinePath):
    build = pipeline.build()
    refused = ada.client.simulate_delete(pipeline.path)

    assert refused.status_code == 409
    assert refused.json["error"]["type"] == "conflict"
    assert refused.json["error"]["code"] == "pipeline_busy"
    assert refused.json["error"]["message"].startswith('"demo" cannot be deleted: 1 of its builds')
    finish(build)
    assert ada.client.simulate_delete(pipeline.path).status_code == 204
