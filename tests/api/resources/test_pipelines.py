from __future__ import annotations

import pytest

from storage import Storage
from tests.api.world import Account, PipelinePath, World

BODY = {"name": "Build & Test", "repository": "git@example.org:acme/tools.git", "default_branch": "main"}


def test_a_pipeline_is_created_with_a_slug_from_its_name(ada: Account):
    created = ada.client.simulate_post(f"{ada.path}/pipelines", json=BODY)

    assert created.status_code == 201
    assert created.json == {
        "slug": "build-test",
        "name": "Build & Test",
        "repository": "git@example.org:acme/tools.git",
        "default_branch": "main",
        "visibility": "private",
        "allow_manual": True,
        "build_count": 0,
        "created_at": "2026-01-02T03:04:05.000000Z",
        "description": None,
        "repo_name": "acme/tools",
        "concurrency_group": None,
        "concurrency_limit": 1,
        "cancel_superseded": None,
        "fail_fast": False,
        "strict_shell": None,
        "find_culprits": None,
        "test_command": None,
        "artifacts_public": False,
        "followers": [],
    }


def test_every_field_may_be_given(ada: Account):
    given = {"description": "d" * 10_000, "repo_name": "other/name", "visibility": "public", "allow_manual": False}
    created = ada.client.simulate_post(f"{ada.path}/pipelines", json={**BODY, **given})

    assert created.status_code == 201
    assert {key: created.json[key] for key in given} == given


@pytest.mark.parametrize("fail_fast", [True, False, None])
def test_fail_fast_can_be_set_and_is_shown(ada: Account, storage: Storage, fail_fast: bool | None):
    body = BODY if fail_fast is None else {**BODY, "fail_fast": fail_fast}
    created = ada.client.simulate_post(f"{ada.path}/pipelines", json=body)

    assert created.status_code == 201
    assert created.json["fail_fast"] is bool(fail_fast)
    made = storage.pipelines.by_slug(ada.org_id, created.json["slug"])
    assert made is not None
    assert made.fail_fast is bool(fail_fast)


def test_null_is_the_same_as_absent(ada: Account):
    nulls = dict.fromkeys(("description", "repo_name", "visibility", "allow_manual", "fail_fast"))
    created = ada.client.simulate_post(f"{ada.path}/pipelines", json={**BODY, **nulls})

    assert created.status_code == 201
    assert created.json["visibility"] == "private"
    assert created.json["allow_manual"] is True
    assert created.json["repo_name"] == "acme/tools"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "…"}, "name: expected at least one letter a-z or digit"),
        ({"repository": ""}, "repository: expected a string that is not blank"),
        ({"default_branch": None}, "default_branch: expected a string"),
        ({"description": "d" * 10_001}, "description: expected at most 10000 characters"),
        ({"visibility": "secret"}, "visibility: expected 'private' or 'public'"),
        ({"allow_manual": "yes"}, "allow_manual: expected true or false"),
        ({"fail_fast": 1}, "fail_fast: expected true or false"),
        ({"repo_name": 1}, "repo_name: expected a string"),
    ],
)
def test_a_wrong_field_is_named(ada: Account, change: dict[str, object], message: str):
    answered = ada.client.simulate_post(f"{ada.path}/pipelines", json={**BODY, **change})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["message"] == message


def test_a_slug_is_taken_once_in_an_organization(ada: Account, bob: Account):
    ada.pipeline("demo")
    answered = ada.client.simulate_post(f"{ada.path}/pipelines", json={**BODY, "name": "Demo!"})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "pipeline_slug_taken"
    assert bob.pipeline("demo").path.endswith("/demo")


def test_a_pipeline_counts_its_builds(ada: Account, pipeline: PipelinePath):
    pipeline.build()
    pipeline.build()

    assert ada.client.simulate_get(pipeline.path).json["build_count"] == 2
    assert ada.client.simulate_get(f"{ada.path}/pipelines").json["data"][0]["build_count"] == 2


def test_pipelines_are_listed_oldest_first(ada: Account):
    names = ["zulu", "alpha", "mike"]
    for name in names:
        ada.pipeline(name)

    assert [row["slug"] for row in ada.client.simulate_get(f"{ada.path}/pipelines").json["data"]] == names


def test_a_non_member_sees_no_organization(world: World, ada: Account, bob: Account):
    pipeline = ada.pipeline(visibility="public")
    for path in (f"{ada.path}/pipelines", pipeline.path):
        answered = bob.client.simulate_get(path)
        assert answered.status_code == 404
        assert answered.json["error"]["code"] == "organization_not_found"
        assert world.anonymous.simulate_get(path).status_code == 401
    assert bob.client.simulate_post(f"{ada.path}/pipelines", json=BODY).status_code == 404


def test_an_unknown_pipeline_is_named(ada: Account):
    answered = ada.client.simulate_get(f"{ada.path}/pipelines/nothing")

    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "pipeline_not_found"
    assert "nothing" in answered.json["error"]["message"]


def test_a_refused_caller_is_refused_before_its_body_is_read(bob: Account, ada: Account):
    answered = bob.client.simulate_post(f"{ada.path}/pipelines", body="not json", content_type="text/plain")

    assert answered.json["error"]["code"] == "organization_not_found"


def test_followers_are_organizations_that_are_there(ada: Account, pipeline: PipelinePath):
    refused = ada.client.simulate_patch(pipeline.path, json={"followers": ["nobody"]})
    assert refused.status_code == 422
    assert refused.json["error"]["message"] == 'followers: there is no organization "nobody"'
    own = ada.path.rpartition("/")[2]
    changed = ada.client.simulate_patch(pipeline.path, json={"followers": [own, own]})
    assert changed.json["followers"] == [own]
    assert ada.client.simulate_patch(pipeline.path, json={"fail_fast": True}).json["followers"] == [own]
    assert ada.client.simulate_patch(pipeline.path, json={"followers": []}).json["followers"] == []
