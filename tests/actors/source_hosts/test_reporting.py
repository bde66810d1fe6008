"""Reports: each state once, in order, again after a failure, and never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from actors.addresses import Address
from actors.messages import PollStorage, StatusReporterMessage
from actors.parts import Parts
from actors.settings import JobSettings, LiveSettings, PoolSettings
from actors.source_hosts import PlainGit
from actors.source_hosts.forge_host import commit_status
from actors.source_hosts.host import CommitReport, HostError, Report, Skip
from actors.source_hosts.reporting import StatusReporter
from actors.supervision import spawn
from storage import (
    Build,
    BuildOrigin,
    BuildState,
    CommitCheck,
    NewBuild,
    NewOrigin,
    NewPipeline,
    OriginEvent,
    Pipeline,
    Repository,
    Storage,
)
from tests.actors.conftest import settings_with
from tests.clock import ManualClock
from tests.records import new_job, new_owner
from tests.waiting import until


@dataclass
class Board(PlainGit):
    """A host that keeps the reports, or fails them."""

    storage: Storage
    shown: list[tuple[int, str]] = field(default_factory=list)
    statuses: list[tuple[str, str, str]] = field(default_factory=list)
    """The context, state and description that a host without check runs shows of the commit."""

    error: HostError | None = None
    skips: list[Skip] = field(default_factory=list)

    checks: list[CommitReport] = field(default_factory=list)
    told: list[CommitCheck] = field(default_factory=list)

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        if self.error is not None:
            raise self.error
        self.checks.append(report)
        self.told.append(told)
        return "check"

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        if self.error is not None:
            raise self.error
        self.skips.append(skip)

    def report(self, repository: Repository, report: Report) -> str | None:
        if self.error is not None:
            raise self.error
        self.shown.append((report.build.number, report.state))
        status = commit_status(report)
        self.statuses.append((status.context, status.state, status.description))
        return f"report-{report.build.number}"


@pytest.fixture
def board(storage: Storage) -> Board:
    return Board(storage)


@pytest.fixture
def reporter(storage: Storage, clock: ManualClock, board: Board) -> Iterator[Address[StatusReporterMessage]]:
    live_settings = LiveSettings(settings_with(PoolSettings(), JobSettings()))
    parts = Parts(storage=storage, clock=clock, live_settings=live_settings)
    parts.timer.start()
    actor: Address[StatusReporterMessage] = spawn(StatusReporter, parts, hosts={"git": board})
    yield actor
    actor.stop()
    parts.timer.stop()


@pytest.fixture
def build(storage: Storage) -> Build:
    organization_id = new_owner(storage).organization.id
    storage.repositories.connect(organization_id, "https://example.org/a/b.git", "a/b", 60)
    storage.pipelines.create(organization_id, NewPipeline("ci", "CI", "a/b", "main"))
    return add_build(storage)


def add_build(
    storage: Storage,
    ref: str = "refs/heads/main",
    pull_request: int | None = None,
    *,
    named: bool = False,
    commit: str = "c" * 40,
) -> Build:
    """Add a build of a push, tag or pull request; or of a ref that somebody ``named``."""
    (repository,) = storage.repositories.all()
    pipeline = storage.pipelines.by_slug(repository.organization_id, "ci")
    assert pipeline is not None
    with storage.transaction():
        build = storage.builds.create(pipeline, NewBuild("main", commit), [new_job("only")])
        kinds = {"refs/heads": OriginEvent.PUSH, "refs/tags/": OriginEvent.TAG, "refs/pull/": OriginEvent.PULL_REQUEST}
        event = OriginEvent.MANUAL if named else next(each for start, each in kinds.items() if ref.startswith(start))
        origin = NewOrigin(repository.id, event, ref, pull_request=pull_request, actor="ada")
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


def ended(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build, state: BuildState
) -> tuple[str, str, str]:
    """End a build; return what the host shows of the commit then."""
    storage.builds.move(build.id, BuildState.SCHEDULED, state)

    def told() -> bool:
        reporter.ask(PollStorage())
        return settled(storage, build, state)

    until(told, f"the report of build {build.number}")
    return board.statuses[-1]


@pytest.mark.parametrize(
    "others",
    [
        [("refs/pull/1/head", 1)],
        [("refs/tags/v1", None)],
        [("refs/heads/release", None)],
        [("refs/heads/release", None), ("refs/pull/1/head", 1), ("refs/pull/2/head", 2), ("refs/tags/v1", None)],
    ],
    ids=["pull request", "tag", "branch", "all"],
)
def test_no_build_makes_a_commit_green_while_another_failed(
    storage: Storage,
    reporter: Address[StatusReporterMessage],
    board: Board,
    build: Build,
    others: list[tuple[str, int | None]],
):
    """All builds of a pipeline share one name at the host, which people have put into required checks."""
    more = [add_build(storage, *each) for each in others]
    assert ended(storage, reporter, board, build, BuildState.FAILED)[:2] == ("ci/ci", "failed")
    for each in more:
        context, state, description = ended(storage, reporter, board, each, BuildState.PASSED)
        assert (context, state) == ("ci/ci", "failed")
        assert description.startswith("Build #1 failed, #")
    again = add_build(storage)
    context, state, description = ended(storage, reporter, board, again, BuildState.PASSED)
    assert (context, state) == ("ci/ci", "passed"), "a build of the same event replaces the one before"
    assert "#1" not in description
    assert len(description) <= 140


def test_a_commit_is_not_green_before_all_its_builds_ended(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    change = add_build(storage, "refs/pull/1/head", 1)
    assert ended(storage, reporter, board, build, BuildState.PASSED)[1:] == ("waiting", "Build #2 waits, #1 passed")
    assert ended(storage, reporter, board, change, BuildState.PASSED)[1:] == ("passed", "Build #1 passed, #2 passed")


def test_a_superseded_build_does_not_hold_a_commit_back(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    change = add_build(storage, "refs/pull/1/head", 1)
    (repository,) = storage.repositories.all()
    assert storage.superseded.cancel_closed(repository.id, 1) == [change.id]
    ended(storage, reporter, board, change, BuildState.CANCELED)
    assert ended(storage, reporter, board, build, BuildState.PASSED)[1:] == ("passed", "Build #1 passed")


def test_a_build_of_a_name_makes_no_failed_commit_green(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    named = add_build(storage, named=True)
    assert ended(storage, reporter, board, build, BuildState.FAILED)[1] == "failed"
    assert ended(storage, reporter, board, named, BuildState.PASSED)[1:] == ("failed", "Build #1 failed, #2 passed")
    assert board.checks[-1].state == "failed"


def test_a_build_of_a_name_that_fails_is_shown(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    assert ended(storage, reporter, board, build, BuildState.PASSED)[1] == "passed"
    named = add_build(storage, named=True)
    assert ended(storage, reporter, board, named, BuildState.FAILED)[1] == "failed"
    again = add_build(storage, named=True)
    assert ended(storage, reporter, board, again, BuildState.PASSED)[1] == "passed"


def test_a_build_of_a_name_that_is_canceled_changes_no_verdict(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    assert ended(storage, reporter, board, build, BuildState.PASSED)[1] == "passed"
    named = add_build(storage, named=True)
    assert ended(storage, reporter, board, named, BuildState.CANCELED)[1:] == ("passed", "Build #1 passed")
    until(lambda: board.checks[-1].state == "passed", "the check of the commit")


def test_a_canceled_build_of_a_name_alone_ends_its_check(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    named = add_build(storage, named=True, commit="d" * 40)
    assert ended(storage, reporter, board, named, BuildState.CANCELED)[1] == "canceled"
    until(lambda: [each.state for each in board.checks if each.commit == "d" * 40][-1:] == ["canceled"], "the check")


def test_an_older_build_that_ends_late_changes_nothing(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    again = add_build(storage)
    assert ended(storage, reporter, board, again, BuildState.PASSED)[1] == "passed"
    assert ended(storage, reporter, board, build, BuildState.FAILED)[1:] == ("passed", "Build #2 passed")


def skipped(storage: Storage, commit: str, slug: str = "docs") -> Pipeline:
    """Note that a pipeline is not built for a commit; return the pipeline."""
    (repository,) = storage.repositories.all()
    pipeline = storage.pipelines.by_slug(repository.organization_id, slug) or storage.pipelines.create(
        repository.organization_id, NewPipeline(slug, slug, "a/b", "main")
    )
    storage.skipped_pipelines.record(repository.id, pipeline.id, commit, "no file of it has changed")
    return pipeline


def test_a_skipped_pipeline_is_reported_once_for_a_commit(
    storage: Storage, clock: ManualClock, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    """Also where a failure of the host comes between, and another push brings the commit."""
    poll(reporter, board, 1)
    until(lambda: settled(storage, build, BuildState.SCHEDULED), "the note of the report")
    board.error = HostError("the host is away", retry_after=5)
    skipped(storage, "d" * 40)
    reporter.ask(PollStorage())
    until(lambda: not storage.skipped_pipelines.due(1), "the failure")
    board.error = None
    assert board.skips == []
    clock.advance(seconds=6)
    for _ in range(3):
        skipped(storage, "d" * 40)
        reporter.ask(PollStorage())
        until(lambda: not storage.skipped_pipelines.due(1), "the report")
    url = f"{build.organization_slug}/pipelines/docs"
    (told,) = board.skips
    assert (told.pipeline_slug, told.commit, told.reason) == ("docs", "d" * 40, "no file of it has changed")
    assert told.url.endswith(url)


def test_nothing_is_reported_as_skipped_beside_a_build(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    skipped(storage, "c" * 40, "ci")
    skipped(storage, "c" * 40)
    reporter.ask(PollStorage())
    until(lambda: not storage.skipped_pipelines.due(1), "the reports")
    until(lambda: board.shown, "the report of the build")
    assert [(each.pipeline_slug, each.commit) for each in board.skips] == [("docs", "c" * 40)]
    assert [number for number, _ in board.shown] == [build.number]


def all_told(storage: Storage, reporter: Address[StatusReporterMessage]) -> None:
    """Poll until hosts have heard of all."""

    def look() -> bool:
        reporter.ask(PollStorage())
        return not (storage.build_origins.due(1) or storage.skipped_pipelines.due(1) or storage.commit_checks.due(1))

    until(look, "the reports")


def test_one_check_shows_all_pipelines_of_a_commit(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    skipped(storage, "c" * 40)
    (repository,) = storage.repositories.all()
    api = storage.pipelines.create(repository.organization_id, NewPipeline("api", "API", "a/b", "main"))
    with storage.transaction():
        other = storage.builds.create(api, NewBuild("main", "c" * 40), [new_job("only")])
        storage.build_origins.record(
            other.id, NewOrigin(repository.id, OriginEvent.PUSH, "refs/heads/main"), reports=True
        )
    all_told(storage, reporter)
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    all_told(storage, reporter)
    storage.builds.move(other.id, BuildState.SCHEDULED, BuildState.RUNNING)
    all_told(storage, reporter)
    storage.builds.move(other.id, BuildState.RUNNING, BuildState.FAILING)
    all_told(storage, reporter)
    storage.builds.move(other.id, BuildState.FAILING, BuildState.FAILED)
    all_told(storage, reporter)
    shown = [(each.state.value, each.description) for each in board.checks]
    assert shown == [
        ("waiting", "Waiting: ci, api; skipped: docs"),
        ("waiting", "Waiting: api; passed: ci; skipped: docs"),
        ("running", "Running: api; passed: ci; skipped: docs"),
        ("failed", "Failed: api; passed: ci; skipped: docs"),
    ]
    assert [each.report_id for each in board.told] == [None, "check", "check", "check"]
    assert board.checks[-1].url.endswith("/api/builds/1")
    assert {each.commit for each in board.checks} == {"c" * 40}


def test_a_commit_whose_pipelines_are_all_skipped_has_passed(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    skipped(storage, "d" * 40)
    all_told(storage, reporter)
    (check,) = [each for each in board.checks if each.commit == "d" * 40]
    assert (check.state, check.description) == ("passed", "Skipped: docs (no file of it has changed)")
    assert check.url.endswith("/pipelines/docs")


def test_a_check_that_a_crash_or_the_host_held_back_comes_later(
    storage: Storage, clock: ManualClock, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    all_told(storage, reporter)
    (repository,) = storage.repositories.all()
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.commit_checks.look(repository.id, "c" * 40)
    storage.build_origins.reported(build.id, BuildState.PASSED, None)  # and the crash
    board.error = HostError("the host is away", retry_after=60)
    reporter.ask(PollStorage())
    until(lambda: not storage.commit_checks.due(1), "the failure")
    board.error = None
    reporter.ask(PollStorage())
    assert [each.state for each in board.checks] == ["waiting"]
    clock.advance(61)
    all_told(storage, reporter)
    assert [each.state for each in board.checks] == ["waiting", "passed"]


def test_what_a_host_shows_of_a_commit_is_not_told_again(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    (repository,) = storage.repositories.all()
    all_told(storage, reporter)
    for _ in range(3):
        storage.commit_checks.look(repository.id, "c" * 40)
        all_told(storage, reporter)
    assert len(board.checks) == 1


def test_a_commit_without_pipelines_is_not_shown_as_passed(
    storage: Storage, reporter: Address[StatusReporterMessage], board: Board, build: Build
):
    (repository,) = storage.repositories.all()
    storage.commit_checks.look(repository.id, "e" * 40)
    all_told(storage, reporter)
    assert all(each.commit != "e" * 40 for each in board.checks)
