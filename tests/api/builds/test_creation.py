from __future__ import annotations

import base64
import hashlib
import json
import tracemalloc

import pytest

from storage import BuildSettings, BuildState
from tests.api.world import HELLO, Account, BuildPath, PipelinePath, World
from tests.e2e.pipelines import Graph

ARCHIVE = b"\x1f\x8b any bytes: only base64 is checked here"
B64 = base64.b64encode(ARCHIVE).decode()


def code(answered: object) -> str:
    text: str = answered.json["error"]["code"]  # type: ignore[attr-defined]
    return text


def nothing_was_created(pipeline: PipelinePath) -> bool:
    listed = pipeline.account.client.simulate_get(f"{pipeline.path}/builds").json
    return listed == {"data": [], "next_cursor": None} and pipeline.account.world.engine.added == 0


def test_the_source_archive_is_kept_with_the_build(world: World, pipeline: PipelinePath):
    build = pipeline.build(source_b64=B64, source_sha256=hashlib.sha256(ARCHIVE).hexdigest().upper())

    assert build.stored.has_source
    assert world.storage.sources.path(build.stored.uuid).read_bytes() == ARCHIVE


def test_an_archive_is_in_memory_once_beside_its_text(pipeline: PipelinePath):
    body = json.dumps({"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO, "source_b64": "A" * 8 * 2**20})
    given = body.encode()
    del body
    tracemalloc.start()
    try:
        created = pipeline.account.client.simulate_post(f"{pipeline.path}/builds", body=given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert created.status_code == 201
    assert peak < 2.2 * len(given)


def test_line_breaks_in_base64_are_no_fault(world: World, pipeline: PipelinePath):
    build = pipeline.build(source_b64=f"{B64[:20]}\r\n{B64[20:]}\n")

    assert world.storage.sources.path(build.stored.uuid).read_bytes() == ARCHIVE


@pytest.mark.parametrize(
    ("ir", "need_vms"),
    [
        (HELLO, True),
        (Graph().step("only", "true", cache={"policy": "forever", "key": "k"}).ir(), False),
        (json.dumps({"version": "1", "jobs": {"only": {"run": "true"}}}), True),
        (json.dumps({"version": "1", "jobs": {"only": {"run": "true", "gate": {"environment": "e"}}}}), False),
        (json.dumps({"version": "1", "jobs": {"only": {"run": "true", "when": {"branch": "other"}}}}), False),
    ],
)
def test_the_engine_hears_whether_a_build_needs_vms(world: World, pipeline: PipelinePath, ir: str, *, need_vms: bool):
    """Or it asks whether a cache, a gate or conditions let it go on without one."""
    pipeline.build(pipeline_ir=ir)

    assert (world.engine.added, world.engine.needing_vms) == (1, int(need_vms))


@pytest.mark.parametrize("given", [None, ""])
def test_a_blank_source_is_none(pipeline: PipelinePath, given: object):
    assert not pipeline.build(source_b64=given).stored.has_source


@pytest.mark.parametrize("given", ["!!!", "abc", "YQ", "YQ=a", "=", "Y Q = =", "ünicode=", "-_-_", f"{B64}="])
def test_what_is_not_base64_leaves_no_row(pipeline: PipelinePath, given: str):
    answered = pipeline.post(source_b64=given)

    assert answered.status_code == 422
    assert code(answered) == "build_invalid"
    assert nothing_was_created(pipeline)


def test_the_jobs_check_the_digest_of_an_archive(pipeline: PipelinePath):
    """Creation of a build accepts one that does not match."""

    build = pipeline.build(source_b64=B64, source_sha256="0" * 64)

    assert build.stored.source_sha256 == "0" * 64


def test_env_is_stored_for_the_build(world: World, pipeline: PipelinePath):
    env = {"A": "1", "_b2": "", "LONG": "ü" * 100}
    build = pipeline.build(env=env)

    assert world.storage.builds.env(build.stored.id) == env


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"branch": ""}, "branch: expected a string that is not blank"),
        ({"branch": "b" * 256}, "branch: expected at most 255 characters"),
        ({"commit": None}, "commit: expected a string"),
        ({"message": "m" * 10_001}, "message: expected at most 10000 characters"),
        ({"env": []}, "env: expected an object"),
        ({"env": {"A": 1}}, "env.A: expected a string"),
        ({"env": {"A": None}}, "env.A: expected a string"),
        ({"env": {"A": "x\0y"}}, "env.A: expected no NUL character"),
        ({"env": {"": "x"}}, "env.: expected letters, digits and underscores, no digit first"),
        (
            {"env": {"A=B": "x"}},
            "env.A=B: expected letters, digits and underscores, no digit first",
        ),
        ({"env": {"1": "x"}}, "env.1: expected letters, digits and underscores, no digit first"),
        ({"env": {"A": "x" * 65_536}}, "env: expected at most 65536 bytes of names and values in all, not 65537"),
        ({"source": "hook"}, "source: expected 'api', 'ui', 'cli', 'webhook', 'schedule' or 'trigger_job'"),
        ({"source": 1}, "source: expected 'api', 'ui', 'cli', 'webhook', 'schedule' or 'trigger_job'"),
        ({"source": ["api"]}, "source: expected 'api', 'ui', 'cli', 'webhook', 'schedule' or 'trigger_job'"),
        ({"pipeline_ir": {"version": "0"}}, "pipeline_ir: expected a string"),
        ({"source_b64": 1}, "source_b64: expected a string"),
        ({"source_url": "u" * 256}, "source_url: expected at most 255 characters"),
        ({"source_sha256": "abc"}, "source_sha256: expected the SHA-256 as 64 hexadecimal digits"),
        ({"source_sha256": "g" * 64}, "source_sha256: expected the SHA-256 as 64 hexadecimal digits"),
    ],
)
def test_a_wrong_field_is_named_and_leaves_no_row(pipeline: PipelinePath, change: dict[str, object], message: str):
    answered = pipeline.post(**change)

    assert answered.status_code == 422
    assert code(answered) == "invalid_body"
    assert answered.json["error"]["message"] == message
    assert nothing_was_created(pipeline)


def test_nulls_are_defaults(pipeline: PipelinePath):
    fields = ("message", "env", "source", "source_b64", "source_url", "source_sha256")
    build = pipeline.build(**dict.fromkeys(fields))

    assert build.get().json["source"] == "api"
    assert build.get().json["message"] is None


@pytest.mark.parametrize(
    ("pipeline_ir", "error_code", "error_message"),
    [
        ("{", "invalid_json", "the pipeline IR is not valid JSON"),
        ('{"version": "1"}', "bad_version", 'expected version "0", got "1"'),
        ('{"version": "0", "steps": []}', "invalid_ir", "steps"),
        (None, "render_failed", "no source to render from: give pipeline_ir, source_b64 or source_url"),
        ("", "render_failed", "no source to render from: give pipeline_ir, source_b64 or source_url"),
        (" \n", "render_failed", "no source to render from: give pipeline_ir, source_b64 or source_url"),
    ],
)
def test_a_pipeline_that_cannot_be_planned_leaves_a_failed_build(
    world: World, pipeline: PipelinePath, pipeline_ir: str | None, error_code: str, error_message: str
):
    answered = pipeline.post(pipeline_ir=pipeline_ir)

    assert answered.status_code == 422
    error = answered.json["error"]
    assert error["code"] == "build_plan_rejected"
    assert error["build_number"] == 1
    record = pipeline.account.client.simulate_get(f"{pipeline.path}/builds/1").json
    assert record["state"] == "failed"
    assert record["error_code"] == error_code
    assert error_message in record["error_message"]
    assert record["error_message"] in error["message"]
    assert record["finished_at"] is not None
    assert world.engine.added == 0


def test_unknown_keys_are_named_and_the_build_is_made(pipeline: PipelinePath):
    step = {"type": "command", "key": "a", "cmd": "true", "cwd": "web", "runner_args": {"cpus": 1}}
    created = pipeline.post(pipeline_ir=json.dumps({"version": "0", "steps": [step]}))
    assert created.status_code == 201
    named = [
        'step "a": the key "cwd" has no effect: begin "cmd" with "cd FOLDER || exit"',
        'step "a": the key "runner_args.cpus" has no effect: did you mean "cpu"?',
    ]
    assert created.json["warnings"] == named
    client = pipeline.account.client
    assert client.simulate_get(f"{pipeline.path}/builds/1").json["warnings"] == named
    assert client.simulate_post(f"{pipeline.path}/builds/1/rebuild").json["warnings"] == named
    assert client.simulate_get(f"{pipeline.path}/builds").json["data"][0]["warnings"] == named


def test_the_plans_time_out_is_the_builds(pipeline: PipelinePath):
    ir = HELLO.replace('"version": "0"', '"version": "0", "timeout_seconds": 77')

    assert pipeline.build(pipeline_ir=ir).stored.timeout_seconds == 77


SOURCES = ("api", "ui", "cli", "webhook", "schedule", "trigger_job")


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_is_the_callers_label(pipeline: PipelinePath, source: str):
    assert pipeline.post(source=source).json["source"] == source


@pytest.mark.parametrize("source", [None, *SOURCES])
def test_manual_builds_may_be_switched_off(ada: Account, source: str | None):
    pipeline = ada.pipeline(allow_manual=False)
    answered = pipeline.post(source=source, branch=7)

    assert answered.status_code == 403
    assert code(answered) == "pipeline_manual_disabled"
    assert nothing_was_created(pipeline)


def test_a_body_that_is_no_object_counts_as_a_manual_build(ada: Account):
    pipeline = ada.pipeline(allow_manual=False)
    answered = ada.client.simulate_post(f"{pipeline.path}/builds", json=["x"])

    assert code(answered) == "pipeline_manual_disabled"


@pytest.mark.parametrize("cents", [0, -5])
def test_without_billing_a_balance_refuses_no_one(world: World, cents: int):
    assert world.sign_up("poor@example.org", cents=cents).pipeline().post().status_code == 201


@pytest.mark.usefixtures("credit_required")
@pytest.mark.parametrize("cents", [0, -5])
def test_where_credit_is_required_nothing_is_built_without(world: World, cents: int):
    poor = world.sign_up("poor@example.org", cents=cents)
    pipeline = poor.pipeline()
    answered = pipeline.post(branch=7)

    assert answered.status_code == 402
    assert answered.json["error"]["type"] == "billing"
    assert code(answered) == "billing_insufficient_balance"
    assert f"`ci-daemon ledger grant {poor.org} CENTS`" in answered.json["error"]["message"]
    assert "coupon" in answered.json["error"]["message"]
    assert nothing_was_created(pipeline)
    poor.grant(1 - cents)
    assert pipeline.post().status_code == 201


def test_with_too_many_builds_that_have_not_ended_none_is_made(world: World, pipeline: PipelinePath, bob: Account):
    world.storage.build_room.settings = BuildSettings(max_unfinished=2)
    first, _ = pipeline.build(), pipeline.build()
    answers = [
        pipeline.post(branch=7),
        pipeline.account.client.simulate_post(f"{first.path}/rebuild"),
        pipeline.account.client.simulate_post(f"{first.path}/retry"),
    ]

    assert [code(each) for each in answers] == ["too_many_builds"] * 3
    assert [(each.status_code, each.headers["Retry-After"]) for each in answers] == [(429, "60")] * 3
    assert answers[0].json["error"]["message"] == (
        "2 builds of the organization have not ended, of 2 at most: try again when some have ended, or cancel some"
    )
    assert len(world.storage.builds.unfinished()) == 2
    assert bob.pipeline().post().status_code == 201
    world.storage.builds.move(first.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert pipeline.post().status_code == 201


@pytest.mark.usefixtures("credit_required")
def test_the_order_of_refusals(world: World, ada: Account, bob: Account):
    pipeline = ada.pipeline(allow_manual=False)
    ada.grant(-1000)
    path = f"{pipeline.path}/builds"

    assert code(world.anonymous.simulate_post(path, body="{")) == "unauthorized"
    assert code(bob.client.simulate_post(path, body="{")) == "organization_not_found"
    assert code(ada.client.simulate_post(f"{ada.path}/pipelines/none/builds", body="{")) == "pipeline_not_found"
    assert code(ada.client.simulate_post(path, body="{", content_type="application/json")) == "malformed_json"
    assert code(pipeline.post(branch=7)) == "pipeline_manual_disabled"
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": True})
    assert code(pipeline.post(branch=7)) == "billing_insufficient_balance"
    ada.grant(1)
    assert code(pipeline.post(branch=7, source_b64="!")) == "invalid_body"
    assert code(pipeline.post(source_b64="!", pipeline_ir="{")) == "build_invalid"
    assert code(pipeline.post(pipeline_ir="{")) == "build_plan_rejected"


@pytest.mark.parametrize(("given", "kept"), [({}, False), ({"debug": None}, False), ({"debug": True}, True)])
def test_a_build_may_ask_for_the_vms_of_its_failed_jobs(pipeline: PipelinePath, given: dict[str, object], kept: bool):
    assert pipeline.build(**given).stored.debug is kept


def test_to_ask_for_vms_is_yes_or_no(pipeline: PipelinePath):
    refused = pipeline.account.client.simulate_post(
        f"{pipeline.path}/builds", json={"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO, "debug": "yes"}
    )
    assert (refused.status_code, code(refused)) == (422, "invalid_body")
    assert "debug: expected true or false" in refused.json["error"]["message"]


INPUTS = {
    "choice": {"choice": ["staging", "production"], "default": "staging"},
    "dry_run": {"boolean": True},
    "note": {},
}
WITH_INPUTS = json.dumps(
    {"version": "1", "on": {"manual": {"inputs": INPUTS}}, "jobs": {"a": {"run": "x", "image": "debian:12"}}}
)
HOSTILE = '$(touch x); "'


def test_a_build_has_the_inputs_that_it_was_given(world: World, pipeline: PipelinePath):
    given = {"choice": "production", "dry_run": True, "note": HOSTILE}
    build = pipeline.build(pipeline_ir=WITH_INPUTS, inputs=given)

    assert build.get().json["inputs"] == {**given, "dry_run": "true"}
    (job,) = world.storage.jobs.of_build(build.stored.id)
    assert job.env == {"INPUT_CHOICE": "production", "INPUT_DRY_RUN": "true", "INPUT_NOTE": HOSTILE}
    assert job.command == "x"
    assert pipeline.account.client.simulate_post(f"{build.path}/rebuild").json["inputs"] == {**given, "dry_run": "true"}
    (again,) = world.storage.jobs.of_build(BuildPath(pipeline.account, f"{pipeline.path}/builds/2").stored.id)
    assert again.env == job.env


def test_inputs_that_do_not_fit_fail_the_build(pipeline: PipelinePath):
    refused = pipeline.post(pipeline_ir=WITH_INPUTS, inputs={"choise": "x", "dry_run": "maybe"})

    assert (refused.status_code, code(refused)) == (422, "build_plan_rejected")
    assert refused.json["error"]["message"] == (
        'inputs_invalid: inputs: unknown input "choise": did you mean "choice"?;'
        ' inputs.dry_run: expected true or false, got "maybe"'
    )


@pytest.mark.parametrize(
    "inputs",
    [
        {f"i{place}": "x" for place in range(10_000)},
        {"note": "x" * 2**20},
        {"n" * 2**20: "x"},
        {"note": None},
        {"note": ["x"]},
        {"note": "a\0b"},
        ["note"],
    ],
    ids=["many", "long", "named at length", "null", "list", "nul", "no mapping"],
)
def test_inputs_without_bounds_or_form_create_nothing(pipeline: PipelinePath, inputs: object):
    refused = pipeline.post(pipeline_ir=WITH_INPUTS, inputs=inputs)

    assert code(refused) == "invalid_body"
    assert len(refused.text) < 2000
    assert nothing_was_created(pipeline)
