"""Lists of builds for people, and failures of the service."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from storage import BuildState, JobState, NewBuild, NewOrigin, OriginEvent, Outcome, Pipeline, Storage
from storage.database.connection import Database
from tests import records
from tests.storage.work import counted_work
from tests.storage.world import World


def new_build(storage: Storage, pipeline: Pipeline, branch: str = "main", commit: str = "c0ffee") -> int:
    return storage.builds.create(pipeline, NewBuild(branch=branch, commit=commit), [records.new_job()]).id


def fail(storage: Storage, build_id: int) -> None:
    (job,) = storage.jobs.of_build(build_id)
    records.finish(storage, job, records.started(storage, job), JobState.FAILED, exit_code=1)
    build = storage.builds.get(build_id)
    assert build is not None
    storage.builds.move(build_id, build.state, BuildState.FAILED)


def test_unfinished_builds_of_an_organization(storage: Storage):
    one, other = records.new_pipeline(storage), records.new_pipeline(storage, "Other", "bob@example.org")
    failed, waits = new_build(storage, one), new_build(storage, one)
    fail(storage, failed)
    new_build(storage, other)
    history = storage.build_history
    assert [build.id for build in history.unfinished(one.organization_id, 9)] == [waits]
    assert history.failed_jobs(failed) == [job.name for job in storage.jobs.of_build(failed)]
    assert history.failed_jobs(waits) == []
    assert history.listed([failed, waits]).keys() == {failed, waits}


def test_the_last_builds_of_each_pipeline(storage: Storage):
    pipeline = records.new_pipeline(storage)
    for _ in range(4):
        new_build(storage, pipeline)
    recent = storage.build_history.recent(pipeline.organization_id, 3)
    assert [build.number for build in recent[pipeline.id]] == [2, 3, 4]
    assert [build.number for build in storage.build_history.of_pipeline(pipeline.id, 2)] == [4, 3]


def test_a_build_costs_what_its_vms_cost(storage: Storage):
    pipeline = records.new_pipeline(storage)
    build = new_build(storage, pipeline)
    fail(storage, build)
    assert (
        storage.build_history.amount_cents(build) == storage.build_history.of_pipeline(pipeline.id, 1)[0].amount_cents
    )


def test_builds_are_filtered(storage: Storage):
    pipeline = records.new_pipeline(storage)
    new_build(storage, pipeline, "main")
    fail(storage, new_build(storage, pipeline, "other"))

    def numbers(**chosen: str) -> list[int]:
        state = BuildState(chosen["state"]) if "state" in chosen else None
        page = storage.build_history.filtered(
            pipeline.id, 9, None, branch=chosen.get("branch"), state=state, source=chosen.get("source")
        )
        return [each.build.number for each in page.rows]

    assert numbers() == [2, 1]
    assert numbers(branch="main") == [1]
    assert numbers(state="failed") == [2]
    assert numbers(source="cli") == []


def test_builds_are_found_by_a_part_of_a_name_of_their_people(storage: Storage):
    pipeline = records.new_pipeline(storage)
    repository = storage.repositories.connect(pipeline.organization_id, "https://example.org/a/b.git", "a/b", 60)
    user = storage.users.create("eve@example.org", "Eve")
    pushed = new_build(storage, pipeline)
    origin = NewOrigin(
        repository.id,
        OriginEvent.PUSH,
        "refs/heads/main",
        actor="ghopper",
        author_name="Grace Hopper",
        author_email="grace@navy.example",
    )
    storage.build_origins.record(pushed, origin, reports=False)
    new = NewBuild("main", "c0ffee", created_by=user.id)
    begun = storage.builds.create(pipeline, new, [records.new_job()]).id
    nobodys = new_build(storage, pipeline)

    def found(author: str) -> list[int]:
        page = storage.build_history.filtered(pipeline.id, 9, None, author=author)
        return [each.build.id for each in page.rows]

    assert found("grace hop") == found("GHOP") == found("@navy") == [pushed]
    assert found("eve") == found("eve@example.org") == [begun]
    assert found("%") == []
    assert storage.build_history.people(pushed).first == "Grace Hopper"
    assert storage.build_history.people(begun).first == "Eve"
    assert storage.build_history.people(nobodys).first == ""


def test_slow_and_flaky_steps(storage: Storage):
    pipeline = records.new_pipeline(storage)
    fail(storage, new_build(storage, pipeline))
    assert storage.build_history.flaky(pipeline.id, 9, 9) == []
    again = new_build(storage, pipeline)
    (job,) = storage.jobs.of_build(again)
    records.finish(storage, job, records.started(storage, job))
    (flaky,) = storage.build_history.flaky(pipeline.id, 9, 9)
    assert (flaky.name, flaky.commits) == ("step", 1)
    (slow,) = storage.build_history.slowest(pipeline.id, 9, 9)
    assert (slow.name, slow.runs, slow.mean_seconds >= 0) == ("step", 2, True)
    assert storage.build_history.flaky(pipeline.id, 1, 9) == []


@pytest.mark.parametrize("commit", ["", "0" * 40])
def test_trees_without_a_commit_make_no_step_flaky(storage: Storage, commit: str):
    pipeline = records.new_pipeline(storage)
    fail(storage, new_build(storage, pipeline, commit=commit))
    (job,) = storage.jobs.of_build(new_build(storage, pipeline, commit=commit))
    records.finish(storage, job, records.started(storage, job))
    assert storage.build_history.flaky(pipeline.id, 9, 9) == []


_FILTERS = {
    "branch": ("even", "odd", "absent"),
    "state": (BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED),
    "source": ("api", "webhook", "absent"),
    "author": ("nobody",),
}
_CHOICES = [
    dict(zip(names, values, strict=True))
    for names in chain.from_iterable(combinations(_FILTERS, count) for count in range(len(_FILTERS) + 1))
    for values in product(*(_FILTERS[name] for name in names))
]
"""Every combination of filters, with common and absent values, and ones that never come together."""


def grow(database: Database, builds: int) -> None:
    """Copy the first build until its pipeline has many: even ones passed, odd ones failed."""
    names = [row[1] for row in database.execute("PRAGMA table_info(builds)")]
    kinds = {
        "id": "NULL",
        "uuid": "hex(randomblob(16))",
        "external_id": "hex(randomblob(16))",
        "number": "numbers.value",
        "branch": "iif(numbers.value % 2, 'odd', 'even')",
        "state": "iif(numbers.value % 2, 'failed', 'passed')",
        "source": "iif(numbers.value % 2, 'webhook', 'api')",
        "created_by": "NULL",
    }
    values = ", ".join(kinds.get(name, f"first.{name}") for name in names)
    with database.write():
        database.execute("UPDATE builds SET branch = 'odd', source = 'webhook' WHERE id = (SELECT min(id) FROM builds)")
        database.execute(
            "WITH numbers (value) AS (SELECT max(number) + 1 FROM builds UNION ALL"
            " SELECT value + 1 FROM numbers WHERE value < :builds)"
            f" INSERT INTO builds ({', '.join(names)}) SELECT {values} FROM numbers, builds AS first"
            " WHERE first.id = (SELECT min(id) FROM builds)",
            {"builds": builds},
        )
        database.execute("UPDATE pipelines SET last_number = :builds WHERE id = 1", {"builds": builds})


def test_no_filter_reads_more_of_more_builds(storage: Storage, database: Database):
    pipeline = records.new_pipeline(storage)
    other = records.new_pipeline(storage, "Other", "bob@example.org")
    fail(storage, new_build(storage, pipeline))
    work: dict[int, list[int]] = {}
    for size in (11_000, 20_000):
        grow(database, size)
        work[size] = []
        for chosen in _CHOICES:
            with counted_work(database) as counted:
                storage.build_history.filtered(pipeline.id, 30, None, **chosen)
            work[size].append(counted[0])
        for organization in (pipeline.organization_id, other.organization_id):
            with counted_work(database) as counted:
                storage.standings.of_organization(organization, 1, 10)
            work[size].append(counted[0])
    few, many = work.values()
    grown = [
        (chosen, a, b)
        for chosen, a, b in zip([*_CHOICES, "standings", "no builds"], few, many, strict=True)
        if b > a * 1.2 + 5
    ]
    assert grown == []


@pytest.mark.parametrize("chosen", _CHOICES, ids=lambda chosen: "-".join(map(str, chosen.values())) or "all")
def test_pages_of_a_filter_have_every_such_build_once(storage: Storage, database: Database, chosen: dict[str, str]):
    pipeline = records.new_pipeline(storage)
    fail(storage, new_build(storage, pipeline))
    grow(database, 60)
    odd = {"odd", BuildState.FAILED, "webhook"}
    even = {"even", BuildState.PASSED, "api"}
    wanted = set(chosen.values())
    expected = [each for each in range(60, 0, -1) if wanted <= (odd if each % 2 else even)]
    found, after = [], None
    while True:
        page = storage.build_history.filtered(pipeline.id, 7, after, **chosen)
        found += [each.build.number for each in page.rows]
        if (after := page.next_key) is None:
            break
    assert found == expected


def test_an_author_is_searched_further_from_page_to_page(storage: Storage, database: Database):
    pipeline = records.new_pipeline(storage)
    user = storage.users.create("eve@example.org", "Eve")
    begun = storage.builds.create(pipeline, NewBuild("main", "c0ffee", created_by=user.id), [records.new_job()])
    fail(storage, begun.id)
    grow(database, 12_500)
    pages, after = [], None
    while True:
        page = storage.build_history.filtered(pipeline.id, 30, after, author="eve")
        pages.append([each.build.number for each in page.rows])
        if (after := page.next_key) is None:
            break
    assert pages == [[], [], [begun.number]]


def failed(world: World, error_code: str | None, message: str | None = None) -> int:
    """Fail the only job of a new build; return the build's number."""
    build = world.build()
    outcome = Outcome(error_code=error_code, error_message=message)
    assert world.storage.jobs.move(world.job(build).id, JobState.SCHEDULED, JobState.FAILED, outcome)
    return build.number


def test_jobs_that_the_service_failed_are_listed_newest_first(world: World):
    assert world.storage.service_failures.latest(5) == []
    lost = failed(world, "vm_lost", "it is gone")
    failed(world, None)
    failed(world, "step_timeout")
    internal = failed(world, "internal_error")
    failures = world.storage.service_failures.latest(5)
    assert [(each.number, each.error_code) for each in failures] == [(internal, "internal_error"), (lost, "vm_lost")]
    assert (failures[1].organization, failures[1].pipeline, failures[1].step_key) == ("acme", "web", "step")
    assert (failures[1].error_message, failures[1].finished_at) == ("it is gone", world.clock.now())
    assert len(world.storage.service_failures.latest(1)) == 1


def test_ends_that_an_operator_forced_are_marked(world: World):
    storage = world.storage
    forced, killed, given_up = (world.build() for _ in range(3))
    for build in (forced, killed, given_up):
        lease = world.assign(world.job(build))
        storage.leases.start(lease.id, world.job(build).id)
        if build is killed:
            storage.leases.kill(lease.id, "ada")
            lost = Outcome(error_code="vm_lost")
            storage.jobs.finish(
                world.job(build).id, JobState.RUNNING, JobState.FAILED, lost, lease_id=lease.id, billable=False
            )
    storage.force_finish.end(forced.id, BuildState.FAILED, actor="bob", note="it hangs")
    storage.force_finish.end(given_up.id, BuildState.FAILED, actor="ci-daemon", note="it failed", billable=False)
    assert [each.number for each in storage.service_failures.latest(5)] == [given_up.number]
    assert [(each.number, each.forced_by) for each in storage.service_failures.forced(5)] == [
        (killed.number, "ada"),
        (forced.number, "bob"),
    ]


def test_a_job_with_a_replaced_vm_counts_as_the_services_failure(world: World):
    storage, job = world.storage, world.job(build := world.build())
    first = world.assign(job)
    storage.leases.kill(first.id, "ada")
    storage.jobs.retry(job.id, JobState.ASSIGNED, Outcome(), lease_id=first.id, billable=False, backoff_seconds=0)
    second = world.assign(job)
    lost = Outcome(error_code="vm_lost")
    storage.jobs.finish(job.id, JobState.ASSIGNED, JobState.FAILED, lost, lease_id=second.id, billable=False)
    assert [each.number for each in storage.service_failures.latest(5)] == [build.number]
    assert storage.service_failures.forced(5) == []


def test_canceled_jobs_and_time_outs_are_no_service_failures(world: World):
    storage, build = world.storage, world.build()
    storage.force_finish.end(build.id, BuildState.CANCELED, actor="ada", note="no longer needed")
    failed(world, "pipeline_timeout")
    assert storage.service_failures.latest(5) == storage.service_failures.forced(5) == []
