from __future__ import annotations

from storage import JobState, Outcome
from tests.api.world import Account, PipelinePath, World, steps


def test_jobs_are_listed_in_dag_order_with_their_dependencies(pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=steps("install", "lint", "test"))
    listed = build.get("/jobs")

    assert listed.status_code == 200
    assert set(listed.json) == {"data"}
    jobs = listed.json["data"]
    assert [job["step_key"] for job in jobs] == ["install", "lint", "test"]
    assert [job["depends_on"] for job in jobs] == [[], [jobs[0]["id"]], [jobs[1]["id"]]]
    assert [job["state"] for job in jobs] == ["scheduled", "pending", "pending"]


def test_a_job_record_is_whole(pipeline: PipelinePath):
    ir = (
        '{"version": "0", "steps": [{"type": "command", "key": "k", "label": "Name", "cmd": "true",'
        '"image": "debian:12", "cache": {"policy": "forever", "key": "abc"},'
        '"runner_args": {"retry": {"limit": 2}, "soft_fail": {"exit_codes": [3]}}}]}'
    )
    job = pipeline.build(pipeline_ir=ir).job()
    record = pipeline.account.client.simulate_get(job.path).json

    assert record.pop("retry_policy")["limit"] == 2
    assert record.pop("soft_fail_policy")["exit_codes"] == [3]
    assert record == {
        "id": job.uuid,
        "name": "Name",
        "step_key": "k",
        "command": "true",
        "state": "scheduled",
        "exit_code": None,
        "depends_on": [],
        "soft_failed": False,
        "error_code": None,
        "error_message": None,
        "attempt": 0,
        "pending_reason": "waiting for a VM: host is full (4 of 4)",
        "queue_position": 1,
        "cache_key": "abc",
        "cache_hit": False,
        "matrix_job": None,
        "matrix": None,
        "environment": None,
        "gate": None,
        "generated_by": None,
        "taken_from": None,
        "services": [],
        "image": "debian:12",
        "image_digest": None,
        "service_image_digests": {},
        "created_at": "2026-01-02T03:04:05.000000Z",
        "started_at": None,
        "finished_at": None,
    }


def test_a_waiting_job_says_its_place_in_its_organizations_queue(
    world: World, ada: Account, bob: Account, pipeline: PipelinePath
):
    bob.pipeline().build()
    first = pipeline.build(pipeline_ir=steps("a", "b"))
    second = pipeline.build()
    places = [job["queue_position"] for build in (first, second) for job in build.get("/jobs").json["data"]]
    assert places == [1, None, 2]
    assert pipeline.account.client.simulate_get(second.job().path).json["queue_position"] == 2
    world.storage.jobs.move(first.job().stored.id, JobState.SCHEDULED, JobState.CANCELED)
    assert pipeline.account.client.simulate_get(second.job().path).json["queue_position"] == 1
    assert pipeline.account.client.simulate_get(first.job().path).json["queue_position"] is None


def test_an_ended_job_says_how_it_ended(world: World, pipeline: PipelinePath):
    job = pipeline.build().job()
    world.storage.jobs.move(
        job.stored.id,
        JobState.SCHEDULED,
        JobState.FAILED,
        Outcome(exit_code=0, error_code="vm_lost", error_message="gone"),
    )
    record = pipeline.account.client.simulate_get(job.path).json

    assert record["state"] == "failed"
    assert (record["exit_code"], record["error_code"], record["error_message"]) == (0, "vm_lost", "gone")
    assert record["finished_at"] is not None
    assert record["pending_reason"] is None


def test_a_job_is_found_in_its_own_build_only(ada: Account, bob: Account, pipeline: PipelinePath):
    one, two = pipeline.build(), pipeline.build()

    assert ada.client.simulate_get(f"{two.path}/jobs/{two.job().uuid}").status_code == 200
    for unknown in (one.job().uuid, "00000000-0000-4000-8000-000000000000", "7", "x" * 300, "%00", "not-a-uuid"):
        answered = ada.client.simulate_get(f"{two.path}/jobs/{unknown}")
        assert answered.status_code == 404, unknown
        assert answered.json["error"]["code"] == "job_not_found"
        assert len(answered.json["error"]["message"]) < 200
    assert bob.client.simulate_get(two.job().path).json["error"]["code"] == "organization_not_found"


def test_jobs_are_not_made_and_not_removed(pipeline: PipelinePath):
    build = pipeline.build()

    assert pipeline.account.client.simulate_post(f"{build.path}/jobs", json={}).status_code == 405
    assert pipeline.account.client.simulate_delete(build.job().path).status_code == 405


def test_a_thousand_jobs_are_one_answer(pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=steps(*(f"step-{number}" for number in range(1000))))

    assert len(build.get("/jobs").json["data"]) == 1000
