"""The time line of a build."""

from __future__ import annotations

from datetime import timedelta

from api.console.builds.timeline import WIDTH, time_line
from tests import records
from tests.api.world import PipelinePath, World, steps


def test_the_phases_of_a_job_are_to_scale(world: World, pipeline: PipelinePath):
    build = pipeline.build(pipeline_ir=steps("one", "two"))
    world.clock.advance(10)
    lease = records.assigned(world.storage, build.job().stored)
    world.clock.advance(5)
    world.storage.leases.active(lease.id, build.job().stored.id)
    world.storage.leases.start(lease.id, build.job().stored.id)
    world.clock.advance(25)
    records.finish(world.storage, build.job().stored, lease)
    jobs = world.storage.jobs.of_build(build.stored.id)
    attempts = {job.id: world.storage.attempts.of_job(job.id) for job in jobs}
    line = time_line(jobs, attempts, build.stored.created_at, world.clock.now())
    first, second = line.lanes
    assert [(bar.phase, bar.seconds) for bar in first.bars] == [("waiting", 10), ("leasing", 5), ("running", 25)]
    assert [round(bar.x) for bar in first.bars] == [0, 250, 375]
    assert round(sum(bar.width for bar in first.bars)) == WIDTH
    assert second.bars == ()
    assert line.marks[0] == (0.0, 0)
    assert line.marks[-1][0] <= WIDTH


def test_a_build_without_jobs_has_an_empty_line(world: World):
    now = world.clock.now()
    assert time_line([], {}, now - timedelta(seconds=1), now).lanes == ()
