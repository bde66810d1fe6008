from __future__ import annotations

import base64

import pytest
from falcon import testing

from storage import BuildState, JobState
from tests.api.world import Account, BuildPath, PipelinePath, World, steps

SOURCE_B64 = base64.b64encode(b"an archive").decode()


def retry(build: BuildPath) -> testing.Result:
    return build.account.client.simulate_post(f"{build.path}/retry")


def code(answered: testing.Result) -> str:
    text: str = answered.json["error"]["code"]
    return text


def fail(world: World, build: BuildPath) -> None:
    """End a build of two steps: the first fails, the second is skipped."""
    for position, end in enumerate((JobState.FAILED, JobState.SKIPPED)):
        build.job(position).end(end)
    assert world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.FAILED)


@pytest.fixture
def failed(world: World, pipeline: PipelinePath) -> BuildPath:
    build = pipeline.build(pipeline_ir=steps("lint", "test"), source_b64=SOURCE_B64)
    fail(world, build)
    return build


def test_a_failed_build_runs_again_under_its_number(world: World, failed: BuildPath):
    answered = retry(failed)
    assert answered.status_code == 200
    record = answered.json
    assert (record["number"], record["state"], record["finished_at"]) == (1, "scheduled", None)
    assert [job["state"] for job in failed.get("/jobs").json["data"]] == ["scheduled", "pending"]
    assert world.engine.added == 2


def test_one_job_runs_again(world: World, failed: BuildPath):
    lint, test, client = failed.job(0), failed.job(1), failed.account.client
    refused = client.simulate_post(f"{test.path}/retry")
    assert (refused.status_code, code(refused)) == (409, "build_without_jobs")
    assert "what it needs did not" in refused.json["error"]["message"]
    answered = client.simulate_post(f"{lint.path}/retry")
    assert (answered.status_code, answered.json["state"]) == (200, "scheduled")
    assert [job["state"] for job in failed.get("/jobs").json["data"]] == ["scheduled", "pending"]
    assert world.engine.added == 2


def test_an_unfinished_build_is_not_retried(failed: BuildPath):
    assert retry(failed).status_code == 200
    answered = retry(failed)
    assert (answered.status_code, code(answered)) == (409, "build_not_finished")
    assert answered.json["error"]["type"] == "conflict"


def test_a_build_that_passed_stays_unchanged(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    build.job().end()
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    before = build.get().json
    assert retry(build).json == before
    assert world.engine.added == 1


def test_a_build_that_never_had_jobs_is_to_be_rebuilt(pipeline: PipelinePath):
    assert code(pipeline.post(pipeline_ir="{")) == "build_plan_rejected"
    answered = retry(BuildPath(pipeline.account, f"{pipeline.path}/builds/1"))
    assert (answered.status_code, code(answered)) == (409, "build_without_jobs")


@pytest.mark.parametrize("lost", [False, True], ids=["expired", "lost"])
def test_a_build_without_its_source_is_not_retried(world: World, failed: BuildPath, lost: bool):
    if lost:
        world.storage.sources.remove(failed.stored.uuid)
    else:
        world.storage.source_retention.measure()
        world.storage.source_retention.expire(world.storage.source_retention.oldest_first())
    answered = retry(failed)
    assert (answered.status_code, code(answered)) == (410, "source_expired")
    assert failed.stored.state is BuildState.FAILED


def test_a_build_without_its_logs_is_not_retried(world: World, failed: BuildPath):
    world.storage.log_retention.measure()
    world.storage.log_retention.expire(world.storage.log_retention.oldest_first())
    answered = retry(failed)
    assert (answered.status_code, code(answered)) == (410, "log_expired")


def test_a_retry_waits_for_the_end_of_the_last_vm(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    lease_id = build.job().assign("a-vm")
    build.job().end(JobState.FAILED)
    world.storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.FAILED)
    answered = retry(build)
    assert (answered.status_code, code(answered), answered.headers["Retry-After"]) == (503, "busy", "1")
    assert build.stored.state is BuildState.FAILED
    world.storage.leases.end(lease_id)
    assert retry(build).status_code == 200


@pytest.mark.usefixtures("credit_required")
def test_a_retry_is_refused_as_a_build_is(world: World, ada: Account, bob: Account):
    pipeline = ada.pipeline(visibility="public")
    build = pipeline.build(pipeline_ir=steps("lint", "test"))
    fail(world, build)

    assert code(world.anonymous.simulate_post(f"{build.path}/retry")) == "unauthorized"
    assert code(bob.client.simulate_post(f"{build.path}/retry")) == "organization_not_found"
    assert code(retry(BuildPath(ada, f"{ada.path}/pipelines/none/builds/1"))) == "pipeline_not_found"
    assert code(retry(BuildPath(ada, f"{pipeline.path}/builds/7"))) == "build_not_found"
    world.engine.draining = True
    assert code(retry(build)) == "draining"
    world.engine.draining = False
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": False})
    assert code(retry(build)) == "pipeline_manual_disabled"
    ada.client.simulate_patch(pipeline.path, json={"allow_manual": True})
    ada.grant(-1000)
    assert code(retry(build)) == "billing_insufficient_balance"
    assert build.stored.state is BuildState.FAILED


def test_a_retried_build_keeps_its_pipeline(failed: BuildPath, pipeline: PipelinePath):
    assert retry(failed).status_code == 200
    deleted = pipeline.account.client.simulate_delete(pipeline.path)
    assert (deleted.status_code, code(deleted)) == (409, "pipeline_busy")
