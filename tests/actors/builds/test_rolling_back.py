"""Rolling back: a deployment runs again, and the jobs before it count as in the earlier build."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.builds.retrying import repetition
from actors.builds.rolling_back import NotKept, ran_in, roll_back
from actors.ir import IrSettings
from storage import Build, BuildState, Job, JobState, NewEnvironment
from tests.actors.conftest import Host
from tests.waiting import until

ANEW = "cat /proc/sys/kernel/random/uuid >app; echo VERSION=$(cat app) >>$CI_OUTPUT"
GATE = {"environment": "production"}
MAKE = {"run": ANEW, "artifacts": ["app"]}
DEPLOY = {"run": "cat app; echo $VERSION", "files": {"make": ["app"]}, "needs": ["make"], "gate": GATE}


@pytest.fixture(autouse=True)
def production(host: Host) -> None:
    host.storage.environments.create(host.pipeline.organization_id, NewEnvironment("production"))


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))


def rolled_back(host: Host, build: Build) -> Build:
    """Roll back to a build, without telling the engine: as a daemon that dies at once."""
    new, _ = repetition(host.storage, build, "api")
    job = host.job(build, "deploy")
    return roll_back(host.storage, IrSettings(), host.pipeline, new, build, job).build


def states(host: Host, build: Build) -> dict[str, tuple[JobState, int, int | None]]:
    return {job.step_key: (job.state, job.attempt, job.taken_from) for job in host.storage.jobs.of_build(build.id)}


@pytest.mark.sandbox
def test_what_the_earlier_build_made_is_deployed_again(host: Host):
    """Its source would now make other bytes. Nobody tells the engine, as if it had been killed."""
    first, second = (built(host, make=MAKE, deploy=DEPLOY, after={"run": "true", "needs": ["deploy"]}) for _ in "12")
    shown = [host.log(each, "deploy") for each in (first, second)]
    assert shown[0] != shown[1]
    back = host.finish(rolled_back(host, first))
    assert host.log(back, "deploy") == shown[0]
    assert states(host, back) == {
        "make": (JobState.PASSED, 0, 1),
        "deploy": (JobState.PASSED, 1, None),
        "after": (JobState.PASSED, 1, None),
    }
    again = host.finish(rolled_back(host, back))
    assert (host.log(again, "deploy"), host.job(again, "make").taken_from) == (shown[0], 1)
    origin = ran_in(host.storage, again, host.job(again, "make"))
    assert origin is not None
    assert origin[1] == host.job(first, "make")


def test_jobs_beside_it_stay_as_they_ended(host: Host):
    """A failure there is one of the new build, too, but ends nothing: also if the pipeline fails fast."""
    beside = {"run": "exit 3"}
    first = built(host, beside=beside, deploy={"run": "true", "gate": GATE})
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    back = host.finish(rolled_back(host, first))
    assert (first.state, back.state) == (BuildState.FAILED, BuildState.FAILED)
    assert states(host, back) == {"beside": (JobState.FAILED, 0, 1), "deploy": (JobState.PASSED, 1, None)}
    deployments = host.storage.environments.passed(environment(host), 10)
    assert [each.number for each in deployments] == [2, 1]


def test_what_has_not_ended_beside_it_runs_again(host: Host):
    """So a commit is not called good whose tests still run elsewhere."""
    ir = {"slow": {"run": "true", "gate": {"environment": "slow"}}, "deploy": {"run": "true", "gate": GATE}}
    host.storage.environments.create(host.pipeline.organization_id, NewEnvironment("slow", approvers=("admin",)))
    first = host.build(json.dumps({"version": "1", "jobs": ir}))
    until(lambda: host.job(first, "deploy").state.terminal, "the deployment")
    back = rolled_back(host, first)
    until(lambda: host.job(back, "deploy").state.terminal, "the deployment again")
    assert states(host, back)["slow"] == (JobState.PENDING, 0, None)


def environment(host: Host) -> Any:
    return host.storage.environments.named(host.pipeline.organization_id, "production")


@pytest.mark.sandbox
def test_what_is_no_longer_kept_is_said_before_anything_runs(host: Host):
    first = built(host, make=MAKE, deploy=DEPLOY)
    (artifact,) = host.storage.artifacts.of_job(host.job(first, "make").id)
    path = host.storage.artifacts.path(artifact)
    path.rename(path.with_suffix(".away"))
    with pytest.raises(NotKept, match=r'the files app of "make" in .*/1 are missing on the disk'):
        rolled_back(host, first)
    path.with_suffix(".away").rename(path)
    retention = host.storage.artifact_retention
    retention.expire(retention.oldest_first())
    with pytest.raises(NotKept, match=r'the files app of "make" in .*/1 were kept until \d{4}-\d\d-\d\d'):
        rolled_back(host, first)
    chained = built(host, make={"run": "true"}, deploy={"run": "true", "from": "make", "gate": GATE})
    until(lambda: _has_no_disk(host, host.job(chained, "make")), "the end of the disk")
    with pytest.raises(NotKept, match='starts from the disk that "make" left, which is no longer kept'):
        rolled_back(host, chained)
    assert host.storage.builds.by_number(host.pipeline.id, 3) is None


def _has_no_disk(host: Host, job: Job) -> bool:
    host.reaper().reap()
    return host.storage.snapshots.of_job(job.id) is None
