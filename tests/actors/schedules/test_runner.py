"""The schedule runner on a clock that the tests move; and one whole service whose schedule builds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pykka
import pytest

from actors import JobSettings, PoolSettings
from actors.addresses import Address
from actors.builds.adding import add_planned
from actors.log_watchers import LogWatchers
from actors.messages import Drain, PollStorage
from actors.parts import Parts
from actors.repositories.commit_builds import CommitParts
from actors.repositories.pushes import PushBuilds
from actors.schedules import new_schedule
from actors.schedules.runner import ScheduleRunner
from actors.settings import LiveSettings
from actors.source_hosts import PlainGit
from actors.supervision import spawn
from storage import (
    Build,
    BuildSettings,
    BuildState,
    Declaration,
    DeclaringRepository,
    JobOutputs,
    NewBuild,
    NewPipeline,
    NewPipelineTrigger,
    NewSchedule,
    Pipeline,
    PipelineTrigger,
    Schedule,
    TokenLimits,
    TriggerState,
)
from tests.actors.conftest import Host, discovery_in, images_in_memory, settings_with
from tests.clock import ManualClock
from tests.e2e.pipelines import one
from tests.memory.provider import MemoryProvider, only
from tests.records import new_owner, new_pipeline
from tests.state import new_storage
from tests.waiting import until

HELLO = one("echo hello")
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class World:
    """A storage with a pipeline, and one schedule runner at a time."""

    def __init__(self, directory: Path) -> None:
        self.clock = ManualClock(START)
        self.directory = directory
        self.names = count()
        self.storage = new_storage(directory / "state", self.clock)
        self.owner = new_owner(self.storage)
        self.organization = self.owner.organization
        self.pipeline = self.add_pipeline("demo")

    def add_pipeline(self, slug: str) -> Pipeline:
        return self.storage.pipelines.create(self.organization.id, NewPipeline(slug, slug, "r", "main"))

    def build(self, state: BuildState | None = BuildState.PASSED, **fields: Any) -> Build:
        """Add a build of the pipeline, which ended in a state."""
        new = NewBuild(**{"branch": "main", "commit": "c0ffee", "pipeline_ir": HELLO, **fields})
        build = self.storage.builds.create_unplanned(self.pipeline, new)
        if state is not None:
            self.storage.builds.move(build.id, BuildState.SCHEDULED, state)
        return build

    def schedule(self, cron: str = "0 * * * *", pipeline: Pipeline | None = None, **fields: Any) -> Schedule:
        new = new_schedule(cron, fields.pop("timezone", None), "main", self.clock.now())
        return self.storage.schedules.create((pipeline or self.pipeline).id, replace(new, **fields))

    def now(self, schedule: Schedule) -> Schedule:
        """Return a schedule as it is now."""
        found = self.storage.schedules.by_uuid(schedule.uuid)
        assert found is not None
        return found

    def builds(self, pipeline: Pipeline | None = None) -> list[Build]:
        """Return the builds of schedules, oldest first."""
        rows = self.storage.builds.page((pipeline or self.pipeline).id, 100, None).rows
        return [build for build in reversed(rows) if build.source == "schedule"]

    @contextmanager
    def runner(self) -> Iterator[Address[Any]]:
        live_settings = LiveSettings(settings_with(PoolSettings(), JobSettings()))
        images = images_in_memory(self.directory / str(next(self.names)))
        hosts = {"git": PlainGit(self.storage)}
        parts = CommitParts(
            storage=self.storage,
            clock=self.clock,
            discovery=discovery_in(self.storage, only(MemoryProvider(images)), images, self.clock, live_settings),
            live_settings=live_settings,
            root=Address(),
            hosts=hosts,
        )
        self.pushes = pushes = PushBuilds(parts, self.directory / "mirrors", LogWatchers())
        address = spawn(
            ScheduleRunner,
            Parts(storage=self.storage, clock=self.clock, live_settings=live_settings),
            pushes=lambda: pushes,
        )
        try:
            yield address
        finally:
            address.stop()

    def poll(self, address: Address[Any]) -> None:
        """Let a runner look, and wait until nothing is due any more."""
        address.ask(PollStorage())
        until(lambda: not self.storage.schedules.due(1), "nothing is due")

    def end(self, build: Build) -> None:
        self.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.storage.close()
    assert pykka.ActorRegistry.get_all() == []


def test_a_schedule_repeats_no_refused_request(world: World):
    good = world.build(commit="good")
    new = NewBuild("main", "bad", pipeline_ir="{")
    world.storage.builds.create_rejected(world.pipeline, new, "invalid_json", "why", refused=True)
    world.schedule()
    with world.runner() as runner:
        world.clock.advance(minutes=56)
        world.poll(runner)
    (build,) = world.builds()
    assert (build.commit, build.rebuild_of) == ("good", good.number)


def test_a_schedule_builds_when_it_is_due_and_not_before(world: World):
    world.build(commit="old")
    latest = world.build(commit="new", env={"A": "b"}, message="hello", source_archive=b"an archive")
    world.build(branch="other")
    schedule = world.schedule()
    with world.runner() as runner:
        world.clock.advance(minutes=55)
        world.poll(runner)
        assert world.builds() == []
        world.clock.advance(minutes=1)
        world.poll(runner)
    (build,) = world.builds()
    moved = world.now(schedule)
    assert (build.branch, build.commit, build.message, build.rebuild_of) == ("main", "new", "hello", latest.number)
    assert world.storage.builds.env(build.id) == {"A": "b"}
    assert world.storage.sources.path(build.uuid).read_bytes() == b"an archive"
    assert [job.step_key for job in world.storage.jobs.of_build(build.id)] == ["only"]
    assert (moved.last_build_number, moved.last_error) == (build.number, None)
    assert moved.next_at == datetime(2026, 1, 2, 5, tzinfo=UTC)


def test_times_missed_while_the_service_was_away_run_once(world: World):
    world.build()
    schedule = world.schedule("*/5 * * * *")
    world.clock.advance(days=3)
    for _ in range(2):
        with world.runner() as runner:
            world.poll(runner)
    assert len(world.builds()) == 1
    assert world.now(schedule).next_at == world.clock.now().replace(minute=5, second=0)


def test_a_schedule_that_is_disabled_builds_nothing(world: World):
    world.build()
    world.schedule(next_at=None)
    with world.runner() as runner:
        world.clock.advance(days=1)
        world.poll(runner)
    assert world.builds() == []


def test_a_build_that_has_not_ended_is_not_joined_by_another(world: World):
    world.build()
    schedule = world.schedule()
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
        (build,) = world.builds()
        world.clock.advance(hours=1)
        world.poll(runner)
        waiting = world.now(schedule)
        assert waiting.last_error == f"build {build.number} of this schedule has not ended yet"
        assert (waiting.last_build_number, waiting.next_at) == (build.number, datetime(2026, 1, 2, 6, tzinfo=UTC))
        world.end(build)
        world.clock.advance(hours=1)
        world.poll(runner)
    assert len(world.builds()) == 2
    assert world.now(schedule).last_error is None


def test_a_clock_that_goes_forward_runs_once(world: World):
    world.build()
    world.schedule()
    with world.runner() as runner:
        world.poll(runner)
        world.clock.advance(days=4000)
        world.poll(runner)
    assert len(world.builds()) == 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_clock_that_was_years_ahead_stops_no_schedule(world: World, restart: bool):
    world.build()
    schedule = world.schedule()
    world.schedule("0 0 1 1 *")
    with world.runner() as runner:
        world.clock.advance(days=4000)
        world.poll(runner)
        world.clock.advance(days=-4000)
        if not restart:
            runner.ask(PollStorage())
    if restart:
        with world.runner() as runner:
            runner.ask(PollStorage())
    assert world.now(schedule).next_at == datetime(2026, 1, 2, 4, tzinfo=UTC)


def test_a_clock_that_is_set_back_a_little_runs_nothing_twice(world: World):
    world.build()
    schedule = world.schedule("0 * * * *")
    with world.runner() as runner:
        world.clock.advance(minutes=56)
        world.poll(runner)
        for build in world.builds():
            world.end(build)
        world.clock.advance(minutes=-10)
        world.poll(runner)
        world.clock.advance(minutes=20)
        world.poll(runner)
    assert len(world.builds()) == 1
    assert world.now(schedule).next_at == datetime(2026, 1, 2, 5, tzinfo=UTC)


def nothing(world: World) -> str:
    return 'there is no build of the branch "main" to repeat: create one'


def gone(world: World) -> str:
    build = world.build(source_archive=b"an archive")
    retention = world.storage.source_retention
    retention.measure()
    retention.expire(retention.oldest_first())
    return f"the source of build {build.number} is no longer kept; create a new build"


def neither(world: World) -> str:
    return f"build {world.build(pipeline_ir=None).number} has neither pipeline nor source: create another one"


def poor(world: World) -> str:
    world.build()
    world.storage.billing = replace(world.storage.billing, require_credit=True)
    return "the organization has no credit, and this service requires it"


def full(world: World) -> str:
    world.storage.build_room.settings = BuildSettings(max_unfinished=1)
    world.build(state=None)
    return "1 builds of the organization have not ended, of 1 at most"


@pytest.mark.parametrize("reason", [nothing, gone, neither, poor, full])
def test_why_nothing_was_built_is_noted(world: World, reason: Any):
    why = reason(world)
    schedule = world.schedule()
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    assert world.builds() == []
    assert world.now(schedule).last_error == why
    assert world.now(schedule).next_at == datetime(2026, 1, 2, 5, tzinfo=UTC)


def test_a_pipeline_that_is_closed_to_callers_is_built(world: World):
    world.build()
    world.storage.pipelines.update(world.pipeline.id, allow_manual=False)
    world.schedule()
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    assert len(world.builds()) == 1


def test_a_source_that_was_not_planned_is_rendered_again(world: World):
    world.build(pipeline_ir=None, source_archive=b"an archive")
    world.schedule()
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    (build,) = world.builds()
    assert world.storage.renders.pending(build.id)


def test_a_plan_that_is_refused_now_is_a_failed_build(world: World):
    world.build(pipeline_ir="{}")
    world.schedule()
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    (build,) = world.builds()
    assert build.state is BuildState.FAILED
    assert build.error_code == "bad_version"


def test_one_schedule_that_cannot_be_read_holds_up_no_other(world: World):
    """A zone that an upgrade removed disables its schedule; a damaged environment is noted."""
    world.build()
    lost = world.schedule(timezone="Europe/Berlin")
    world.storage.schedules.update(lost.id, timezone="Mars/Olympus")
    other = world.add_pipeline("other")
    world.storage.builds.create_rejected(other, NewBuild("main", "c", pipeline_ir=HELLO), "invalid_ir", "no")
    good = world.schedule(pipeline=other)
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    assert world.now(lost).next_at is None
    assert world.now(good).last_build_number == 2


def test_a_hundred_that_are_due_at_once_are_all_built(world: World):
    world.build()
    pipelines = [world.add_pipeline(f"p{n}") for n in range(25)]
    for pipeline in pipelines:
        build = NewBuild("main", "c", pipeline_ir=HELLO)
        world.storage.builds.create_unplanned(pipeline, build)
        for _ in range(4):
            world.schedule(pipeline=pipeline)
    with world.runner() as runner:
        world.clock.advance(hours=1)
        world.poll(runner)
    assert [len(world.builds(pipeline)) for pipeline in pipelines] == [4] * 25


def test_a_service_that_is_about_to_stop_leaves_them_to_the_next(world: World):
    world.build()
    world.schedule()
    with world.runner() as runner:
        runner.ask(Drain())
        world.clock.advance(hours=1)
        runner.ask(PollStorage())
    assert world.builds() == []
    with world.runner() as runner:
        world.poll(runner)
    assert len(world.builds()) == 1


def test_a_drained_host_builds_once_it_is_resumed(world: World):
    world.build()
    world.schedule()
    world.storage.switches.drain()
    with world.runner() as runner:
        for _ in range(3):
            world.clock.advance(hours=1)
            runner.ask(PollStorage())
        assert len(world.storage.schedules.due(1)) == 1
        world.storage.switches.resume()
        world.poll(runner)
    assert len(world.builds()) == 1


def test_two_runners_build_once(world: World):
    """As if the service was started while its predecessor still ended."""
    world.build()
    world.schedule()
    with world.runner() as first, world.runner() as second:
        world.clock.advance(hours=1)
        first.post(PollStorage())
        second.post(PollStorage())
        until(world.builds, "a build")
    assert len(world.builds()) == 1


def test_a_deleted_pipeline_takes_its_schedules_along(world: World):
    world.build()
    schedule = world.schedule()
    world.storage.pipelines.delete(world.pipeline.id)
    assert world.storage.schedules.by_uuid(schedule.uuid) is None


def test_a_schedule_runs_a_build_to_its_end(host: Host):
    """In a running service, for a row that another process adds."""
    first = host.build(HELLO)
    assert host.finish(first).state == "passed"
    past = host.clock.now() - timedelta(minutes=1)
    new = NewSchedule("0 0 1 1 *", "UTC", "main", past)
    schedule = host.storage.schedules.create(host.pipeline.id, new)

    build = until(lambda: host.storage.builds.by_number(host.pipeline.id, first.number + 1), "the schedule's build")

    assert host.finish(build).state == "passed"
    assert host.log(build) == b"hello\n"
    assert build.source == "schedule"
    found = host.storage.schedules.by_uuid(schedule.uuid)
    assert found is not None
    assert found.last_build_number == build.number
    assert found.next_at is not None
    assert found.next_at > host.clock.now()


def test_schedules_of_slow_repositories_leave_places_to_others(world: World):
    for name in "abcde":
        url = str(world.directory / name)
        connected = world.storage.repositories.connect(world.organization.id, url, name, 60)
        declaring = DeclaringRepository(world.organization.id, name, url)
        declared = world.storage.declarations.register(declaring, name, "main", Declaration(name, True, ()))
        assert world.storage.repositories.of_pipeline(declared) == connected
        world.schedule(pipeline=declared)
    other = new_pipeline(world.storage)
    world.storage.builds.create_unplanned(other, NewBuild("main", "c0ffee", pipeline_ir=HELLO))
    world.schedule("1 * * * *", pipeline=other)
    with world.runner() as runner, ExitStack() as slow:
        for each in world.storage.repositories.all():
            slow.enter_context(world.pushes.lock_of(each.uuid))
        world.clock.advance(hours=1, minutes=1)
        runner.post(PollStorage())
        until(lambda: world.builds(other), "the schedule of the other organization")
        slow.close()
        until(lambda: not world.storage.schedules.due(1), "the others")


def follow(world: World, *ends: Build) -> PipelineTrigger:
    """Let ends of the pipeline ``demo`` be followed by ``app``; return the trigger of that."""
    app = world.storage.pipelines.by_slug(world.organization.id, "app") or world.add_pipeline("app")
    new = NewPipelineTrigger("demo", TriggerState.PASSED, "main", ".hm/ci.yml")
    world.storage.pipeline_triggers.declare(app.id, [new])
    for each in ends:
        ended = world.storage.builds.get(each.id)
        assert ended is not None
        with world.storage.transaction():
            world.storage.pipeline_triggers.follow(ended, world.pipeline)
    (trigger,) = world.storage.pipeline_triggers.of_pipeline(app.id)
    return trigger


def test_a_pipeline_that_follows_another_is_built_once(world: World):
    budget = world.storage.tokens.create_api_key(world.owner.user.id, "agent", limits=TokenLimits(budget_cents=9))[0].id
    upstream = world.build(budget_id=budget)
    app = world.add_pipeline("app")
    new = NewBuild("main", "own", pipeline_ir=HELLO, env={"A": "b", "CI_EVENT": "push"})
    world.storage.builds.create_rejected(app, new, "invalid_ir", "no")
    follow(world, upstream)
    for _ in range(2):
        with world.runner() as runner:
            runner.ask(PollStorage())
            until(lambda: not world.storage.pipeline_triggers.due(1), "nothing is due")
    build = world.storage.builds.latest(app.id, "main")
    assert build is not None
    assert (build.number, build.source, build.commit, build.budget_id) == (2, "trigger_job", "own", budget)
    told = {"A": "b", "CI_EVENT": "pipeline", "CI_UPSTREAM_BUILD": upstream.name}
    assert world.storage.builds.env(build.id) == told
    (trigger,) = world.storage.pipeline_triggers.of_pipeline(app.id)
    assert (trigger.last_build_number, trigger.last_error) == (2, None)


def test_a_pipeline_gets_inputs_of_the_build_that_it_follows(world: World):
    """Those that the build does not give have their defaults; a budget pays in its own organization alone."""
    storage = world.storage
    gives = {
        "version": "1",
        "on": {"manual": {"inputs": {"flavor": {"default": "slim"}, "debug": {"boolean": True}}}},
        "jobs": {"package": {"image": "debian:12", "run": "true"}},
    }
    limits = LiveSettings(settings_with(PoolSettings(), JobSettings())).now.ir
    budget = storage.tokens.create_api_key(world.owner.user.id, "agent", limits=TokenLimits(budget_cents=9))[0].id
    new = NewBuild("main", "c", pipeline_ir=json.dumps(gives), budget_id=budget, verified_ref="refs/heads/main")
    upstream = add_planned(storage, limits, world.pipeline, new).build
    (job,) = storage.jobs.of_build(upstream.id)
    storage.told.store_outputs(JobOutputs(job.id, upstream.id, {"VERSION": "1.2", "OTHER": "x"}, None))
    storage.builds.move(upstream.id, BuildState.SCHEDULED, BuildState.PASSED)
    names: dict[str, Any] = {name: {} for name in ("version", "flavor", "debug", "missing")}
    takes = {**gives, "on": {"manual": {"inputs": names}}}
    theirs = new_pipeline(storage, "Others", "eve@example.org")
    storage.builds.create_rejected(theirs, NewBuild("main", "own", pipeline_ir=json.dumps(takes)), "invalid_ir", "no")
    asked = {
        "version": "outputs.package.VERSION",
        "flavor": "inputs.flavor",
        "debug": "inputs.debug",
        "missing": "outputs.package.GONE",
    }
    trigger = NewPipelineTrigger("ada-example-org/demo", TriggerState.PASSED, "main", ".hm/ci.yml", asked)
    storage.pipeline_triggers.declare(theirs.id, [trigger])
    allowing = storage.pipelines.update(world.pipeline.id, followers=("others",))

    def follow_now() -> PipelineTrigger:
        ended = storage.builds.get(upstream.id)
        assert ended is not None
        with storage.transaction():
            storage.pipeline_triggers.follow(ended, allowing)
        (now,) = storage.pipeline_triggers.of_pipeline(theirs.id)
        return now

    assert follow_now().upstream_id == upstream.id
    storage.pipelines.update(world.pipeline.id, followers=())
    with world.runner() as runner:
        runner.ask(PollStorage())
        until(lambda: not storage.pipeline_triggers.due(1), "nothing is due")
        (refused,) = storage.pipeline_triggers.of_pipeline(theirs.id)
        assert refused.last_error == 'there is no pipeline "ada-example-org/demo" to follow'
        storage.pipelines.update(world.pipeline.id, followers=("others",))
        follow_now()
        runner.ask(PollStorage())
        build = until(lambda: storage.builds.by_number(theirs.id, 2), "the build that follows")
    assert build.inputs == {"version": "1.2", "flavor": "slim", "debug": "false"}
    assert (build.state, build.budget_id, build.error_code) == ("scheduled", None, None)
    assert storage.pipeline_triggers.upstream_id(build.id) == upstream.id
    (job,) = storage.jobs.of_build(build.id)
    assert {name: job.env[name] for name in ("INPUT_VERSION", "INPUT_FLAVOR", "INPUT_MISSING")} == {
        "INPUT_VERSION": "1.2",
        "INPUT_FLAVOR": "slim",
        "INPUT_MISSING": "",
    }


def test_what_cannot_follow_is_tried_again_and_given_up(world: World):
    trigger = follow(world, world.build())
    tried = []
    with world.runner() as runner:
        for _ in range(8):
            runner.ask(PollStorage())
            until(lambda: not world.storage.pipeline_triggers.due(1), "nothing is due")
            (now,) = world.storage.pipeline_triggers.of_pipeline(trigger.pipeline_id)
            tried.append((now.failures, now.upstream_id is None))
            world.clock.advance(hours=1)
    assert tried == [(n, False) for n in range(1, 6)] + [(6, True)] * 3
    assert now.last_error == 'there is no build of the branch "main" to repeat: create one'


def test_a_pipeline_follows_another_in_a_running_service(host: Host):
    first = host.build(HELLO)
    app = host.storage.pipelines.create(host.pipeline.organization_id, NewPipeline("app", "app", "r", "main"))
    host.storage.builds.create_rejected(app, NewBuild("main", "c", pipeline_ir=HELLO), "invalid_ir", "no")
    new = NewPipelineTrigger(host.pipeline.slug, TriggerState.PASSED, "main", ".hm/ci.yml")
    host.storage.pipeline_triggers.declare(app.id, [new])
    assert host.finish(first).state == "passed"
    build = until(lambda: host.storage.builds.by_number(app.id, 2), "the build that follows")
    assert host.finish(build).state == "passed"
