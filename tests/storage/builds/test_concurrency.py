"""Builds that wait for a turn or an approval, and those that a newer one makes pointless."""

from __future__ import annotations

from typing import Any

import pytest

from storage import (
    ApprovalNotAwaited,
    Build,
    BuildState,
    Concurrency,
    EdgeKind,
    JobState,
    NewBuild,
    NewOrigin,
    NewPipeline,
    OriginEvent,
    Pipeline,
    Repository,
    SlugTaken,
    Storage,
    Turn,
    WaitsFor,
)
from tests.records import new_job
from tests.storage.world import World


def grouped(storage: Storage, world: World, group: str | None = "prod", limit: int = 1, name: str = "web") -> Pipeline:
    """Return a pipeline of the world's organization with a concurrency group."""
    organization = world.pipeline.organization_id
    try:
        pipeline = storage.pipelines.create(organization, NewPipeline(name, name, "r", "main"))
    except SlugTaken:
        pipeline = world.pipeline
    return storage.pipelines.update(pipeline.id, concurrency_group=group, concurrency_limit=limit)


def waits(storage: Storage, build: Build) -> WaitsFor | None:
    found = storage.builds.get(build.id)
    assert found is not None
    return found.waits_for


def end(storage: Storage, build: Build) -> None:
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)


def states(world: World, build: Build) -> list[JobState]:
    return [job.state for job in world.jobs(build)]


def test_builds_of_a_group_run_in_order_of_creation(storage: Storage, world: World):
    pipeline = grouped(storage, world, limit=2)
    builds = [world.build(pipeline=pipeline) for _ in range(5)]
    assert [waits(storage, each) for each in builds] == [None, None, *[WaitsFor.TURN] * 3]
    assert [states(world, each)[0] for each in builds[1:3]] == [JobState.SCHEDULED, JobState.PENDING]
    assert storage.concurrency_groups.give_turns() == []
    end(storage, builds[1])
    assert storage.concurrency_groups.give_turns() == [builds[2].id]
    assert states(world, builds[2]) == [JobState.SCHEDULED]
    end(storage, builds[0])
    end(storage, builds[2])
    assert storage.concurrency_groups.give_turns() == [builds[3].id, builds[4].id]


def test_a_new_build_does_not_overtake_one_that_waits(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    first, second = world.build(pipeline=pipeline), world.build(pipeline=pipeline)
    end(storage, first)
    third = world.build(pipeline=pipeline)
    assert waits(storage, third) is WaitsFor.TURN
    assert storage.concurrency_groups.give_turns() == [second.id]


def test_only_jobs_without_prerequisites_are_ready_at_the_turn(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    first = world.build(pipeline=pipeline)
    jobs = (new_job("a"), new_job("b", (0, EdgeKind.DEPENDS_ON, False)), new_job("c"))
    build = world.build(*jobs, pipeline=pipeline)
    end(storage, first)
    storage.concurrency_groups.give_turns()
    assert states(world, build) == [JobState.SCHEDULED, JobState.PENDING, JobState.SCHEDULED]


def test_a_build_that_waits_says_for_whom(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    first, second, third = (world.build(pipeline=pipeline) for _ in range(3))
    assert storage.concurrency_groups.turn(first) is None
    name = f"{pipeline.slug}/{first.number}"
    assert storage.concurrency_groups.turn(second) == Turn("prod", 1, (name,), before=0)
    assert storage.concurrency_groups.turn(third) == Turn("prod", 1, (name,), before=1)


def test_pipelines_share_a_group_and_organizations_do_not(storage: Storage, world: World):
    one, two = grouped(storage, world), grouped(storage, world, name="other")
    stranger = world.other_pipeline("Strangers")
    storage.pipelines.update(stranger.id, concurrency_group="prod")
    world.build(pipeline=one)
    assert waits(storage, world.build(pipeline=two)) is WaitsFor.TURN
    stranger_again = storage.pipelines.by_id(stranger.id)
    assert waits(storage, world.build(pipeline=stranger_again)) is None


def test_a_group_may_be_of_one_branch(storage: Storage, world: World):
    pipeline = grouped(storage, world, "deploy {branch}")
    main, other, again = (world.build(pipeline=pipeline, branch=each) for each in ("main", "dev", "main"))
    assert [waits(storage, each) for each in (main, other, again)] == [None, None, WaitsFor.TURN]
    assert main.concurrency_group == "deploy main"


def test_a_higher_limit_lets_more_run(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    builds = [world.build(pipeline=pipeline) for _ in range(4)]
    storage.pipelines.update(pipeline.id, concurrency_limit=3)
    assert storage.concurrency_groups.give_turns() == [builds[1].id, builds[2].id]


def fork(**fields: Any) -> dict[str, Any]:
    return {"untrusted_origin": "pull/1/7", "approval_reason": "eve is not a member"} | fields


def test_a_build_waits_for_its_approval_and_then_runs(storage: Storage, world: World):
    build = world.build(**fork())
    assert (waits(storage, build), states(world, build)) == (WaitsFor.APPROVAL, [JobState.PENDING])
    approved = storage.approvals.approve(build.id, "ada@example.org")
    assert (approved.waits_for, approved.approved_by) == (None, "ada@example.org")
    assert approved.approved_at is not None
    assert states(world, build) == [JobState.SCHEDULED]


@pytest.mark.parametrize("case", ["never needed", "approved", "canceled", "finished", "waits for its turn"])
def test_what_does_not_wait_for_an_approval_gets_none(storage: Storage, world: World, case: str):
    pipeline = grouped(storage, world)
    world.build(pipeline=pipeline, branch="dev")
    build = world.build(pipeline=pipeline) if case == "waits for its turn" else world.build(**fork())
    if case == "never needed":
        build = world.build()
    elif case == "approved":
        storage.approvals.approve(build.id, "bob@example.org")
    elif case == "canceled":
        storage.builds.request_cancel(build.id)
    elif case == "finished":
        end(storage, build)
    before = storage.builds.get(build.id)
    why = "^bob@example.org approved it at " if case == "approved" else "^it does not wait for an approval$"
    with pytest.raises(ApprovalNotAwaited, match=why):
        storage.approvals.approve(build.id, "ada@example.org")
    assert storage.builds.get(build.id) == before


def test_an_approved_build_may_still_wait_for_its_turn(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    first, second = (world.build(pipeline=pipeline, **fork()) for _ in range(2))
    assert storage.approvals.approve(second.id, "ada@example.org").waits_for is None
    assert storage.approvals.approve(first.id, "ada@example.org").waits_for is WaitsFor.TURN
    assert states(world, first) == [JobState.PENDING]


def test_a_fork_has_groups_of_its_own_and_delays_no_other(storage: Storage, world: World):
    pipeline = grouped(storage, world)
    world.build(pipeline=pipeline, untrusted_origin="pull/1/7")
    assert waits(storage, world.build(pipeline=pipeline)) is None
    assert waits(storage, world.build(pipeline=pipeline, untrusted_origin="pull/1/8")) is None
    assert waits(storage, world.build(pipeline=pipeline, untrusted_origin="pull/1/7")) is WaitsFor.TURN


def test_a_build_that_is_rejected_waits_for_nothing(storage: Storage, world: World):
    new = NewBuild("main", "c0ffee", **fork())
    build = storage.builds.create_rejected(world.pipeline, new, "render_failed", "no")
    assert (build.waits_for, build.state) == (None, BuildState.FAILED)


def test_an_untrusted_build_has_cache_keys_of_its_own(storage: Storage, world: World):
    trusted, one, other = (
        world.job(world.build(new_job(cache_key="k"), untrusted_origin=origin))
        for origin in (None, "pull/1/7", "pull/1/70")
    )
    assert [each.cache_key for each in (trusted, one, other)] == ["k", "pull/1/7:k", "pull/1/70:k"]


MAIN = "refs/heads/main"


@pytest.fixture
def repository(storage: Storage, world: World) -> Repository:
    return storage.repositories.connect(world.pipeline.organization_id, "https://example.org/a/b.git", "a/b", 60)


def pushed(storage: Storage, world: World, repository: Repository, ref: str = MAIN, **fields: Any) -> Build:
    """Add a build of a push, or of a pull request if it has a number."""
    number = fields.pop("number", None)
    event = OriginEvent.PUSH if number is None else OriginEvent.PULL_REQUEST
    origin = NewOrigin(repository.id, fields.pop("event", event), ref, pull_request=number)
    build = world.build(**fields)
    storage.build_origins.record(build.id, origin, reports=False)
    return build


def superseded(storage: Storage, build: Build, *, running: bool = False) -> list[int]:
    origin = storage.build_origins.get(build.id)
    assert origin is not None
    assert origin.repository_id is not None
    new = NewOrigin(origin.repository_id, origin.event, origin.ref, pull_request=origin.pull_request)
    return storage.superseded.cancel_older(build, new, running=running)


def test_older_builds_of_the_branch_that_wait_are_canceled(storage: Storage, world: World, repository: Repository):
    older = [pushed(storage, world, repository) for _ in range(2)]
    newer = pushed(storage, world, repository)
    assert superseded(storage, newer) == [each.id for each in older]
    canceled = storage.builds.get(older[0].id)
    assert canceled is not None
    assert (canceled.cancel_requested, canceled.error_code) == (True, "superseded")
    assert canceled.error_message == f"build {newer.number} is of a newer commit"
    assert storage.builds.to_cancel() == [each.id for each in older]
    assert superseded(storage, newer) == []


def test_builds_that_run_are_canceled_only_if_asked_for(storage: Storage, world: World, repository: Repository):
    runs = pushed(storage, world, repository)
    storage.builds.move(runs.id, BuildState.SCHEDULED, BuildState.RUNNING)
    newer = pushed(storage, world, repository)
    assert superseded(storage, newer) == []
    assert superseded(storage, newer, running=True) == [runs.id]


def test_other_builds_are_not_superseded(storage: Storage, world: World, repository: Repository):
    other = storage.repositories.connect(world.pipeline.organization_id, "https://example.org/c/d.git", "c/d", 60)
    world.build()
    finished = pushed(storage, world, repository)
    storage.builds.move(finished.id, BuildState.SCHEDULED, BuildState.PASSED)
    pushed(storage, world, repository, "refs/heads/dev")
    pushed(storage, world, repository, "refs/tags/main", event=OriginEvent.TAG)
    pushed(storage, world, repository, number=1)
    pushed(storage, world, other)
    pushed(storage, world, repository, pipeline=world.other_pipeline("Other"))
    newer = pushed(storage, world, repository)
    pushed(storage, world, repository)
    assert superseded(storage, newer, running=True) == []


def test_a_tag_supersedes_nothing(storage: Storage, world: World, repository: Repository):
    pushed(storage, world, repository, "refs/tags/v1", event=OriginEvent.TAG)
    newer = pushed(storage, world, repository, "refs/tags/v1", event=OriginEvent.TAG)
    assert superseded(storage, newer, running=True) == []


def test_a_pull_request_supersedes_its_own_builds(storage: Storage, world: World, repository: Repository):
    first = pushed(storage, world, repository, "refs/pull/1/head", number=1)
    pushed(storage, world, repository, "refs/pull/2/head", number=2)
    pushed(storage, world, repository)
    assert superseded(storage, pushed(storage, world, repository, "refs/pull/1/head", number=1)) == [first.id]


def test_closing_a_pull_request_cancels_what_waits(storage: Storage, world: World, repository: Repository):
    runs = pushed(storage, world, repository, number=1)
    storage.builds.move(runs.id, BuildState.SCHEDULED, BuildState.RUNNING)
    waits = [pushed(storage, world, repository, number=1) for _ in range(2)]
    pushed(storage, world, repository, number=2)
    assert storage.superseded.cancel_closed(repository.id, 1) == [each.id for each in waits]
    assert storage.superseded.cancel_closed(repository.id, 1) == []


def declared(world: World, pipeline: Pipeline, group: str, limit: int = 1, **fields: Any) -> Build:
    """Add a build whose file declares a concurrency group."""
    concurrency = Concurrency(group, limit, cancels=fields.pop("cancels", False))
    new = NewBuild(**{"branch": "main", "commit": "c0ffee", "concurrency": concurrency, **fields})
    return world.storage.builds.create(pipeline, new, [new_job()])


def test_the_group_of_a_file_replaces_that_of_its_pipeline(storage: Storage, world: World):
    pipeline = grouped(storage, world, "set", limit=5)
    builds = [declared(world, pipeline, "deploy {branch}", 2) for _ in range(4)]
    assert [each.concurrency_group for each in builds] == ["deploy main"] * 4
    assert [waits(storage, each) for each in builds] == [None, None, WaitsFor.TURN, WaitsFor.TURN]
    assert storage.concurrency_groups.turn(builds[3]) == Turn(
        "deploy main", 2, tuple(f"web/{each.number}" for each in builds[:2]), 1
    )
    assert waits(storage, declared(world, pipeline, "deploy {branch}", branch="next")) is None
    end(storage, builds[0])
    assert storage.concurrency_groups.give_turns() == [builds[2].id]
    of_fork = declared(world, pipeline, "deploy {branch}", untrusted_origin="pull/1/7", branch="eve:main")
    assert of_fork.concurrency_group == "pull/1/7: deploy eve:main"


def test_a_new_build_cancels_its_group_where_the_file_says_so(storage: Storage, world: World):
    """Cancel those that wait and those that run, but none that is newer or of another group."""
    pipeline, other = grouped(storage, world, None), grouped(storage, world, None, name="other")
    older = [declared(world, pipeline, "g", cancels=each) for each in (False, False)]
    elsewhere = [declared(world, pipeline, "h"), world.build()]
    newest = declared(world, other, "g", cancels=True)
    found = [storage.builds.get(each.id) for each in (*older, *elsewhere, newest)]
    assert [each is not None and each.cancel_requested for each in found] == [True, True, False, False, False]
    first = found[0]
    assert first is not None
    assert (first.error_code, first.error_message) == (
        "superseded",
        f'build {newest.number} is newer in the concurrency group "g"',
    )
    assert storage.builds.to_cancel() == [each.id for each in older]
    assert waits(storage, newest) is WaitsFor.TURN
    for each in older:
        assert storage.builds.move(each.id, BuildState.SCHEDULED, BuildState.CANCELED)
    assert storage.concurrency_groups.give_turns() == [newest.id]


def test_a_build_that_is_rendered_joins_the_group_of_its_file(storage: Storage, world: World):
    pipeline = grouped(storage, world, None)
    first = declared(world, pipeline, "g")
    build = storage.renders.begin(pipeline, NewBuild("main", "c0ffee", source_archive=b"x"), None)
    assert storage.renders.plan(
        build.id, "{}", None, [new_job()], has_source=True, concurrency=Concurrency("g", cancels=True)
    )
    assert storage.builds.to_cancel() == [first.id]
    assert waits(storage, build) is WaitsFor.TURN
    assert states(world, build) == [JobState.PENDING]
    end(storage, first)
    assert storage.concurrency_groups.give_turns() == [build.id]
    assert states(world, build) == [JobState.SCHEDULED]
