from __future__ import annotations

from datetime import timedelta

import pytest

from storage import BuildState, LeaseState, NewBuild, Rendered, Shape, Storage, User
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

IR = "{}"
NAME = b"n" * 32


def begun(storage: Storage, world: World, url: str | None = None) -> int:
    return storage.renders.begin(world.pipeline, NewBuild("main", "c0ffee"), url).id


def test_a_build_to_be_rendered_has_no_jobs_until_it_is_planned(storage: Storage, world: World):
    build_id = begun(storage, world, "https://example.org/a")
    render = storage.renders.get(build_id)
    assert render is not None
    assert (render.source_url, render.organization_id) == ("https://example.org/a", world.pipeline.organization_id)
    assert storage.renders.unfinished() == [render]
    assert storage.jobs.of_build(build_id) == []
    assert storage.renders.plan(build_id, IR, 60, [new_job()], has_source=True)
    build = storage.builds.get(build_id)
    assert build is not None
    assert (build.state, build.timeout_seconds, build.has_source) == (BuildState.SCHEDULED, 60, True)
    assert len(storage.jobs.of_build(build_id)) == 1
    assert storage.renders.unfinished() == []


def test_a_render_ends_once(storage: Storage, world: World):
    build_id = begun(storage, world)
    assert storage.renders.refuse(build_id, "render_failed", "why")
    assert not storage.renders.plan(build_id, IR, None, [new_job()], has_source=True)
    assert not storage.renders.cancel(build_id)
    assert not storage.renders.refuse(build_id, "render_failed", "again")
    build = storage.builds.get(build_id)
    assert build is not None
    assert (build.state, build.error_message) == (BuildState.FAILED, "why")
    assert storage.jobs.of_build(build_id) == []


def test_only_a_build_that_a_user_asked_for_is_refused(storage: Storage, world: World, user: User):
    """One that a schedule or a push made has failed: nobody else hears of it."""
    asked = storage.renders.begin(world.pipeline, NewBuild("main", "c0ffee", created_by=user.id), None).id
    of_service = begun(storage, world)
    for build_id in (asked, of_service):
        assert storage.renders.refuse(build_id, "render_failed", "why")
    builds = [storage.builds.get(build_id) for build_id in (asked, of_service)]
    assert [build and (build.state, build.refused) for build in builds] == [
        (BuildState.FAILED, True),
        (BuildState.FAILED, False),
    ]


def test_a_build_that_ended_otherwise_is_not_planned(storage: Storage, world: World):
    build_id = begun(storage, world)
    storage.builds.move(build_id, BuildState.SCHEDULED, BuildState.FAILED)
    assert not storage.renders.plan(build_id, IR, None, [new_job()], has_source=True)
    assert storage.jobs.of_build(build_id) == []
    assert not storage.renders.pending(build_id)


def test_the_vm_of_a_render_is_a_lease_of_no_job(storage: Storage, world: World):
    build_id = begun(storage, world)
    render = storage.renders.get(build_id)
    assert render is not None
    lease = storage.renders.lease(render, "vm", provider="sandbox", image="debian:12", shape=Shape())
    assert lease is not None
    assert (lease.build_id, lease.job_id, lease.state) == (build_id, None, LeaseState.CREATING)
    storage.renders.cancel(build_id)
    assert storage.renders.lease(render, "other", provider="sandbox", image="debian:12", shape=Shape()) is None


def test_a_render_is_given_a_parked_vm(storage: Storage, world: World):
    build_id = begun(storage, world)
    render = storage.renders.get(build_id)
    assert render is not None
    parked = storage.leases.reserve_parked("vm", "sandbox")
    storage.leases.parked(parked.id)
    lease = storage.renders.lease_parked(render, parked.id, image="debian:12", shape=Shape(1, 2, 3))
    assert lease is not None
    assert (lease.id, lease.build_id, lease.job_id, lease.state) == (parked.id, build_id, None, LeaseState.CREATING)
    assert (lease.image, lease.shape, lease.organization_id) == ("debian:12", Shape(1, 2, 3), render.organization_id)
    again = storage.renders.get(build_id)
    assert again is not None
    assert again.lease_id == parked.id
    assert world.assign(world.job(world.build()), parked_lease_id=parked.id) is None


@pytest.mark.parametrize("why", ["taken", "ended", "canceled"])
def test_a_parked_vm_that_cannot_be_had_is_not_given(storage: Storage, world: World, why: str):
    build_id = begun(storage, world)
    render = storage.renders.get(build_id)
    assert render is not None
    parked = storage.leases.reserve_parked("vm", "sandbox")
    if why == "taken":
        world.assign(world.job(world.build()), parked_lease_id=parked.id)
    elif why == "ended":
        storage.leases.end(parked.id)
    else:
        storage.renders.cancel(build_id)
    before = storage.leases.get(parked.id)
    assert storage.renders.lease_parked(render, parked.id, image="debian:12", shape=Shape()) is None
    assert storage.leases.get(parked.id) == before


def test_what_was_rendered_is_kept_for_a_while(storage: Storage, world: World, clock: ManualClock):
    rendered = Rendered("{}", b"printed")
    storage.renders.keep(NAME, rendered, clock.now() + timedelta(seconds=10))
    assert storage.renders.cached(NAME) == rendered
    assert storage.renders.cached(b"o" * 32) is None
    storage.renders.keep(NAME, Rendered("[]", b""), clock.now() + timedelta(seconds=10))
    assert storage.renders.cached(NAME) == Rendered("[]", b"")
    clock.advance(seconds=10)
    assert storage.renders.cached(NAME) is None


def test_only_the_newest_are_kept(storage: Storage, world: World, clock: ManualClock):
    until = clock.now() + timedelta(seconds=10)
    names = [number.to_bytes(32, "big") for number in range(502)]
    for name in names:
        storage.renders.keep(name, Rendered("{}", b""), until)
    assert [storage.renders.cached(name) is None for name in names] == [True, True] + [False] * 500
