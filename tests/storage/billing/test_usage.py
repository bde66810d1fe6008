from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import BillingSettings, Build, JobState, LeaseUsage, Outcome, Pipeline, Shape, Storage, Usage, UsageTooLong
from storage.billing.settings import cost_cents
from storage.records.billing import UsedBy
from tests.clock import ManualClock
from tests.records import new_job, new_pipeline
from tests.storage.world import World

NOTHING = Usage(0, 0, 0, 0)
EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


def test_nothing_used_is_zero(storage: Storage, world: World):
    assert storage.usage.total(world.pipeline.organization_id, *EVER) == NOTHING


def test_finished_leases_add_up_in_whole_seconds(storage: Storage, world: World, clock: ManualClock):
    for shape, seconds in ((Shape(1, 2, 3), 100.9), (Shape(2, 4, 20), 240)):
        job = world.job(world.build(new_job(shape=shape)))
        lease = world.start(job)
        clock.advance(seconds=seconds)
        world.finish(job, lease)
    world.start(world.job(world.build()))
    total = storage.usage.total(world.pipeline.organization_id, *EVER)
    assert total == Usage(100 + 480, 200 + 960, 300 + 4800, 2 + 10)


@pytest.mark.parametrize(
    ("start", "end", "inside"),
    [(0, 1, True), (-1, 0, False), (1, 2, False), (-1, 1, True)],
)
def test_a_lease_is_in_the_window_that_holds_its_start(
    storage: Storage, world: World, clock: ManualClock, start: int, end: int, inside: bool
):
    started = clock.now()
    job = world.job(world.build())
    lease = world.start(job)
    clock.advance(hours=1)
    world.finish(job, lease)
    window = (started + timedelta(microseconds=start), started + timedelta(microseconds=end))
    assert (storage.usage.total(world.pipeline.organization_id, *window) != NOTHING) is inside


def test_other_organizations_leases_are_not_in_it(storage: Storage, world: World, clock: ManualClock):
    other = world.other_pipeline("Other")
    job = world.job(world.build(pipeline=other))
    lease = world.start(job)
    clock.advance(hours=1)
    world.finish(job, lease)
    assert storage.usage.total(world.pipeline.organization_id, *EVER) == NOTHING


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def run_for(world: World, clock: ManualClock, started: str, seconds: float = 240, **fields: Any) -> Build:
    """Make a build whose only job's command starts at an instant and runs for some seconds."""
    clock.advance(seconds=(at(started) - clock.now()).total_seconds())
    build = world.build(**fields)
    job = world.job(build)
    lease = world.start(job)
    clock.advance(seconds=seconds)
    world.finish(job, lease)
    return build


def test_a_series_has_every_utc_day_that_touches_the_window(storage: Storage, world: World, clock: ManualClock):
    for started in ("2024-02-28T23:59:59.999999Z", "2024-02-29T00:00Z", "2024-02-29T23:59:59.999999Z"):
        run_for(world, clock, started)
    series = storage.usage.series(
        world.pipeline.organization_id,
        datetime.fromisoformat("2024-02-28T01:00+02:00"),
        datetime.fromisoformat("2024-03-01T02:00:00.000001+02:00"),
    )
    assert [(str(day.date), day.usage.total_cents) for day in series] == [
        ("2024-02-27", 0),
        ("2024-02-28", 10),
        ("2024-02-29", 20),
        ("2024-03-01", 0),
    ]
    assert series[1].usage == Usage(480, 960, 4800, 10)


def test_the_outer_days_of_a_series_are_cut_at_the_window(storage: Storage, world: World, clock: ManualClock):
    for started in ("2026-03-02T10:00Z", "2026-03-02T11:00Z", "2026-03-03T10:00Z", "2026-03-03T11:00Z"):
        run_for(world, clock, started)
    window = (at("2026-03-02T10:00:00.000001Z"), at("2026-03-03T11:00Z"))
    series = storage.usage.series(world.pipeline.organization_id, *window)
    assert [day.usage.total_cents for day in series] == [10, 10]


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2026-03-01T00:00Z", "2026-03-02T00:00Z", ["2026-03-01"]),
        ("2026-03-01T23:59:59.999999Z", "2026-03-02T00:00:00.000001Z", ["2026-03-01", "2026-03-02"]),
        ("0001-01-01T00:00Z", "0001-01-01T00:00:00.000001Z", ["0001-01-01"]),
        ("9999-12-31T00:00Z", "9999-12-31T23:59:59.999999Z", ["9999-12-31"]),
        ("1969-12-31T12:00Z", "1970-01-01T12:00Z", ["1969-12-31", "1970-01-01"]),
    ],
)
def test_a_series_begins_and_ends_to_the_microsecond(
    storage: Storage, world: World, start: str, end: str, days: list[str]
):
    series = storage.usage.series(world.pipeline.organization_id, at(start), at(end))
    assert [str(day.date) for day in series] == days


def test_a_series_is_of_a_leap_year_at_most(storage: Storage, world: World):
    organization_id, start = world.pipeline.organization_id, at("2024-01-01T00:00Z")
    assert len(storage.usage.series(organization_id, start, at("2025-01-01T00:00Z"))) == 366
    with pytest.raises(UsageTooLong, match="has 367 days, the most is 366"):
        storage.usage.series(organization_id, start, at("2025-01-01T00:00:00.000001Z"))
    with pytest.raises(UsageTooLong, match="3652059 days"):
        storage.usage.series(organization_id, *EVER)


def test_a_breakdown_has_newest_builds_and_oldest_leases_first(storage: Storage, world: World, clock: ManualClock):
    slow = world.build(new_job("first", shape=Shape(1, 2, 3)), new_job("second"))
    quick = world.build()
    begun = clock.now()
    leases = []
    for job in (world.jobs(slow)[0], world.job(quick), world.jobs(slow)[1]):
        leases.append(world.start(job))
        clock.advance(seconds=100.9)
    world.finish(world.jobs(slow)[0], leases[0])
    world.finish(world.jobs(slow)[1], leases[2])
    ended = clock.now()
    newest, oldest = storage.usage.breakdown(world.pipeline.organization_id, *EVER)
    assert (newest.build.uuid, newest.total_cents, newest.finished_at) == (quick.uuid, 0, None)
    assert (newest.leases[0].seconds, newest.leases[0].finished_at, newest.leases[0].amount_cents) == (None, None, 0)
    pipeline = world.pipeline
    assert oldest.build == UsedBy(slow.uuid, slow.external_id, 1, pipeline.uuid, "Web", "web")
    assert (oldest.started_at, oldest.finished_at, oldest.total_cents) == (begun, ended, 6 + 4)
    first = world.jobs(slow)[0]
    assert oldest.leases[0] == LeaseUsage(
        leases[0].uuid, "sandbox", Shape(1, 2, 3), 6, begun, ended, first.uuid, "first", "first"
    )
    assert [(lease.step_key, lease.seconds) for lease in oldest.leases] == [("first", 302), ("second", 100)]


def test_a_lease_of_days_counts_on_the_day_of_its_start(storage: Storage, world: World, clock: ManualClock):
    run_for(world, clock, "2026-03-02T10:00Z", seconds=2 * 86_400 + 1.9)
    window = (at("2026-03-02T00:00Z"), at("2026-03-06T00:00Z"))
    series = storage.usage.series(world.pipeline.organization_id, *window)
    assert [day.usage.cpu_seconds for day in series] == [2 * 172_801, 0, 0, 0]
    (build,) = storage.usage.breakdown(world.pipeline.organization_id, *window)
    assert build.leases[0].seconds == 172_801


def test_each_attempt_is_a_lease_and_a_lost_one_is_free(storage: Storage, world: World, clock: ManualClock):
    job = world.job(world.build())
    lost = world.start(job)
    clock.advance(seconds=240)
    storage.jobs.retry(job.id, JobState.RUNNING, Outcome(error_code="vm_lost"), lease_id=lost.id, billable=False)
    never = world.assign(job)
    assert never is not None
    storage.jobs.retry(job.id, JobState.ASSIGNED, Outcome(), lease_id=never.id, billable=False)
    lease = world.start(job)
    clock.advance(seconds=240)
    world.finish(job, lease)
    (build,) = storage.usage.breakdown(world.pipeline.organization_id, *EVER)
    assert [(each.vm, each.seconds, each.amount_cents) for each in build.leases] == [
        (lost.uuid, 240, 0),
        (lease.uuid, 240, 10),
    ]


def test_what_a_deleted_pipeline_cost_stays_without_its_slug(storage: Storage, world: World, clock: ManualClock):
    build = run_for(world, clock, "2026-03-02T10:00Z")
    world.finish_build(build)
    storage.pipelines.delete(world.pipeline.id)
    (used,) = storage.usage.breakdown(world.pipeline.organization_id, *EVER)
    assert (used.build.pipeline_uuid, used.build.pipeline_name) == (world.pipeline.uuid, "Web")
    assert used.build.pipeline_slug is None
    assert used.total_cents == 10


def test_a_breakdown_is_bounded(storage: Storage, world: World, clock: ManualClock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage.usage, "MAX_LEASES", 2)
    for hour in (10, 11):
        run_for(world, clock, f"2026-03-02T{hour}:00Z")
    assert len(storage.usage.breakdown(world.pipeline.organization_id, *EVER)) == 2
    run_for(world, clock, "2026-03-02T12:00Z")
    with pytest.raises(UsageTooLong, match="more than 2 leases started in the window: ask for a shorter one"):
        storage.usage.breakdown(world.pipeline.organization_id, *EVER)


_MICROSECONDS = st.integers(0, 3 * 86_400_000_000)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 12 * 3_600_000_000),
            st.integers(0, 2 * 86_400_000_000),
            st.sampled_from(["finish", "run", "lose"]),
            st.integers(0, 1),
        ),
        max_size=12,
    ),
    st.tuples(_MICROSECONDS, _MICROSECONDS).filter(lambda window: window[0] != window[1]),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_sums_the_days_and_the_builds_of_any_window_agree(
    world: World, leases: list[tuple[int, int, str, int]], window: tuple[int, int]
):
    storage, clock = world.storage, world.clock
    organization_id = world.other_pipeline(f"Org {next(world.names)}").organization_id
    pipeline = storage.pipelines.by_slug(organization_id, "web")
    builds = [world.build(*(new_job(str(n)) for n in range(12)), pipeline=pipeline) for _ in range(2)]
    zero = clock.now()
    for number, (wait, lasts, end, which) in enumerate(leases):
        clock.advance(microseconds=wait)
        job = world.jobs(builds[which])[number]
        lease = world.start(job)
        if end != "run":
            begun = clock.now()
            clock.advance(microseconds=lasts)
            world.finish(job, lease, billable=end == "finish")
            clock.advance(microseconds=(begun - clock.now()) / timedelta(microseconds=1))
    start, stop = (zero + timedelta(microseconds=edge) for edge in sorted(window))
    total = storage.usage.total(organization_id, start, stop)
    series = storage.usage.series(organization_id, start, stop)
    breakdown = storage.usage.breakdown(organization_id, start, stop)
    listed = [lease for build in breakdown for lease in build.leases]
    assert total == _sum_of(day.usage for day in series)
    assert total == _sum_of(
        Usage(
            lease.shape.cpu * (lease.seconds or 0),
            lease.shape.memory_gb * (lease.seconds or 0),
            lease.shape.disk_gb * (lease.seconds or 0),
            lease.amount_cents,
        )
        for lease in listed
    )
    assert total.total_cents == sum(build.total_cents for build in breakdown)
    assert all(start <= lease.started_at < stop for lease in listed)
    spent = storage.usage.total(organization_id, *EVER).total_cents
    assert storage.ledger.balance(organization_id) == -spent
    assert sum(entry.amount_cents for entry in storage.ledger.entries(organization_id)) == -spent
    assert storage.ledger.verify() == []


def _sum_of(usages: Iterable[Usage]) -> Usage:
    return Usage(*(sum(each) for each in zip(astuple(NOTHING), *(astuple(usage) for usage in usages), strict=True)))


_COUNTS = st.integers(1, 64)
_SHAPES = st.builds(Shape, cpu=_COUNTS, memory_gb=_COUNTS, disk_gb=_COUNTS)


@pytest.mark.parametrize(
    ("shape", "seconds", "cents"),
    [
        (Shape(2, 4, 20), 0, 0),
        (Shape(2, 4, 20), 23, 0),
        (Shape(2, 4, 20), 24, 1),
        (Shape(2, 4, 20), 3600, 151),
        (Shape(1, 1, 1), 1_000_000, 15_100),
    ],
)
def test_a_lease_costs_whole_cents_rounded_down(shape: Shape, seconds: int, cents: int):
    assert cost_cents(BillingSettings(), shape, seconds) == cents


@given(_SHAPES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_time_in_two_pieces_never_costs_more_than_in_one(shape: Shape, first: int, second: int):
    rates = BillingSettings()
    together = cost_cents(rates, shape, first + second)
    assert together - 1 <= cost_cents(rates, shape, first) + cost_cents(rates, shape, second) <= together


def test_rates_of_nothing_are_free():
    assert BillingSettings(0, 0, 0).free
    assert not BillingSettings(0, 0, 1).free
    assert not BillingSettings(5, 5, 5).free
    assert cost_cents(BillingSettings(0, 0, 0), Shape(64, 64, 64), 10**9) == 0


GB = 2**30


def kept_disk(storage: Storage, world: World, name: str, size: int | None, pipeline: Pipeline | None = None) -> None:
    """Keep the disk of a failed job."""
    build = world.build(pipeline=pipeline)
    storage.snapshots.add(name, world.job(build).id, "sandbox")
    if size is not None:
        storage.snapshots.measured(name, size)
    storage.kept_disks.keep(name, build)


def charge(storage: Storage, clock: ManualClock, hours: int) -> None:
    """Charge each hour, as the service does each minute."""
    for _ in range(hours):
        clock.advance(hours=1)
        storage.kept_disks.charge()


def test_kept_disks_are_debited_by_day_and_size(tmp_path: Path):
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    with closing(Storage.create(tmp_path / "priced", clock, billing=BillingSettings(kept_disk_gb=100))) as storage:
        world = World(storage, clock, new_pipeline(storage))
        acme, other = world.pipeline.organization_id, world.other_pipeline("Other")
        kept_disk(storage, world, "a", 2 * GB)
        kept_disk(storage, world, "b", GB // 2)
        kept_disk(storage, world, "c", None)
        kept_disk(storage, world, "d", GB, other)
        charge(storage, clock, 23)
        assert (storage.usage.total(acme, *EVER).total_cents, list(storage.ledger.entries(acme))) == (0, [])
        charge(storage, clock, 2)  # the hour that ends with the day counts for the next one
        entries = [(each.description, each.amount_cents) for each in storage.ledger.entries(acme)]
        assert entries == [("disks of failed jobs on 2026-03-01", -(23 * 3600 * 250 // 1_000_000))]
        assert [each.amount_cents for each in storage.ledger.entries(other.organization_id)] == [-8]
        assert storage.usage.total(acme, *EVER).kept_mb_seconds == 25 * 3600 * 2560
        days = storage.usage.series(acme, clock.now() - timedelta(hours=25), clock.now())
        assert [(day.usage.kept_mb_seconds, day.usage.total_cents) for day in days] == [
            (23 * 3600 * 2560, 20),
            (2 * 3600 * 2560, 0),
        ]
        assert {each.bytes for each in storage.kept_disks.of_organization(acme)} == {2 * GB, GB // 2, None}
        assert storage.ledger.verify() == []
        storage.kept_disks.drop(["a", "b", "c"])
        charge(storage, clock, 48)
        assert sum(each.amount_cents for each in storage.ledger.entries(acme)) == -(25 * 3600 * 250 // 1_000_000)


def test_a_disk_is_free_while_no_service_runs(storage: Storage, world: World, clock: ManualClock):
    kept_disk(storage, world, "a", GB)
    clock.advance(days=100)
    storage.kept_disks.charge()
    clock.advance(days=-50)
    storage.kept_disks.charge()
    assert storage.usage.total(world.pipeline.organization_id, *EVER).kept_mb_seconds == 3600 * 1024
