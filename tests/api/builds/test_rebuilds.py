from __future__ import annotations

import base64

import pytest
from falcon import testing

from actors.ir import IrSettings, load
from storage import BuildState, JobState
from tests.api.world import HELLO, Account, BuildPath, PipelinePath, World, steps

ARCHIVE = b"an archive, as far as anybody looks here"
SOURCE_B64 = base64.b64encode(ARCHIVE).decode()
SECOND = "second"


def rebuild(build: BuildPath, **options: object) -> testing.Result:
    return build.account.client.simulate_post(f"{build.path}/rebuild", **options)


def rebuilt(build: BuildPath) -> BuildPath:
    """Rebuild a build, which must succeed."""
    answered = rebuild(build)
    assert answered.status_code == 201, answered.text
    return BuildPath(build.account, f"{build.path.rsplit('/', 1)[0]}/{answered.json['number']}")


def code(answered: testing.Result) -> str:
    text: str = answered.json["error"]["code"]
    return text


def finish(world: World, build: BuildPath) -> None:
    assert world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.FAILED)


def expire_sources(world: World) -> None:
    kept = world.storage.source_retention
    kept.measure()
    kept.expire(kept.oldest_first())


@pytest.fixture
def first(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(
        pipeline_ir=steps("lint", SECOND),
        source_b64=SOURCE_B64,
        source_sha256="ab" * 32,
        env={"TARGET": "release"},
        message="first",
        source="webhook",
        debug=True,
    )


def test_a_rebuild_is_the_same_build_again_and_says_so(world: World, first: BuildPath):
    finish(world, first)
    world.clock.advance(days=3)
    world.storage.source_retention.measure()

    again = rebuilt(first)

    record = again.get().json
    assert (record["number"], record["state"], record["rebuild_of"], record["source"]) == (2, "scheduled", 1, "api")
    same = ("branch", "commit", "message", "pipeline_slug")
    assert {name: record[name] for name in same} == {name: first.get().json[name] for name in same}
    assert world.storage.builds.env(again.stored.id) == {"TARGET": "release"}
    assert world.storage.sources.path(again.stored.uuid).read_bytes() == ARCHIVE
    assert (again.stored.has_source, again.stored.source_sha256, again.stored.debug) == (True, "ab" * 32, False)
    assert [job["state"] for job in again.get("/jobs").json["data"]] == ["scheduled", "pending"]
    assert [job["step_key"] for job in again.get("/jobs").json["data"]] == ["lint", SECOND]
    assert world.engine.added == 2


def test_a_rebuild_keeps_the_source_when_the_first_loses_it(world: World, first: BuildPath):
    finish(world, first)
    again = rebuilt(first)
    expire_sources(world)
    assert not world.storage.sources.path(first.stored.uuid).exists()
    assert world.storage.sources.path(again.stored.uuid).read_bytes() == ARCHIVE
    assert rebuilt(again).get().json["rebuild_of"] == 2


@pytest.mark.parametrize("lost", [False, True], ids=["expired", "lost"])
def test_without_its_source_a_build_is_not_repeated(world: World, first: BuildPath, lost: bool):
    finish(world, first)
    if lost:
        world.storage.sources.remove(first.stored.uuid)
    else:
        expire_sources(world)
    answered = rebuild(first)
    assert (answered.status_code, code(answered)) == (410, "source_expired")
    assert answered.json["error"]["type"] == "conflict"
    assert "create a new build" in answered.json["error"]["message"]
    assert world.storage.builds.by_number(first.stored.pipeline_id, 2) is None


def test_a_build_without_a_source_is_repeated_at_any_age(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    finish(world, build)
    world.clock.advance(days=1000)
    expire_sources(world)
    assert not rebuilt(build).stored.has_source


def test_an_unfinished_build_is_repeated_too(first: BuildPath):
    assert rebuilt(first).stored.state is first.stored.state is BuildState.SCHEDULED


def test_what_was_rendered_is_not_rendered_again(world: World, pipeline: PipelinePath):
    jobs = load(HELLO, IrSettings()).jobs
    world.engine.rendered = lambda build_id: world.storage.renders.plan(build_id, HELLO, None, jobs, has_source=True)
    build = pipeline.build(pipeline_ir=None, source_b64=SOURCE_B64)
    again = rebuilt(build)
    assert world.engine.rendering == [build.stored.id]
    assert again.job().stored.step_key == "only"


@pytest.mark.parametrize("source", [{"source_b64": SOURCE_B64}, {"source_url": "https://example.org/a.tar.gz"}])
def test_what_was_not_rendered_is_rendered_again(world: World, pipeline: PipelinePath, source: dict[str, str]):
    world.engine.rendered = lambda build_id: world.storage.renders.refuse(build_id, "render_failed", "not there")
    assert code(pipeline.post(pipeline_ir=None, **source)) == "build_plan_rejected"
    first = BuildPath(pipeline.account, f"{pipeline.path}/builds/1")

    answered = rebuild(first)
    assert (code(answered), answered.json["error"]["build_number"]) == ("build_plan_rejected", 2)
    jobs = load(HELLO, IrSettings()).jobs
    world.engine.rendered = lambda build_id: world.storage.renders.plan(build_id, HELLO, None, jobs, has_source=True)
    again = rebuilt(first)

    assert again.get().json["rebuild_of"] == 1
    render = world.storage.renders.get(again.stored.id)
    assert render is not None
    assert render.source_url == source.get("source_url")


def test_what_could_not_be_planned_is_refused_again(pipeline: PipelinePath):
    assert code(pipeline.post(pipeline_ir="{")) == "build_plan_rejected"
    answered = rebuild(BuildPath(pipeline.account, f"{pipeline.path}/builds/1"))
    assert (code(answered), answered.json["error"]["build_number"]) == ("build_plan_rejected", 2)


def test_a_build_with_nothing_to_build_is_refused_again(pipeline: PipelinePath):
    assert code(pipeline.post(pipeline_ir=None)) == "build_plan_rejected"
    answered = rebuild(BuildPath(pipeline.account, f"{pipeline.path}/builds/1"))
    assert (code(answered), answered.json["error"]["build_number"]) == ("build_plan_rejected", 2)


def test_a_key_repeats_a_build_once(first: BuildPath, pipeline: PipelinePath):
    headers = {"Idempotency-Key": "once"}
    answers = [rebuild(first, headers=headers) for _ in range(2)]
    assert [(answer.status_code, answer.json["number"]) for answer in answers] == [(201, 2), (201, 2)]
    other = pipeline.build()
    assert code(rebuild(other, headers=headers)) == "idempotency_conflict"
    assert code(rebuild(first, headers={"Idempotency-Key": "k" * 256})) == "invalid_idempotency_key"


@pytest.mark.usefixtures("credit_required")
def test_a_rebuild_is_refused_as_a_build_is(world: World, ada: Account, bob: Account):
    pipeline = ada.pipeline(visibility="public")
    build = pipeline.build()
    path = f"{build.path}/rebuild"

    assert code(world.anonymous.simulate_post(path)) == "unauthorized"
    assert code(bob.client.simulate_post(path)) == "organization_not_found"
    assert code(rebuild(BuildPath(ada, f"{ada.path}/pipelines/none/builds/1"))) == "pipeline_not_found"
    assert code(rebuild(BuildPath(ada, f"{pipeline.path}/builds/7"))) == "build_not_found"
    world.engine.draining = True
    assert code(rebuild(build)) == "draining"
    world.engine.draining = False
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": False})
    assert code(rebuild(build)) == "pipeline_manual_disabled"
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": True})
    ada.grant(-1000)
    assert code(rebuild(build)) == "billing_insufficient_balance"
    assert world.storage.builds.by_number(build.stored.pipeline_id, 2) is None


def test_a_build_of_another_pipeline_lends_no_source(world: World, ada: Account, bob: Account, first: BuildPath):
    """A build is found by its own path alone: its number in another pipeline is another build."""
    other = bob.pipeline("other")
    assert code(rebuild(BuildPath(bob, f"{other.path}/builds/1"))) == "build_not_found"
    assert code(rebuild(BuildPath(bob, first.path))) == "organization_not_found"


def test_a_rebuild_after_the_pipelines_deletion_is_not_found(world: World, first: BuildPath, pipeline: PipelinePath):
    for position in (0, 1):
        first.job(position).end(JobState.CANCELED)
    finish(world, first)
    assert pipeline.account.client.simulate_delete(pipeline.path).status_code == 204
    assert code(rebuild(first)) == "pipeline_not_found"
