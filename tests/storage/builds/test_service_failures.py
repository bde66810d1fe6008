from __future__ import annotations

from storage import BuildState, JobState, Outcome
from tests.storage.world import World


def failed(world: World, error_code: str | None, message: str | None = None) -> int:
    """Fail the only job of a new build; return the build's number."""
    build = world.build()
    outcome = Outcome(error_code=error_code, error_message=message)
    assert world.storage.jobs.move(world.job(build).id, JobState.SCHEDULED, JobState.FAILED, outcome)
    return build.number


def test_jobs_that_the_service_failed_are_listed_newest_first(world: World):
    assert world.storage.service_failures.latest(5) == []
    lost = failed(world, "vm_lost", "it is gone")
    failed(world, None)
    failed(world, "step_timeout")
    internal = failed(world, "internal_error")
    failures = world.storage.service_failures.latest(5)
    assert [(each.number, each.error_code) for each in failures] == [(internal, "internal_error"), (lost, "vm_lost")]
    assert (failures[1].organization, failures[1].pipeline, failures[1].step_key) == ("acme", "web", "step")
    assert (failures[1].error_message, failures[1].finished_at) == ("it is gone", world.clock.now())
    assert len(world.storage.service_failures.latest(1)) == 1


def test_ends_that_an_operator_forced_are_marked(world: World):
    storage = world.storage
    forced, killed, given_up = (world.build() for _ in range(3))
    for build in (forced, killed, given_up):
        lease = world.assign(world.job(build))
        storage.leases.start(lease.id, world.job(build).id)
        if build is killed:
            storage.leases.kill(lease.id, "ada")
            lost = Outcome(error_code="vm_lost")
            storage.jobs.finish(
                world.job(build).id, JobState.RUNNING, JobState.FAILED, lost, lease_id=lease.id, billable=False
            )
    storage.force_finish.end(forced.id, BuildState.FAILED, actor="bob", note="it hangs")
    storage.force_finish.end(given_up.id, BuildState.FAILED, actor="ci-daemon", note="it failed", billable=False)
    assert [each.number for each in storage.service_failures.latest(5)] == [given_up.number]
    assert [(each.number, each.forced_by) for each in storage.service_failures.forced(5)] == [
        (killed.number, "ada"),
        (forced.number, "bob"),
    ]


def test_a_job_with_a_replaced_vm_counts_as_the_services_failure(world: World):
    storage, job = world.storage, world.job(build := world.build())
    first = world.assign(job)
    storage.leases.kill(first.id, "ada")
    storage.jobs.retry(job.id, JobState.ASSIGNED, Outcome(), lease_id=first.id, billable=False, backoff_seconds=0)
    second = world.assign(job)
    lost = Outcome(error_code="vm_lost")
    storage.jobs.finish(job.id, JobState.ASSIGNED, JobState.FAILED, lost, lease_id=second.id, billable=False)
    assert [each.number for each in storage.service_failures.latest(5)] == [build.number]
    assert storage.service_failures.forced(5) == []


def test_canceled_jobs_and_time_outs_are_no_service_failures(world: World):
    storage, build = world.storage, world.build()
    storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="no longer needed")
    failed(world, "pipeline_timeout")
    assert storage.service_failures.latest(5) == storage.service_failures.forced(5) == []
