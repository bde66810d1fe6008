"""The logs of a job's services, as bytes and as events."""

from __future__ import annotations

import json

import pytest

from storage import JobState
from tests.api.logs.test_events import events
from tests.api.world import Account, JobPath, PipelinePath

DOCUMENT = {"version": "1", "jobs": {"a": {"run": "true", "services": {"db": {"image": "postgres:16"}}}}}


@pytest.fixture
def job(pipeline: PipelinePath) -> JobPath:
    """A job with a service ``db`` whose log has two lines."""
    job = pipeline.build(pipeline_ir=json.dumps(DOCUMENT)).job()
    world = job.build.account.world
    with world.storage.logs.service_writer(job.build.stored.uuid, job.uuid, "db", 1) as writer:
        writer.output(b"ready\n", b"for connections\n")
    return job


def test_job_names_its_services(ada: Account, job: JobPath) -> None:
    """The list of jobs says which logs there are."""
    assert ada.client.simulate_get(job.path).json["services"] == ["db"]


def test_log_of_a_service_is_read_in_ranges(ada: Account, job: JobPath) -> None:
    """As a job's own log, which has nothing of it; it grows until the job has ended."""
    path = f"{job.path}/services/db/log"
    answered = ada.client.simulate_get(path, headers={"Range": "bytes=6-8"})
    assert (answered.status_code, answered.content) == (206, b"for")
    assert answered.headers["X-Log-Complete"] == "false"
    assert ada.client.simulate_get(f"{job.path}/log").content == b""
    job.end(JobState.CANCELED)
    whole = ada.client.simulate_get(path)
    assert (whole.content, whole.headers["X-Log-Complete"]) == (b"ready\nfor connections\n", "true")


def test_log_of_a_service_is_followed_as_events(job: JobPath) -> None:
    """The same events as of a job's log, with a log token."""
    job.end(JobState.CANCELED)
    path, token = f"/v0/jobs/{job.uuid}/services/db/logs", job.build.token()
    answered = job.build.account.world.anonymous.simulate_get(path, params={"token": token})
    history, done = events(answered.text)
    assert "".join(chunk["content"] for chunk in history.data["chunks"]) == "ready\nfor connections\n"
    assert done.name == "done"


@pytest.mark.parametrize("path", ["{job}/services/cache/log", "/v0/jobs/{uuid}/services/cache/logs"])
def test_service_that_the_job_does_not_have_is_not_found(ada: Account, job: JobPath, path: str) -> None:
    """The answer is the same if other jobs have one of the name."""
    answered = ada.client.simulate_get(path.format(job=job.path, uuid=job.uuid))
    assert (answered.status_code, answered.json["error"]["code"]) == (404, "service_not_found")
