from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from storage import Job, JobState, NewBuild, Outcome, Priority, Shape, Storage, VerifiedEvent
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import BUILDS_IN, DEPENDS_ON, World

PATIENT = {"limit": 1, "backoff_seconds": 30}


def _heads(storage: Storage) -> list[int]:
    return [job.job_id for job in storage.queue.heads()]


def _again(world: World, job: Job) -> Job:
    found = world.storage.jobs.get(job.id)
    assert found is not None
    return found


def _back_off(world: World, job: Job, seconds: int) -> None:
    lease = world.start(job)
    assert world.storage.jobs.retry(
        job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True, backoff_seconds=seconds
    )


def test_nothing_waits_at_first(storage: Storage):
    assert storage.queue.heads() == []
    assert (storage.queue.length(), storage.queue.oldest(), storage.queue.wake()) == (0, None, None)


def test_the_next_job_waits_longest_then_comes_by_position(world: World, clock: ManualClock):
    storage, organization_id = world.storage, world.pipeline.organization_id
    first = world.build(new_job("a"), new_job("b"), new_job("c", (0, DEPENDS_ON, False)))
    clock.advance(seconds=1)
    second = world.build(new_job("d"))
    clock.advance(seconds=1)
    a, b, c = world.jobs(first)
    storage.jobs.move(c.id, JobState.PENDING, JobState.SCHEDULED)
    order = []
    while (head := storage.queue.head(organization_id)) is not None:
        order.append(head.job_id)
        storage.jobs.move(head.job_id, JobState.SCHEDULED, JobState.CANCELED)
    assert order == [a.id, b.id, world.job(second).id, c.id]


def test_a_queued_job_has_its_requirements_of_the_vm(world: World, clock: ManualClock):
    storage = world.storage
    build = world.build(
        new_job("a"),
        new_job("b", (0, BUILDS_IN, False), shape=Shape(1, 2, 3), network=False, image=None),
    )
    parent, child = world.jobs(build)
    storage.organizations.configure(world.pipeline.organization_id, weight=3)
    (head,) = storage.queue.heads()
    assert (head.job_id, head.parent_snapshot_job_id, head.image, head.weight) == (parent.id, None, "debian:12", 3)
    storage.jobs.move(parent.id, JobState.SCHEDULED, JobState.CANCELED)
    storage.jobs.move(child.id, JobState.PENDING, JobState.SCHEDULED)
    (head,) = storage.queue.heads()
    assert (head.build_id, head.organization_id) == (build.id, world.pipeline.organization_id)
    assert (head.shape, head.network, head.image) == (Shape(1, 2, 3), False, None)
    assert (head.parent_snapshot_job_id, head.scheduled_at) == (parent.id, clock.now())


FOR: dict[Priority, dict[str, Any]] = {
    Priority.MANUAL: {"verified_event": VerifiedEvent.MANUAL},
    Priority.PULL_REQUEST: {"verified_event": VerifiedEvent.PULL_REQUEST},
    Priority.DEFAULT_BRANCH: {"verified_event": VerifiedEvent.PUSH},
    Priority.BRANCH: {"verified_event": VerifiedEvent.PUSH, "branch": "fix"},
    Priority.SCHEDULE: {"verified_event": VerifiedEvent.SCHEDULE},
}


def test_builds_have_the_priority_of_their_reason(world: World):
    found = {priority: world.build(**fields) for priority, fields in FOR.items()}
    found[Priority.CULPRIT] = replace(found[Priority.DEFAULT_BRANCH], culprit_search_id=1)
    assert {each: build.priority for each, build in found.items()} == {each: each for each in Priority}
    user = world.storage.users.create("robot@example.org", "robot")
    again = world.build(verified_event=VerifiedEvent.SCHEDULE, created_by=user.id)
    assert again.priority is Priority.MANUAL
    assert world.build(verified_event=VerifiedEvent.TAG, branch="v1").priority is Priority.BRANCH


def test_scheduled_builds_hold_up_nobody_and_wait_not_for_ever(world: World, clock: ManualClock):
    """Their jobs go behind all of their own organization that comes within six hours."""
    queue, other = world.storage.queue, world.other_pipeline("Other")
    theirs = world.job(world.build(pipeline=other))
    flood = [world.job(world.build(**FOR[Priority.SCHEDULE])) for _ in range(300)]
    clock.advance(hours=1)
    pull_request = world.job(world.build(**FOR[Priority.PULL_REQUEST]))
    clock.advance(minutes=9)
    by_hand = world.job(world.build(**FOR[Priority.MANUAL]))
    assert _heads(world.storage) == [by_hand.id, theirs.id]
    assert [queue.position(each) for each in (by_hand, pull_request, flood[0])] == [1, 2, 3]
    assert queue.positions(world.pipeline.organization_id, pull_request.build_id) == {pull_request.id: 2}
    clock.advance(hours=6)
    late = world.job(world.build(**FOR[Priority.MANUAL]))
    following = queue.following(world.pipeline.organization_id, 400)
    assert [each.job_id for each in following] == [each.id for each in (by_hand, pull_request, *flood, late)]


def test_every_organization_that_waits_has_one_head(world: World):
    other, idle = world.other_pipeline("Other"), world.other_pipeline("Idle")
    ours = world.jobs(world.build(new_job("a"), new_job("b")))
    theirs = world.job(world.build(pipeline=other))
    assert _heads(world.storage) == [ours[0].id, theirs.id]
    assert world.storage.queue.head(idle.organization_id) is None


def test_a_job_is_in_the_queue_again_after_its_back_off(world: World, clock: ManualClock):
    storage = world.storage
    first, second = world.jobs(world.build(new_job("a"), new_job("b")))
    _back_off(world, first, 30)
    assert _heads(storage) == [second.id]
    assert storage.queue.length() == 1
    assert storage.queue.position(_again(world, first)) is None
    assert storage.queue.wake() == clock.now() + timedelta(seconds=30)
    clock.advance(seconds=29)
    assert storage.queue.wake() == clock.now() + timedelta(seconds=1)
    assert _heads(storage) == [second.id]
    clock.advance(seconds=1)
    assert storage.queue.wake() is None
    assert _heads(storage) == [first.id]
    assert storage.queue.position(_again(world, first)) == 1


def test_a_back_off_from_before_the_clock_was_set_back_is_over(world: World, clock: ManualClock):
    stale, young = world.jobs(world.build(new_job("a", retry_policy=PATIENT), new_job("b", retry_policy=PATIENT)))
    _back_off(world, stale, 30)
    clock.advance(hours=-1)
    assert world.storage.queue.wake() is None
    assert _heads(world.storage) == [stale.id]
    _back_off(world, young, 30)
    assert world.storage.queue.wake() == clock.now() + timedelta(seconds=30)
    assert world.storage.queue.length() == 1


def test_a_job_that_waits_too_long_is_overdue(world: World, clock: ManualClock):
    """Its back-off does not count."""
    storage, began = world.storage, clock.now()
    first, second = world.jobs(world.build(new_job("a"), new_job("b")))
    assert storage.queue.oldest() == began
    clock.advance(seconds=10)
    _back_off(world, first, 30)
    storage.jobs.move(second.id, JobState.SCHEDULED, JobState.CANCELED)
    assert storage.queue.oldest() is None
    clock.advance(seconds=30)
    storage.queue.wake()
    since = began + timedelta(seconds=40)
    assert storage.queue.oldest() == since
    assert storage.queue.overdue(since - timedelta(seconds=1), 10) == []
    assert [job.job_id for job in storage.queue.overdue(since, 10)] == [first.id]


def test_positions_count_from_the_next_job_of_the_organization(world: World, clock: ManualClock):
    storage, other = world.storage, world.other_pipeline("Other")
    first = world.build(new_job("a"), new_job("b"), new_job("c", (0, DEPENDS_ON, False)))
    theirs = world.build(pipeline=other)
    clock.advance(seconds=1)
    second = world.build(new_job("d"), new_job("e"))
    a, b, c = world.jobs(first)
    d, e = world.jobs(second)
    assert [storage.queue.position(job) for job in (a, b, c, d, e, world.job(theirs))] == [1, 2, None, 3, 4, 1]
    organization_id = world.pipeline.organization_id
    assert storage.queue.positions(organization_id, first.id) == {a.id: 1, b.id: 2}
    assert storage.queue.positions(organization_id, second.id) == {d.id: 3, e.id: 4}
    world.start(a)
    assert storage.queue.positions(organization_id, second.id) == {d.id: 2, e.id: 3}
    assert storage.queue.position(_again(world, a)) is None


def test_past_use_is_of_leases_that_ended_within_the_span(world: World, clock: ManualClock):
    early, late, running = world.jobs(world.build(new_job("a"), new_job("b"), new_job("c", shape=Shape(cpu=3))))
    lease = world.start(early)
    clock.advance(minutes=10)
    world.finish(early, lease)
    clock.advance(minutes=50)
    began, lease = clock.now(), world.start(late)
    clock.advance(minutes=1)
    world.finish(late, lease)
    world.start(running)
    (use,) = world.storage.queue.past_use(timedelta(minutes=30))
    assert (use.organization_id, use.cpu) == (world.pipeline.organization_id, late.shape.cpu)
    assert (use.started_at, use.finished_at) == (began, clock.now())
    assert len(world.storage.queue.past_use(timedelta(hours=2))) == 2


def test_ten_thousand_queued_jobs_cost_no_more_than_a_few(world: World):
    storage, organization_id = world.storage, world.pipeline.organization_id
    first = world.build(*(new_job(f"first-{number}") for number in range(10)))
    few = _seconds(lambda: _look(storage, organization_id))
    for _ in range(10):
        last = world.build(*(new_job(f"{number}") for number in range(1000)))
    many = _seconds(lambda: _look(storage, organization_id))
    assert many < few * 5
    assert storage.queue.length() == 10_010
    assert storage.queue.position(world.jobs(last)[-1]) == 10_010
    assert max(storage.queue.positions(organization_id, last.id).values()) == 10_010
    assert len(storage.queue.positions(organization_id, first.id)) == 10


def _look(storage: Storage, organization_id: int) -> None:
    storage.queue.heads()
    storage.queue.head(organization_id)
    storage.queue.wake()
    storage.queue.oldest()


def _seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of the shortest of 50 runs."""
    best = float("inf")
    for _ in range(50):
        start = time.thread_time()
        work()
        best = min(best, time.thread_time() - start)
    return best


def test_a_job_that_waits_for_its_image_is_in_no_queue_for_a_vm(world: World, clock: ManualClock):
    queue = world.storage.queue
    first = world.build(new_job("own", image="alpine"), new_job("fork", (0, BUILDS_IN, False), image="alpine"))
    own, fork = world.jobs(first)
    (other,) = world.jobs(world.build(new_job("other", image="debian:12")))
    world.storage.jobs.move(fork.id, JobState.PENDING, JobState.SCHEDULED)
    assert queue.images() == ["alpine", "debian:12"]
    assert queue.await_image("alpine", "alpine:latest")
    assert not queue.await_image("alpine", "alpine:latest")
    assert queue.awaited_images() == ["alpine:latest"]
    assert [(job.job_id, job.build_uuid, job.attempt) for job in queue.awaiting("alpine:latest")] == [
        (own.id, first.uuid, 0)
    ]
    in_queue = queue.following(world.pipeline.organization_id, 10)
    assert {job.job_id for job in in_queue} == {fork.id, other.id}
    assert queue.position(_again(world, own)) is None
    assert _again(world, own).awaited_image == "alpine:latest"


def test_a_job_waits_for_the_image_of_its_organizations_login(world: World):
    """Not one of a fork, nor one of another organization."""
    queue, image = world.storage.queue, "ghcr.io/acme/private:1"
    (own,) = world.jobs(world.build(new_job("own", image=image)))
    (fork,) = world.jobs(world.build(new_job("fork", image=image), untrusted_origin="evil/demo#1", from_fork=True))
    other = world.other_pipeline("Other")
    build = world.storage.builds.create(other, NewBuild("main", "c"), [new_job("other", image=image)])
    (theirs,) = world.storage.jobs.of_build(build.id)
    world.storage.registry_logins.put(own.organization_id, "ghcr.io", "ci", "hush")
    ((organization_id, login),) = world.storage.registry_logins.at("ghcr.io")
    assert queue.await_image(image, image, "ghcr.io")
    assert {each.job_id for each in queue.awaiting(image)} == {fork.id, theirs.id}
    assert not queue.await_image(image, f"~{login}/{image}", "ghcr.io", other.organization_id)
    assert queue.await_image(image, f"~{login}/{image}", "ghcr.io", organization_id)
    assert [each.job_id for each in queue.awaiting(f"~{login}/{image}")] == [own.id]


def test_the_time_of_a_pull_is_not_a_wait_for_a_vm(world: World, clock: ManualClock):
    queue = world.storage.queue
    (job,) = world.jobs(world.build(new_job("only", image="alpine")))
    queue.await_image("alpine", "alpine:latest")
    clock.advance(seconds=100)
    arrived = clock.now()
    assert queue.oldest() is None
    assert queue.overdue(arrived, 10) == []
    queue.end_await("alpine:latest")
    assert queue.oldest() == arrived
    assert queue.overdue(arrived - timedelta(seconds=1), 10) == []
    assert not queue.is_awaited("alpine:latest")
    assert _again(world, job).awaited_image is None


def test_a_job_waits_for_the_images_of_its_services(world: World) -> None:
    """It alone, and until there is none that is missing."""
    queue = world.storage.queue
    services = {name: {"image": f"{name}:1"} for name in ("db", "cache")}
    (job,) = world.jobs(world.build(new_job("only", services=services)))
    (other,) = world.jobs(world.build(new_job("only")))
    assert (queue.images_of_services(job.id), queue.images_of_services(other.id)) == (["db:1", "cache:1"], [])
    queue.await_image_of_service(job.id, "db:1")
    assert [each.job_id for each in queue.awaiting("db:1")] == [job.id]
    assert [each.job_id for each in queue.following(world.pipeline.organization_id, 10)] == [other.id]
    queue.end_await("db:1")
    assert _again(world, job).awaited_image is None


def test_a_job_that_is_canceled_waits_for_no_image(world: World):
    queue = world.storage.queue
    (job,) = world.jobs(world.build(new_job("only", image="alpine")))
    queue.await_image("alpine", "alpine:latest")
    assert world.storage.jobs.move(job.id, JobState.SCHEDULED, JobState.CANCELED)
    assert not queue.is_awaited("alpine:latest")
    assert _again(world, job).awaited_image is None


def _deploy(world: World, lock: str = "deploy", limit: int = 1, **fields: Any) -> Job:
    """Add a build whose only job needs a lock; return the job."""
    return world.job(world.build(new_job("only", lock=lock, lock_limit=limit), **fields))


def test_a_lock_is_given_in_order_and_freed_by_an_end(world: World, clock: ManualClock):
    """However the job ends: it need not even have had a VM."""
    queue, jobs = world.storage.queue, []
    for _ in range(3):
        jobs.append(_deploy(world))
        clock.advance(seconds=1)
    assert _heads(world.storage) == []
    assert queue.give_locks()
    assert not queue.give_locks()
    assert _heads(world.storage) == [jobs[0].id]
    assert queue.awaiting_locks(10) == [each.id for each in jobs[1:]]
    assert [queue.position(_again(world, each)) for each in jobs] == [1, None, None]
    world.start(jobs[0])
    assert not queue.give_locks()
    world.storage.jobs.move(jobs[0].id, JobState.RUNNING, JobState.FAILED)
    world.storage.jobs.move(jobs[1].id, JobState.SCHEDULED, JobState.CANCELED)
    assert queue.give_locks()
    assert _heads(world.storage) == [jobs[2].id]
    assert queue.oldest() == clock.now()


def test_a_lock_is_of_one_organization_branch_and_limit(world: World):
    ours = [_deploy(world, "deploy {branch}", 2) for _ in range(3)]
    theirs = _deploy(world, "deploy main", pipeline=world.other_pipeline("Other"))
    assert [each.lock for each in ours] == ["deploy main"] * 3
    assert world.storage.queue.give_locks()
    assert not _again(world, theirs).awaits_lock
    assert [_again(world, each).awaits_lock for each in ours] == [False, False, True]


def test_a_job_that_backs_off_keeps_its_lock(world: World):
    first, second = _deploy(world), _deploy(world)
    assert world.storage.queue.give_locks()
    _back_off(world, first, 30)
    assert not world.storage.queue.give_locks()
    assert _again(world, second).awaits_lock


def test_no_lock_is_kept_of_a_job_that_waits_for_others(world: World):
    build = world.build(new_job("a"), new_job("b", (0, DEPENDS_ON, False), lock="deploy"))
    waiting = _deploy(world)
    assert world.storage.queue.give_locks()
    assert not _again(world, waiting).awaits_lock
    assert world.jobs(build)[1].awaits_lock
