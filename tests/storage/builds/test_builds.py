"""Builds from their creation to an end by force."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from storage import (
    BuildFinished,
    BuildSettings,
    BuildState,
    EdgeKind,
    JobState,
    NewBuild,
    NewJob,
    Outcome,
    Pipeline,
    SealBroken,
    Shape,
    Storage,
    Vault,
)
from storage.builds.builds import Builds
from storage.builds.insertion import BuildInserter, JobInserter
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import BUILDS_IN, DEPENDS_ON, World


def test_a_build_keeps_its_callers_fields_and_is_queued(world: World, pipeline: Pipeline, clock: ManualClock):
    build = world.build(branch="dev", commit="beef", message="Fix\nit", source="cli", timeout_seconds=60)
    assert (build.branch, build.commit, build.message, build.source) == ("dev", "beef", "Fix\nit", "cli")
    assert (build.number, build.state, build.timeout_seconds) == (1, BuildState.SCHEDULED, 60)
    assert (build.pipeline_id, build.pipeline_slug) == (pipeline.id, "web")
    assert (build.organization_id, build.organization_slug) == (pipeline.organization_id, "acme")
    assert build.created_at == build.scheduled_at == clock.now()
    assert (build.started_at, build.finished_at, build.error_code, build.error_message) == (None, None, None, None)
    assert (build.cancel_requested, build.has_source) == (False, False)
    assert build.uuid != build.external_id


def test_a_build_is_found_by_each_of_its_names(storage: Storage, world: World):
    build = world.build()
    assert storage.builds.get(build.id) == storage.builds.by_uuid(build.uuid) == build
    assert storage.builds.by_number(build.pipeline_id, 1) == storage.builds.find("acme", "web", 1) == build


@pytest.mark.parametrize("number", [0, -1, 2, 2**63, 10**30, -(10**30)])
def test_a_number_that_no_build_has_finds_none(storage: Storage, world: World, number: int):
    build = world.build()
    assert storage.builds.by_number(build.pipeline_id, number) is None
    assert storage.builds.find("acme", "web", number) is None


def test_numbers_run_within_each_pipeline(world: World):
    other = world.other_pipeline("Other")
    assert [world.build().number for _ in range(3)] == [1, 2, 3]
    assert [world.build(pipeline=other).number for _ in range(2)] == [1, 2]


def test_jobs_keep_their_planned_fields_and_order(world: World):
    planned = NewJob(
        step_key="test",
        name="Tests 🎉",
        command="make test\n\x00",
        image=None,
        env={"A": "é", "B": ""},
        shape=Shape(4, 8, 40),
        timeout_seconds=90,
        network=False,
        retry_policy={"limit": 2, "exit_codes": [1]},
        soft_fail_policy={},
        artifacts=("dist/*", "a b"),
        secrets=("TOKEN",),
        cache_policy="ttl",
        cache_key="k",
        depends_on=(),
    )
    first, second = world.jobs(world.build(new_job("first"), planned))
    assert (first.position, second.position, first.step_key) == (0, 1, "first")
    for name in NewJob.__dataclass_fields__.keys() - {"depends_on", "paths", "skipped", "taken"}:
        assert getattr(second, name) == getattr(planned, name)
    assert (second.attempt, second.exit_code, second.error_code, second.error_message) == (0, None, None, None)
    assert (second.soft_failed, second.cache_hit) == (False, False)


def test_jobs_without_prerequisites_are_scheduled(storage: Storage, world: World, clock: ManualClock):
    build = world.build(
        new_job("a"),
        new_job("b", (0, BUILDS_IN, False)),
        new_job("c", (1, DEPENDS_ON, True), (0, DEPENDS_ON, False)),
    )
    a, b, c = world.jobs(build)
    assert [job.state for job in (a, b, c)] == [JobState.SCHEDULED, JobState.PENDING, JobState.PENDING]
    assert [job.scheduled_at for job in (a, b, c)] == [clock.now(), None, None]
    assert [job.depends_on for job in (a, b, c)] == [(), (a.uuid,), (a.uuid, b.uuid)]
    edges = {(edge.from_id, edge.to_id, edge.kind, edge.continue_on_failure) for edge in storage.jobs.edges(build.id)}
    assert edges == {(a.id, b.id, BUILDS_IN, False), (b.id, c.id, DEPENDS_ON, True), (a.id, c.id, DEPENDS_ON, False)}


def test_a_build_has_at_least_one_job(storage: Storage, pipeline: Pipeline):
    with pytest.raises(ValueError, match="at least one job"):
        storage.builds.create(pipeline, NewBuild("main", "c"), ())


def test_a_failed_creation_leaves_no_build_number_or_archive(
    storage: Storage, world: World, pipeline: Pipeline, tmp_path: Path
):
    twice_in = new_job("c", (0, BUILDS_IN, False), (1, BUILDS_IN, False))
    with pytest.raises(Exception, match="UNIQUE"):
        world.build(new_job("a"), new_job("b"), twice_in, source_archive=b"archive")
    assert storage.pipelines.by_id(pipeline.id).build_count == 0
    assert storage.sources.all() == []
    assert world.build().number == 1


def test_the_source_archive_is_there_with_the_build(storage: Storage, world: World):
    build = world.build(source_archive=b"archive")
    assert build.has_source
    assert storage.sources.path(build.uuid).read_bytes() == b"archive"
    assert storage.sources.all() == [build.uuid]


def test_the_environment_is_sealed_at_rest_and_opens_again(storage: Storage, world: World, tmp_path: Path):
    build = world.build(env={"TOKEN": "s3cr3t-value", "é": "ü"})
    assert storage.builds.env(build.id) == {"TOKEN": "s3cr3t-value", "é": "ü"}
    assert storage.builds.env(world.build().id) == {}
    for file in (tmp_path / "state").glob("*sqlite3*"):
        assert b"s3cr3t-value" not in file.read_bytes()


def inserter(storage: Storage, database: Database, *, strict_shell: bool) -> BuildInserter:
    keys, groups = storage.idempotency_keys, storage.concurrency_groups
    jobs = JobInserter(database, BuildSettings())
    return BuildInserter(
        database, storage.vault, storage.sources, keys, groups, jobs, lambda: storage.audit, strict_shell=strict_shell
    )


def test_an_environment_sealed_with_another_key_is_refused(storage: Storage, database: Database, world: World):
    build = world.build(env={"A": "b"})
    other = Builds(database, Vault(bytes(32)), inserter(storage, database, strict_shell=False))
    with pytest.raises(SealBroken):
        other.env(build.id)


@pytest.mark.parametrize("of_host", [True, False])
@pytest.mark.parametrize("of_organization", [True, False, None])
@pytest.mark.parametrize("of_pipeline", [True, False, None])
def test_the_shell_of_a_build_is_fixed_as_it_is_made(
    storage: Storage,
    database: Database,
    pipeline: Pipeline,
    of_host: bool,
    of_organization: bool | None,
    of_pipeline: bool | None,
):
    """The pipeline's choice comes before the organization's, and that before the host's."""
    builds = Builds(database, storage.vault, inserter(storage, database, strict_shell=of_host))
    storage.organizations.configure(pipeline.organization_id, strict_shell=of_organization)
    storage.pipelines.update(pipeline.id, strict_shell=of_pipeline)
    made = (
        builds.create(pipeline, NewBuild("main", "c"), [new_job()]),
        builds.create_unplanned(pipeline, NewBuild("main", "c")),
    )
    wanted = next(each for each in (of_pipeline, of_organization, of_host) if each is not None)
    storage.organizations.configure(pipeline.organization_id, strict_shell=not wanted)
    storage.pipelines.update(pipeline.id, strict_shell=not wanted)
    found = [storage.builds.get(build.id) for build in made]
    assert [build and build.strict_shell for build in (*made, *found)] == [wanted] * 4


def test_a_rejected_build_stays_with_its_reason(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    new = NewBuild("main", "c", pipeline_ir="{")
    build = storage.builds.create_rejected(pipeline, new, "invalid_json", "not JSON")
    assert (build.number, build.state, build.finished_at) == (1, BuildState.FAILED, clock.now())
    assert (build.error_code, build.error_message) == ("invalid_json", "not JSON")
    assert storage.jobs.of_build(build.id) == storage.builds.unfinished() == []


def test_pages_show_the_newest_first_while_others_come(storage: Storage, world: World, pipeline: Pipeline):
    for _ in range(5):
        world.build()
    first = storage.builds.page(pipeline.id, 2, None)
    world.build()
    second = storage.builds.page(pipeline.id, 2, first.next_key)
    third = storage.builds.page(pipeline.id, 2, second.next_key)
    assert [build.number for page in (first, second, third) for build in page.rows] == [5, 4, 3, 2, 1]
    assert third.next_key is None


def test_a_move_happens_from_the_expected_state_alone(storage: Storage, world: World):
    build = world.build()
    assert not storage.builds.move(build.id, BuildState.RUNNING, BuildState.PASSED)
    assert storage.builds.get(build.id) == build
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    assert not storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    assert not storage.builds.move(999, BuildState.SCHEDULED, BuildState.RUNNING)


@pytest.mark.parametrize("terminal", [state for state in BuildState if state.terminal])
def test_a_terminal_state_is_final_and_has_its_instant(
    storage: Storage, world: World, clock: ManualClock, terminal: BuildState
):
    build = world.build()
    ended = clock.advance(seconds=5)
    assert storage.builds.move(build.id, build.state, terminal, error_code="c", error_message="m")
    clock.advance(seconds=5)
    for state in BuildState:
        assert not storage.builds.move(build.id, terminal, state)
    after = storage.builds.get(build.id)
    assert after is not None
    assert (after.state, after.finished_at, after.error_code, after.error_message) == (terminal, ended, "c", "m")
    assert storage.builds.unfinished() == []


def test_a_build_starts_when_its_first_job_does(storage: Storage, world: World, clock: ManualClock):
    build = world.build(new_job("a"), new_job("b"))
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    started = clock.advance(seconds=3)
    world.start(world.jobs(build)[0])
    clock.advance(seconds=3)
    world.start(world.jobs(build)[1])
    after = storage.builds.get(build.id)
    assert after is not None
    assert after.started_at == started


def test_a_build_ends_with_its_last_job_even_if_noticed_late(world: World):
    build = world.build(new_job("a"), new_job("b"))
    ends = []
    for job, seconds_ago in zip(world.jobs(build), (50.0, 20.0), strict=True):
        lease = world.start(job)
        world.clock.advance(minutes=1)
        world.storage.leases.note_exit(lease.id, job.id, seconds_ago)
        ends.append(world.clock.now() - timedelta(seconds=seconds_ago))
        world.finish(job, lease)
    world.clock.advance(hours=1)
    world.finish_build(build)
    assert [job.finished_at for job in world.jobs(build)] == ends
    after = world.storage.builds.get(build.id)
    assert after is not None
    assert (after.finished_at, after.recorded_at) == (ends[1], world.clock.now())


@pytest.mark.parametrize(
    ("job_state", "build_state"),
    [
        (JobState.CANCELED, BuildState.CANCELED),
        (JobState.CANCELED, BuildState.FAILED),
        (JobState.PASSED, BuildState.CANCELED),
        (JobState.PASSED, BuildState.FAILED),
    ],
)
def test_a_build_is_not_canceled_or_given_up_before_it_was(world: World, job_state: JobState, build_state: BuildState):
    """Jobs that were canceled tell when that was done; a build whose jobs had ended before ends now."""
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    world.clock.advance(minutes=1)
    world.storage.leases.note_exit(lease.id, job.id, 20.0)
    ended = world.clock.now() - timedelta(seconds=20)
    world.finish(job, lease, to=job_state)
    if build_state is BuildState.CANCELED:
        world.storage.builds.request_cancel(build.id)
    else:
        world.storage.builds.record_error(build.id, "internal_error", "why")
    world.clock.advance(hours=1)
    world.storage.builds.move(build.id, BuildState.SCHEDULED, build_state)
    after = world.storage.builds.get(build.id)
    assert after is not None
    assert after.finished_at == (ended if job_state is JobState.CANCELED else world.clock.now())


def test_a_clock_set_back_ends_no_build_before_its_jobs(world: World):
    build = world.build()
    job = world.job(build)
    world.finish(job, world.start(job))
    ended = world.clock.now()
    world.clock.advance(hours=-1)
    world.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.FAILED, error_code="c")
    after = world.storage.builds.get(build.id)
    assert after is not None
    assert after.finished_at == ended


def test_the_first_reason_of_a_failed_build_stays(storage: Storage, world: World):
    build = world.build(new_job())
    assert not build.end_requested
    assert storage.builds.record_error(build.id, "internal_error", "first")
    assert not storage.builds.record_error(build.id, "internal_error", "second")
    kept = storage.builds.get(build.id)
    assert kept is not None
    assert (kept.state, kept.error_message, kept.end_requested) == (BuildState.SCHEDULED, "first", True)


def test_a_cancel_is_noted_while_the_build_is_not_finished(storage: Storage, world: World):
    build = world.build()
    assert storage.builds.request_cancel(build.id)
    assert storage.builds.request_cancel(build.id)
    asked = storage.builds.get(build.id)
    assert asked is not None
    assert asked.cancel_requested
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.CANCELED)
    assert not storage.builds.request_cancel(build.id)
    assert not storage.builds.request_cancel(999)


def test_a_cancel_is_to_be_begun_until_it_has(storage: Storage, world: World):
    asked, begun, over, other = (world.build() for _ in range(4))
    for build in (asked, begun, over):
        storage.builds.request_cancel(build.id)
    storage.builds.move(begun.id, BuildState.SCHEDULED, BuildState.CANCELING)
    storage.builds.move(over.id, BuildState.SCHEDULED, BuildState.CANCELED)
    assert storage.builds.to_cancel() == [asked.id]
    assert other.id not in storage.builds.to_cancel()


def test_unfinished_builds_come_oldest_first(storage: Storage, world: World):
    builds = [world.build() for _ in range(4)]
    storage.builds.move(builds[1].id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.builds.move(builds[2].id, BuildState.SCHEDULED, BuildState.CANCELING)
    assert [build.number for build in storage.builds.unfinished()] == [1, 3, 4]


AFTER_FIRST = (0, EdgeKind.DEPENDS_ON, False)


@pytest.mark.parametrize(
    ("state", "of_running", "code", "reason"),
    [
        (BuildState.FAILED, JobState.FAILED, "internal_error", "the VM hangs"),
        (BuildState.CANCELED, JobState.CANCELED, None, None),
    ],
)
def test_a_build_ends_with_all_its_jobs_priced_debited_and_noted(
    storage: Storage,
    world: World,
    clock: ManualClock,
    state: BuildState,
    of_running: JobState,
    code: str | None,
    reason: str | None,
):
    build = world.build(new_job("runs"), new_job("queued"), new_job("waits", AFTER_FIRST), new_job("done"))
    runs, queued, waits, done = world.jobs(build)
    lease = world.start(runs)
    world.finish(done, world.start(done))
    at = clock.advance(seconds=240)
    held = storage.force_finish.end(build.id, state, actor="ada", note="the VM hangs")
    assert [each.uuid for each in held] == [lease.uuid]
    ended = storage.builds.get(build.id)
    assert ended is not None
    assert (ended.state, ended.finished_at, ended.error_code, ended.error_message) == (state, at, code, "the VM hangs")
    assert [world.state(job) for job in (runs, queued, waits, done)] == [of_running, "canceled", "canceled", "passed"]
    job = storage.jobs.get(runs.id)
    assert job is not None
    assert (job.error_code, job.error_message) == (code, reason)
    assert [attempt.finished_at for attempt in storage.attempts.of_job(runs.id)] == [at]
    entries = storage.ledger.page(build.organization_id, 10, None).rows
    assert [entry.amount_cents for entry in entries] == [-10, 0]
    assert storage.ledger.verify() == []


def test_a_stop_that_had_begun_ends_as_it_would_have(storage: Storage, world: World):
    build = world.build(new_job("canceled"), new_job("late"))
    canceled, late = world.jobs(build)
    for job, ending in ((canceled, JobState.CANCELING), (late, JobState.TIMING_OUT)):
        world.start(job)
        assert storage.jobs.move(job.id, JobState.RUNNING, ending)
    storage.force_finish.end(build.id, BuildState.FAILED, actor="ada", note="stuck")
    assert [world.state(job) for job in (canceled, late)] == ["canceled", "timed_out"]


def test_an_ended_attempt_keeps_its_price_and_releases_its_vm(storage: Storage, world: World, clock: ManualClock):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    clock.advance(seconds=240)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    clock.advance(seconds=240)
    held = storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="stuck")
    assert [each.uuid for each in held] == [lease.uuid]
    assert storage.ledger.balance(build.organization_id) == -10
    assert storage.ledger.verify() == []


def test_what_comes_after_it_changes_nothing(storage: Storage, world: World):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="stuck")
    assert not world.finish(job, lease)
    assert not storage.leases.start(lease.id, job.id)
    assert not storage.jobs.retry(job.id, JobState.RUNNING, Outcome(exit_code=1), lease_id=lease.id, billable=True)
    assert world.state(job) == "canceled"


def test_a_finished_build_is_left_alone(storage: Storage, world: World):
    build = world.build()
    world.finish_build(build)
    with pytest.raises(BuildFinished, match=r"web/1 is passed already: nothing to do"):
        storage.force_finish.end(build.id, BuildState.FAILED, actor="ada", note="no")


@pytest.mark.parametrize("state", [BuildState.PASSED, BuildState.RUNNING])
def test_a_build_is_not_forced_to_pass(storage: Storage, world: World, state: BuildState):
    with pytest.raises(ValueError, match="not forced"):
        storage.force_finish.end(world.build().id, state, actor="ada", note="no")
