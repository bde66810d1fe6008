from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from storage import Shape, Storage, Usage
from tests.storage.world import HandClock, World, new_job

NOTHING = Usage(0, 0, 0, 0)
EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def test_nothing_used_is_zero(storage: Storage, world: World):
    assert storage.usage.total(world.pipeline.organization_id, *EVER) == NOTHING


def test_finished_leases_add_up_in_whole_seconds(storage: Storage, world: World, clock: HandClock):
    for shape, seconds in ((Shape(1, 2, 3), 100.9), (Shape(2, 4, 20), 240)):
        job = world.job(world.build(new_job(shape=shape)))
        lease = world.start(job)
        clock.turn(seconds=seconds)
        world.finish(job, lease)
    world.start(world.job(world.build()))
    total = storage.usage.total(world.pipeline.organization_id, *EVER)
    assert total == Usage(100 + 480, 200 + 960, 300 + 4800, 2 + 10)


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [(0, 1, True), (-1, 0, False), (1, 2, False), (-1, 1, True)],
)
def test_a_lease_is_in_the_window_that_holds_its_start(
    storage: Storage, world: World, clock: HandClock, start: int, end: int, inside: bool
):
    started = clock.now()
    job = world.job(world.build())
    lease = world.start(job)
    clock.turn(hours=1)
    world.finish(job, lease)
    window = (started + timedelta(microseconds=start), started + timedelta(microseconds=end))
    assert (storage.usage.total(world.pipeline.organization_id, *window) != NOTHING) is inside


def test_other_organizations_leases_are_not_in_it(storage: Storage, world: World, clock: HandClock):
    other = world.other_pipeline("Other")
    job = world.job(world.build(pipeline=other))
    lease = world.start(job)
    clock.turn(hours=1)
    world.finish(job, lease)
    assert storage.usage.total(world.pipeline.organization_id, *EVER) == NOTHING
