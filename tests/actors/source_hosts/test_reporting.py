"""Reports: each state once, in order, again after a failure, and never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from actors.addresses import Address
from actors.engine_settings import LiveSettings
from actors.messages import PollStorage, StatusReporterMessage
from actors.settings import JobSettings, PoolSettings
from actors.source_hosts import PlainGit
from actors.source_hosts.host import HostError, Report
from actors.source_hosts.reporting import StatusReporter
from actors.supervision import spawn
from actors.timer import Timer
from actors.timings import Timings
from storage import Build, BuildOrigin, BuildState, NewBuild, NewOrigin, NewPipeline, OriginEvent, Repository, Storage
from tests.actors.conftest import settings_with
from tests.clock import ManualClock
from tests.records import new_job, new_owner
from tests.waiting import until


@dataclass
class Board(PlainGit):
    """A host that keeps the reports, or fails them."""

    storage: Storage
    shown: list[tuple[int, str]] = field(default_factory=list)
    error: HostError | None = None

    def report(self, repository: Repository, report: Report) -> str | None:
        if self.error is not None:
            raise self.error
        self.shown.append((report.build.number, report.state))
        return f"report-{report.build.number}"


@pytest.fixture
def board(storage: Storage) -> Board:
    return Board(storage)


@pytest.fixture
def reporter(storage: Storage, clock: ManualClock, board: Board) -> Iterator[Address[StatusReporterMessage]]:
    timer = Timer(clock)
    timer.start()
    actor: Address[StatusReporterMessage] = spawn(
        StatusReporter,
        timer=timer,
        root=Address(),
        storage=storage,
        live_settings=LiveSettings(settings_with(PoolSettings(), JobSettings())),
        hosts={"git": board},
        timings=Timings(),
    )
    yield actor
    actor.stop()
    timer.stop()


@pytest.fixture
def build(storage: Storage) -> Build:
    organization_id = new_owner(storage).organization.id
    storage.repositories.connect(organization_id, "https://example.org/a/b.git", "a/b", 60)
    storage.pipelines.create(organization_id, NewPipeline("ci", "CI", "a/b", "main"))
    return add_build(storage)


def add_build(storage: Storage) -> Build:
    (repository,) = storage.repositories.all()
    pipeline = storage.pipelines.by_slug(repository.organization_id, "ci")
    assert pipeline is not None
    with storage.transaction():
        build = storage.builds.create(pipeline, NewBuild("main", "c" * 40), [new_job("only")])
        origin = NewOrigin(repository.id, OriginEvent.PUSH, "refs/heads/main", actor="ada")
        storage.build_origins.record(build.id, origin, reports=True)
    return build


def poll(reporter: Address[StatusReporterMessage], board: Board, count: int) -> list[str]:
    """Poll until the board shows this many reports; return the states."""

    def look() -> bool:
        reporter.ask(PollStorage())
        return len(board.shown) >= count

    until(look, f"{count} reports")
    return [state for _, state in board.shown]


def settled(storage: Storage, build: Build, state: BuildState) -> bool:
    origin = storage.build_origins.get(build.id)
    return origin is not None and origin.reported is state


def test_each_state_is_reported_once(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    assert poll(reporter, board, 1) == ["waiting"]
    until(lambda: settled(storage, build, BuildState.SCHEDULED), "the note of the report")
    reporter.ask(PollStorage())
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
    assert poll(reporter, board, 2) == ["waiting", "running"]
    until(lambda: settled(storage, build, BuildState.RUNNING), "the note of the report")
    storage.builds.move(build.id, BuildState.RUNNING, BuildState.FAILING)
    reporter.ask(PollStorage())
    until(lambda: settled(storage, build, BuildState.FAILING), "the note of a state that hosts do not tell apart")
    assert len(board.shown) == 2
    storage.builds.move(build.id, BuildState.FAILING, BuildState.FAILED)
    assert poll(reporter, board, 3)[-1] == "failed"
    until(lambda: storage.build_origins.due(10) == [], "the end of the reports")
    origin = storage.build_origins.by_report(1, f"report-{build.number}")
    assert origin is not None
    assert origin.build_id == build.id


def test_builds_that_wait_do_not_delay_the_reports_of_others(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    """More builds than are looked at in one poll wait, and have been reported."""
    assert poll(reporter, board, 1) == ["waiting"]
    waiting = [add_build(storage) for _ in range(250)]
    for each in waiting:
        storage.build_origins.reported(each.id, BuildState.SCHEDULED, None)
    until(lambda: settled(storage, build, BuildState.SCHEDULED), "the note of the report")
    last = add_build(storage)
    poll(reporter, board, 2)
    assert board.shown[-1] == (last.number, "waiting")


def test_a_report_that_failed_is_made_again_later(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build, clock: ManualClock
):
    board.error = HostError("rate limit", retry_after=60)
    reporter.ask(PollStorage())

    def failed() -> bool:
        origin = storage.build_origins.get(build.id)
        return origin is not None and origin.report_error == "rate limit"

    until(failed, "the note of the failure")
    board.error = None
    clock.advance(59)
    reporter.ask(PollStorage())
    assert board.shown == []
    clock.advance(1)
    assert poll(reporter, board, 1) == ["waiting"]


def test_a_host_that_is_away_for_a_day_is_told_the_end_after_it(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build, clock: ManualClock
):
    board.error = HostError("the host cannot be reached")
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.FAILED)
    back = clock.now() + timedelta(days=1)
    failures = 0

    def failed_again() -> BuildOrigin | None:
        reporter.ask(PollStorage())
        origin = storage.build_origins.get(build.id)
        return origin if origin is not None and origin.report_failures > failures else None

    while clock.now() < back:
        origin = until(failed_again, "another failure")
        failures = origin.report_failures
        assert origin.report_at is not None, f"given up after {failures} attempts"
        clock.advance((origin.report_at - clock.now()).total_seconds())
    board.error = None
    assert poll(reporter, board, 1) == ["failed"]
    assert failures < 150, "it is asked ever more rarely"


def test_a_final_refusal_ends_the_reports(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build, clock: ManualClock
):
    board.error = HostError("the repository was deleted", final=True)
    reporter.ask(PollStorage())
    until(lambda: storage.build_origins.due(10) == [], "the end of the reports")
    clock.advance(10_000)
    assert storage.build_origins.due(10) == []
