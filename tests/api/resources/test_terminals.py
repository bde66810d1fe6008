"""Terminals as the API takes and refuses them; no VM is made here."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from falcon import testing

from actors.forks import DiskGone, ForkBusy, Shown, TooManyTerminals
from actors.vms import ConnectionLost, VmError
from storage import Role, Scope, SecretScope, TokenLimits
from tests.api.world import Account, BuildPath, PipelinePath, World, steps

STEP = {"key": "one", "cmd": "make", "runner_args": {"secrets": ["TOKEN"]}}
WITH_SECRET = json.dumps({"version": "0", "graph": {"nodes": [{"step": STEP, "env": {}}], "edges": []}})


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("one"))


def opened(build: BuildPath, by: Account, **body: Any) -> testing.Result:
    return by.client.simulate_post(f"{job_of(build)}/terminals", json=body)


def job_of(build: BuildPath) -> str:
    return f"{build.path}/jobs/{build.job().stored.uuid}"


@pytest.fixture
def path(ada: Account, build: BuildPath) -> str:
    """The path of a terminal of Ada's."""
    return f"{job_of(build)}/terminals/{opened(build, ada).json['id']}"


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def typing(at: int, data: bytes) -> dict[str, Any]:
    return {"at": at, "data": base64.b64encode(data).decode()}


def events(answered: testing.Result) -> list[tuple[str, str | None, Any]]:
    """Return the name, id and data of the events of a stream."""
    found = []
    for text in answered.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        if "event" in fields:
            data = fields["data"]
            of_name = base64.b64decode(data) if fields["event"] == "output" else json.loads(data)
            found.append((fields["event"], fields.get("id"), of_name))
    return found


def test_a_terminal_is_opened_as_asked_and_closed(world: World, ada: Account, build: BuildPath):
    answered = opened(build, ada, before=True, columns=100, rows=30)
    assert (answered.status_code, answered.json["before"], answered.json["ended_at"]) == (201, True, None)
    path = f"{job_of(build)}/terminals/{answered.json['id']}"
    assert ada.client.simulate_post(f"{path}/size", json={"columns": 1000, "rows": 1}).status_code == 204
    assert ada.client.simulate_delete(path).status_code == 204
    ended = ada.client.simulate_get(path).json
    assert (ended["why_ended"], ended["ended_at"] is None) == ("it was closed", False)
    assert code(ada.client.simulate_post(f"{path}/input", json=typing(0, b"ls"))) == (410, "terminal_ended")
    assert events(ada.client.simulate_get(f"{path}/output")) == [("end", None, {"why": "it was closed"})]
    fake = world.engine.terminals
    assert (fake.opened, fake.sizes) == ([(build.job().stored.id, True, 100, 30)], [(1000, 1)])
    acts = [each.action for each in world.storage.audit.page(50, None).rows if "Terminal" in each.action]
    assert acts == ["closeTerminal", "openTerminal"]  # and not what was typed


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (DiskGone("gone"), (410, "disk_not_kept")),
        (TooManyTerminals("four are open"), (409, "too_many_terminals")),
        (ForkBusy("no room"), (503, "busy")),
        (VmError("no VM"), (503, "busy")),
    ],
)
def test_what_the_engine_refuses_is_said(
    world: World, ada: Account, build: BuildPath, failure: Exception, expected: tuple[int, str]
):
    world.engine.terminals.refusal = failure
    answered = opened(build, ada)
    assert code(answered) == expected
    assert str(failure) in answered.json["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        typing(-1, b"a"),
        typing(0, b""),
        typing(0, bytes(16 * 2**10 + 1)),
        {"at": 0, "data": "no Base64"},
        {"at": 0, "data": "YQ"},
        {"at": 0},
        {"at": 2**53, "data": "YQ=="},
    ],
)
def test_input_is_bounded(world: World, ada: Account, path: str, body: dict[str, Any]):
    assert code(ada.client.simulate_post(f"{path}/input", json=body)) == (422, "invalid_body")
    assert world.engine.terminals.typed == b""


def test_input_that_was_taken_is_not_typed_again(world: World, ada: Account, path: str):
    for body in (typing(0, b"ls"), typing(0, b"ls -l"), typing(2, b" -l\r")):
        typed = ada.client.simulate_post(f"{path}/input", json=body).json["typed"]
    assert (typed, world.engine.terminals.typed) == (6, b"ls -l\r")


def test_output_goes_on_after_the_byte_that_came_last(world: World, ada: Account, path: str):
    world.engine.terminals.shows = [Shown(b"a\x1b[m", 14), Shown(b"", 99, left_out=85), Shown(b"b", 100, exit_code=7)]
    answered = ada.client.simulate_get(f"{path}/output", headers={"Last-Event-ID": "10"})
    assert events(answered) == [
        ("begin", None, {"typed": 0}),
        ("output", "14", b"a\x1b[m"),
        ("lost", "99", {"left_out": 85}),
        ("output", "100", b"b"),
        ("exit", None, {"exit_code": 7}),
    ]
    assert world.engine.terminals.looks == [10]
    assert ada.client.simulate_get(path).json["why_ended"] == "its shell has ended with exit code 7"
    assert ada.client.simulate_get(f"{ada.path}/terminals").json["data"] == []


def test_a_stream_without_its_vm_ends_to_be_asked_again(world: World, ada: Account, path: str):
    world.engine.terminals.shows = [ConnectionLost("the connection dropped")]
    assert [each[0] for each in events(ada.client.simulate_get(f"{path}/output"))] == ["begin"]


def test_a_stream_ends_with_the_token_of_its_reader(world: World, ada: Account, path: str):
    token, secret = world.storage.tokens.create_api_key(ada.user.id, "elsewhere")

    def revoke() -> None:
        world.storage.tokens.revoke_named(token.uuid)
        world.clock.advance(1)

    world.engine.terminals.shows = [revoke, Shown(b"secret", 6)]
    headers = {"Authorization": f"Bearer {secret}"}
    seen = events(world.anonymous.simulate_get(f"{path}/output", headers=headers))
    assert [each[0] for each in seen] == ["begin", "end"]


def test_a_terminal_is_its_users_alone(world: World, ada: Account, path: str):
    grace = world.sign_up("grace@example.org")
    grace.join(ada, Role.OWNER)
    (mine,) = ada.client.simulate_get(f"{ada.path}/terminals").json["data"]
    assert path.endswith(f"/{mine['build_number']}/jobs/{mine['job_id']}/terminals/{mine['id']}")
    assert grace.client.simulate_get(f"{ada.path}/terminals").json["data"] == []
    for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/output")):
        assert code(grace.client.simulate_request(method, path + below)) == (404, "terminal_not_found")
    for below, body in (("/input", typing(0, b"ls")), ("/size", {"columns": 80, "rows": 24})):
        assert code(grace.client.simulate_post(path + below, json=body)) == (404, "terminal_not_found")


def test_a_disk_that_may_hold_limited_secrets_is_for_admins(world: World, ada: Account, pipeline: PipelinePath):
    grace = world.sign_up("grace@example.org")
    build = pipeline.build(pipeline_ir=WITH_SECRET)
    grace.join(ada, Role.MEMBER)
    scope = SecretScope(build.stored.organization_id)
    path = f"{job_of(build)}/terminals/{opened(build, grace).json['id']}"
    world.storage.secrets.put(scope, "TOKEN", "hunter2-and-more", {"branches": ("main",)})
    assert code(opened(build, grace)) == (403, "insufficient_org_role")
    assert code(grace.client.simulate_post(f"{path}/input", json=typing(0, b"ls"))) == (403, "insufficient_org_role")
    assert code(grace.client.simulate_get(f"{path}/output")) == (403, "insufficient_org_role")


def test_a_key_needs_the_scope_and_a_budget(world: World, ada: Account, build: BuildPath, path: str):
    for scope, expected in ((Scope.START, 403), (Scope.FORK, 201)):
        limits = TokenLimits(scopes=(scope,), budget_cents=100)
        _, key = world.storage.tokens.create_api_key(ada.user.id, "an agent", limits=limits)
        headers = {"Authorization": f"Bearer {key}"}
        answered = world.anonymous.simulate_post(f"{job_of(build)}/terminals", json={}, headers=headers)
        assert answered.status_code == expected
        assert world.anonymous.simulate_get(f"{path}/output", headers=headers).status_code == (
            403 if scope is Scope.START else 200
        )
