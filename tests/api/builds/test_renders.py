from __future__ import annotations

import base64
import json

import pytest
from falcon import testing

from actors.ir import IrSettings, load
from actors.render import DeclaredPipeline, Envelope
from storage import BuildState, Declaration, DeclaringRepository
from tests.api.world import HELLO, Account, BuildPath, PipelinePath, World

ARCHIVE = b"an archive, as far as anybody looks here"
SOURCE = {"pipeline_ir": None, "source_b64": base64.b64encode(ARCHIVE).decode()}


@pytest.fixture
def planning(world: World) -> None:
    """Plan every render at once, as the hello pipeline."""
    jobs = load(HELLO, IrSettings()).jobs
    world.engine.rendered = lambda build_id: world.storage.renders.plan(build_id, HELLO, None, jobs, has_source=True)


@pytest.fixture
def rejecting(world: World) -> None:
    """Refuse every render."""
    world.engine.rendered = lambda build_id: world.storage.renders.refuse(build_id, "render_failed", "nothing there")


def refused(answered: testing.Result, status: int) -> str:
    assert answered.status_code == status, answered.text
    code: str = answered.json["error"]["code"]
    return code


@pytest.mark.parametrize("source", [SOURCE, {"pipeline_ir": " ", "source_url": "https://example.org/a.tar.gz"}])
def test_a_build_from_source_is_answered_when_its_plan_stands(
    world: World, pipeline: PipelinePath, planning: None, source: dict[str, str | None]
):
    build = pipeline.build(**source)
    assert world.engine.rendering == [build.stored.id]
    assert build.stored.state is BuildState.SCHEDULED
    assert build.stored.has_source
    assert build.job().stored.step_key == "only"


def test_a_render_that_fails_is_a_rejected_plan(pipeline: PipelinePath, rejecting: None):
    answered = pipeline.post(**SOURCE)
    assert refused(answered, 422) == "build_plan_rejected"
    assert answered.json["error"]["message"] == "render_failed: nothing there"
    assert answered.json["error"]["build_number"] == 1


def test_a_key_tells_a_rejected_render_again(ada: Account, pipeline: PipelinePath, rejecting: None):
    body = json.dumps({"branch": "main", "commit": "c0ffee", **SOURCE})
    headers = {"Idempotency-Key": "once", "Content-Type": "application/json"}
    answers = [ada.client.simulate_post(f"{pipeline.path}/builds", body=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [422, 422]
    assert {answer.json["error"]["build_number"] for answer in answers} == {1}


def test_a_key_waits_for_the_render_that_is_under_way(world: World, ada: Account, pipeline: PipelinePath):
    body = json.dumps({"branch": "main", "commit": "c0ffee", **SOURCE})
    headers = {"Idempotency-Key": "once", "Content-Type": "application/json"}
    first = ada.client.simulate_post(f"{pipeline.path}/builds", body=body, headers=headers)
    assert refused(first, 503) == "busy"
    jobs = load(HELLO, IrSettings()).jobs
    plan = world.storage.renders.plan
    world.engine.during_waits = [lambda: plan(world.engine.rendering[0], HELLO, None, jobs, has_source=True) and None]
    second = ada.client.simulate_post(f"{pipeline.path}/builds", body=body, headers=headers)
    assert (second.status_code, second.json["number"]) == (201, 1)


def test_no_build_is_created_while_nothing_is_rendered(world: World, ada: Account, pipeline: PipelinePath):
    """A build that brings its own plan is created."""

    world.engine.renders_blocked = "the owner has drained this host"
    answered = pipeline.post(**SOURCE)
    assert refused(answered, 503) == "busy"
    expected = "no build was created, because none can be rendered now: the owner has drained this host"
    assert answered.json["error"]["message"] == expected
    assert int(answered.headers["Retry-After"]) > 0
    assert refused(ada.client.simulate_post(f"{ada.path}/builds", json=BY_REPO), 503) == "busy"
    assert pipeline.build().stored.number == 1


def test_a_canceled_render_is_a_canceled_build(world: World, pipeline: PipelinePath):
    world.engine.rendered = world.storage.renders.cancel
    assert pipeline.build(**SOURCE).stored.state is BuildState.CANCELED


@pytest.mark.parametrize(
    "url", ["ftp://example.org/a", "file:///etc/passwd", "https://", "http://a b", "https://user:pw@example.org/a"]
)
def test_an_address_that_no_vm_would_fetch_is_an_invalid_body(world: World, pipeline: PipelinePath, url: str):
    assert refused(pipeline.post(pipeline_ir=None, source_url=url), 422) == "invalid_body"
    assert world.engine.rendering == []


def test_the_runner_token_of_a_build_opens_its_source_alone(world: World, pipeline: PipelinePath, planning: None):
    build, other = pipeline.build(**SOURCE).stored, pipeline.build(**SOURCE).stored
    token = world.storage.runner_tokens.mint(build.id)

    def get(uuid: str, token: str) -> testing.Result:
        path = f"/api/v0/internal/builds/{uuid}/source.tar.gz"
        return world.anonymous.simulate_get(path, headers={"Authorization": f"Bearer {token}"})

    answered = get(build.uuid, token)
    assert (answered.status_code, answered.content) == (200, ARCHIVE)
    assert answered.headers["content-type"] == "application/gzip"
    assert refused(get(other.uuid, token), 404) == "source_not_found"
    assert refused(get(build.uuid, pipeline.account.token), 401) == "unauthorized"
    world.storage.runner_tokens.mint(build.id)
    assert refused(get(build.uuid, token), 401) == "unauthorized"


def test_a_runner_token_is_dead_when_its_build_is_over(world: World, pipeline: PipelinePath):
    world.engine.rendered = world.storage.renders.cancel
    build = pipeline.build(**SOURCE).stored
    token = world.storage.runner_tokens.mint(build.id)
    assert world.storage.runner_tokens.build(token) is None


def test_a_build_that_came_with_its_plan_has_no_render_log(pipeline: PipelinePath):
    assert refused(pipeline.build().get("/render-log"), 404) == "render_log_not_found"


def printed(world: World, build: BuildPath, text: bytes = b"printed\n") -> None:
    """Write a build's render log."""
    writer = world.storage.logs.writer(build.stored.uuid, "render", 1)
    writer.output(text)
    writer.end()
    writer.close()


def test_members_and_log_tokens_read_the_render_log(world: World, pipeline: PipelinePath, bob: Account, planning: None):
    build, other = pipeline.build(**SOURCE), pipeline.build(**SOURCE)
    printed(world, build)
    assert build.get("/render-log").text == "printed\n"
    path = f"{build.path}/render-log"
    assert refused(bob.client.simulate_get(path), 404) == "organization_not_found"
    token = build.token()
    assert world.anonymous.simulate_get(path, params={"token": token}).text == "printed\n"
    theirs = world.anonymous.simulate_get(f"{other.path}/render-log", params={"token": token})
    assert refused(theirs, 403) == "log_stream_forbidden"


def test_the_render_log_is_read_by_ranges_and_gone_when_logs_are(world: World, pipeline: PipelinePath, planning: None):
    build = pipeline.build(**SOURCE)
    printed(world, build)
    part = build.get("/render-log", headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.text, part.headers["Content-Range"]) == (206, "int", "bytes 2-4/8")
    beyond = build.get("/render-log", headers={"Range": "bytes=8-"})
    assert refused(beyond, 416) == "range_not_satisfiable"
    assert beyond.headers["X-Log-Complete"] == "true"
    assert refused(build.get("/render-log", params={"wait": "31"}), 422) == "invalid_wait"
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    world.storage.log_retention.measure()
    world.storage.log_retention.expire(world.storage.log_retention.oldest_first())
    assert refused(build.get("/render-log"), 410) == "log_expired"


def test_a_wait_for_the_render_log_ends_with_the_render(world: World, pipeline: PipelinePath):
    assert refused(pipeline.post(**SOURCE), 503) == "busy"
    build = BuildPath(pipeline.account, f"{pipeline.path}/builds/1")
    assert build.get("/render-log").headers["X-Log-Complete"] == "false"

    def ends() -> None:
        printed(world, build)
        world.storage.renders.refuse(build.stored.id, "render_failed", "nothing there")

    world.engine.during_waits = [ends]
    answered = build.get("/render-log", params={"wait": "30"})
    assert (answered.text, answered.headers["X-Log-Complete"]) == ("printed\n", "true")


BY_REPO = {"repo_name": "acme/demo", "source_slug": "ci", "branch": "main", "commit": "c0ffee", **SOURCE}


@pytest.mark.parametrize("plan", [None, HELLO], ids=["with the archive alone", "with a plan, too"])
def test_a_pipeline_that_the_source_declares_is_made(world: World, ada: Account, planning: None, plan: str | None):
    triggers = ({"event": "push", "branches": ["main"]},)
    world.engine.envelope = Envelope(
        (DeclaredPipeline("ci", "CI", allow_manual=True, triggers=triggers, definition={}),)
    )
    answered = ada.client.simulate_post(f"{ada.path}/builds", json=BY_REPO | {"pipeline_ir": plan})
    assert (answered.status_code, answered.json["pipeline_slug"]) == (201, "acme-demo-ci")
    pipeline = world.storage.pipelines.by_slug(ada.org_id, "acme-demo-ci")
    assert pipeline is not None
    assert pipeline.name == "CI"
    declaration = world.storage.declarations.get(pipeline.id)
    assert declaration is not None
    assert declaration.triggers == triggers


@pytest.mark.parametrize(
    "given", [{"source_b64": None}, {"source_b64": None, "pipeline_ir": HELLO}, {"pipeline_ir": HELLO}, {}]
)
def test_a_pipeline_that_nothing_declares_is_not_made(world: World, ada: Account, given: dict[str, str | None]):
    world.engine.envelope = Envelope(())
    answered = ada.client.simulate_post(f"{ada.path}/builds", json={**BY_REPO, **given})
    assert refused(answered, 404) == "pipeline_not_found"


def test_an_archived_pipeline_takes_no_builds(world: World, pipeline: PipelinePath):
    storage, org_id = world.storage, pipeline.account.org_id
    declared = Declaration("Demo", allow_manual=True, triggers=())
    made = storage.declarations.register(DeclaringRepository(org_id, "acme/demo", "acme/demo"), "ci", "main", declared)
    storage.declarations.follow(DeclaringRepository(org_id, "acme/demo", "acme/demo"), {})
    archived = PipelinePath(pipeline.account, f"{pipeline.account.path}/pipelines/{made.slug}")
    assert refused(archived.post(), 404) == "pipeline_not_found"
