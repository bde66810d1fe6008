from __future__ import annotations

import io
import logging

import pytest

from storage import Role
from tests.api.world import Account, PipelinePath, World

LIMITS = ("branches", "tags", "events", "environments", "pipelines")
VALUE = "hunter2-✓\n-and-more"


@pytest.fixture(params=["organization", "pipeline"])
def secrets(request: pytest.FixtureRequest, ada: Account, pipeline: PipelinePath) -> str:
    """The path of the secrets of an organization or a pipeline."""
    return f"{ada.path if request.param == 'organization' else pipeline.path}/secrets"


def test_a_secret_is_set_and_listed_and_never_shown(world: World, ada: Account, secrets: str):
    first = ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": VALUE})
    assert first.status_code == 200
    assert first.json == {
        "name": "TOKEN",
        **{key: [] for key in LIMITS},
        "source": None,
        "created_at": "2026-01-02T03:04:05.000000Z",
        "updated_at": "2026-01-02T03:04:05.000000Z",
    }
    world.clock.advance(1)
    again = ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "another", "ignored": 1})
    assert again.json == {**first.json, "updated_at": "2026-01-02T03:04:06.000000Z"}
    ada.client.simulate_put(f"{secrets}/KEY", json={"value": "k"})

    listed = ada.client.simulate_get(secrets)
    assert listed.status_code == 200
    assert [secret["name"] for secret in listed.json["data"]] == ["KEY", "TOKEN"]
    assert listed.json["data"][1] == again.json
    assert ada.client.simulate_get(f"{secrets}/TOKEN").status_code == 405


def test_limits_are_set_changed_and_taken_away(ada: Account, secrets: str):
    """A value that is set anew keeps them: nobody loses a limit by rotating a secret."""
    body = {"value": VALUE, "branches": ["main", "release-*", "main"], "events": ["push"]}
    first = ada.client.simulate_put(f"{secrets}/TOKEN", json=body).json
    assert (first["branches"], first["events"], first["tags"]) == (["main", "release-*"], ["push"], [])
    assert ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "rotated"}).json["branches"] == first["branches"]
    changed = ada.client.simulate_patch(f"{secrets}/TOKEN", json={"events": [], "environments": ["production"]})
    assert changed.status_code == 200, changed.text
    assert changed.json == {**first, "events": [], "environments": ["production"]}
    assert ada.client.simulate_get(secrets).json["data"] == [changed.json]
    assert ada.client.simulate_patch(f"{secrets}/MISSING", json={"tags": ["v*"]}).status_code == 404


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"branches": [""]}, "branches: expected patterns of 1 to 255 characters that can be shown"),
        ({"tags": ["v\n"]}, "tags: expected patterns of 1 to 255 characters that can be shown"),
        ({"branches": ["refs/heads/main"]}, "branches: expected the name alone, without the refs/ of refs/heads/main"),
        ({"events": ["webhook"]}, "events: expected push, tag, pull_request, schedule, pipeline, manual, api, not web"),
        ({"pipelines": ["a"] * 51}, "pipelines: expected at most 50 patterns"),
        ({"pipelines": None}, "pipelines: expected an array"),
    ],
)
def test_a_limit_out_of_bounds_changes_nothing(ada: Account, secrets: str, limits: dict[str, object], message: str):
    ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": VALUE})
    for answered in (
        ada.client.simulate_patch(f"{secrets}/TOKEN", json=limits),
        ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "other", **limits}),
    ):
        assert answered.status_code == 422
        assert message in answered.json["error"]["message"]
    assert ada.client.simulate_get(secrets).json["data"][0]["branches"] == []


def test_the_two_scopes_are_apart(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_put(f"{ada.path}/secrets/TOKEN", json={"value": "a"})
    assert ada.client.simulate_get(f"{pipeline.path}/secrets").json == {"data": []}
    assert ada.client.simulate_delete(f"{pipeline.path}/secrets/TOKEN").status_code == 404
    ada.client.simulate_put(f"{pipeline.path}/secrets/TOKEN", json={"value": "b"})
    assert ada.client.simulate_delete(f"{ada.path}/secrets/TOKEN").status_code == 204
    assert len(ada.client.simulate_get(f"{pipeline.path}/secrets").json["data"]) == 1


def test_a_deleted_secret_is_none(ada: Account, secrets: str):
    ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "a"})
    assert ada.client.simulate_delete(f"{secrets}/TOKEN").status_code == 204
    assert ada.client.simulate_get(secrets).json == {"data": []}
    answered = ada.client.simulate_delete(f"{secrets}/TOKEN")
    assert answered.status_code == 404
    assert answered.json["error"]["code"] == "secret_not_found"


@pytest.mark.parametrize("role", [Role.MEMBER, Role.ADMIN, Role.OWNER])
def test_members_read_names_and_admins_set_and_delete(ada: Account, bob: Account, secrets: str, role: Role):
    ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "a"})
    bob.join(ada, role)
    assert bob.client.simulate_get(secrets).json["data"][0]["name"] == "TOKEN"
    answers = [
        bob.client.simulate_put(f"{secrets}/-", body=b"no json"),
        bob.client.simulate_put(f"{secrets}/TOKEN", json={"value": "a"}),
        bob.client.simulate_delete(f"{secrets}/MISSING"),
        bob.client.simulate_delete(f"{secrets}/TOKEN"),
    ]
    if role is Role.MEMBER:
        assert [answered.json["error"]["code"] for answered in answers] == ["insufficient_org_role"] * 4
        assert [answered.status_code for answered in answers] == [403] * 4
    else:
        assert [answered.status_code for answered in answers] == [400, 200, 404, 204]


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("TOKEN", {}, "value: expected either a value or a source, and only one of them"),
        ("TOKEN", {"value": "a", "source": {}}, "value: expected either a value or a source, and only one of them"),
        ("TOKEN", {"source": {"kind": "x"}}, "source: expected the kind vault or http, not 'x'"),
        ("TOKEN", {"value": 1}, "value: expected a string"),
        ("TOKEN", {"value": ""}, "value: expected 1 to 65536 bytes of UTF-8, not 0"),
        ("TOKEN", {"value": "é" * 32_769}, "value: expected 1 to 65536 bytes of UTF-8, not 65538"),
        ("TOKEN", {"value": "a\0b"}, "value: expected no NUL character"),
        ("TO-KEN", {"value": "a"}, "name: expected 1 to 255 letters, digits and underscores, no digit first"),
        ("x" * 256, {"value": "a"}, "name: expected 1 to 255 letters, digits and underscores, no digit first"),
        ("CI_TOKEN", {"value": "a"}, "name: expected another name than CI_TOKEN, which the service sets itself"),
    ],
)
def test_an_invalid_secret_is_refused(ada: Account, secrets: str, name: str, body: dict[str, object], message: str):
    answered = ada.client.simulate_put(f"{secrets}/{name}", json=body)
    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_body"
    assert answered.json["error"]["message"] == message
    assert ada.client.simulate_get(secrets).json == {"data": []}


def test_the_largest_value_comes_to_the_job_as_it_is(world: World, ada: Account, pipeline: PipelinePath, secrets: str):
    value = '"\\\n\t\x7f🔑' + "é" * 32_763
    assert len(value.encode()) == 65_535
    assert ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": value}).status_code == 200
    build = pipeline.build(
        pipeline_ir='{"version": "0", "steps": [{"type": "command", "key": "only", "cmd": "true",'
        ' "runner_args": {"secrets": ["TOKEN"]}}]}'
    )
    assert world.storage.job_secrets.resolve(build.stored, build.job().stored) == {"TOKEN": value}


def test_no_line_of_the_log_and_no_answer_holds_a_value(ada: Account, pipeline: PipelinePath, secrets: str):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        answers = [
            ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "nobody-reads"}),
            ada.client.simulate_put(f"{secrets}/TO-KEN", json={"value": "nobody-reads"}),
            ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": ["nobody-reads"]}),
            ada.client.simulate_put(f"{secrets}/TOKEN", json={"value": "nobody-reads\0"}),
            ada.client.simulate_put(
                f"{secrets}/TOKEN", body=b'{"value": "nobody-reads', headers={"Content-Type": "application/json"}
            ),
            pipeline.post(env={"KEY": "nobody-reads"}),
            pipeline.post(env={"KEY": "nobody-reads\0"}),
            pipeline.post(env={"nobody-reads": ""}),
        ]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert [answered.status_code for answered in answers] == [200, 422, 422, 422, 400, 201, 422, 422]
    assert "answered" in stream.getvalue()
    assert "nobody-reads" not in stream.getvalue()
    assert all("nobody-reads" not in answered.text for answered in answers[:-1])
