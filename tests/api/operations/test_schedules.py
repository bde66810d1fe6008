"""Schedules of a pipeline: made, changed, enabled again and deleted."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from storage import NewSchedule, document_of
from tests.api.world import Account, PipelinePath, World
from tests.clock import ManualClock

NIGHTLY = {"cron": "30 4 * * *", "timezone": "Europe/Berlin", "branch": "release"}


def create(pipeline: PipelinePath, **fields: Any) -> dict[str, Any]:
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/schedules", json={**NIGHTLY, **fields})
    assert answered.status_code == 201, answered.text
    made: dict[str, Any] = answered.json
    return made


def change(pipeline: PipelinePath, uuid: str, **fields: Any) -> testing.Result:
    return pipeline.account.client.simulate_patch(f"{pipeline.path}/schedules/{uuid}", json=fields)


def listed(pipeline: PipelinePath) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pipeline.account.client.simulate_get(f"{pipeline.path}/schedules").json["data"]
    return rows


def refusal(answered: testing.Result) -> tuple[int, str, str]:
    error = answered.json["error"]
    return answered.status_code, error["code"], error["message"]


def test_a_schedule_is_made_and_listed(world: World, pipeline: PipelinePath):
    """It is 2026-01-02 03:04:05 UTC, and an hour later in Berlin."""
    made = create(pipeline)
    assert made == {
        "id": made["id"],
        "cron": "30 4 * * *",
        "timezone": "Europe/Berlin",
        "branch": "release",
        "enabled": True,
        "next_at": "2026-01-02T03:30:00.000000Z",
        "last_build_number": None,
        "last_error": None,
        "created_at": "2026-01-02T03:04:05.000000Z",
        "declared_in": None,
    }
    stored = world.storage.schedules.by_uuid(made["id"])
    assert document_of(stored) == made
    other = create(pipeline, cron="0 0 * * *")
    assert listed(pipeline) == [made, other]


def test_without_more_it_is_in_utc_for_the_default_branch(pipeline: PipelinePath):
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/schedules", json={"cron": "30 4 * * *"})
    made = answered.json
    assert (made["timezone"], made["branch"], made["next_at"]) == ("UTC", "main", "2026-01-02T04:30:00.000000Z")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"cron": "hourly"}, "cron: expected five fields"),
        ({"cron": "* * * * * *"}, "cron: expected five fields"),
        ({"cron": "0 0 30 2 *"}, "cron: the day of month is wrong, or no month has it"),
        ({"cron": "0 24 * * *"}, "cron: the hour is wrong"),
        ({"cron": " "}, "cron: expected"),
        ({"cron": None}, "cron: expected a string"),
        ({"cron": 5}, "cron: expected a string"),
        ({"timezone": "Berlin"}, "timezone: expected the name of a time zone"),
        ({"timezone": "../../../etc/passwd"}, "timezone: expected the name of a time zone"),
        ({"branch": ""}, "branch: expected"),
        ({"branch": "x" * 256}, "branch: expected at most 255 characters"),
        ({"enabled": "no"}, "enabled: expected true or false"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_made(pipeline: PipelinePath, fields: dict[str, Any], says: str):
    uuid = create(pipeline)["id"]
    before = listed(pipeline)

    answers = [
        pipeline.account.client.simulate_post(f"{pipeline.path}/schedules", json={**NIGHTLY, **fields}),
        change(pipeline, uuid, **fields),
    ]

    for status, code, message in map(refusal, answers):
        assert (status, code) == (422, "invalid_body")
        assert message.startswith(says)
    assert listed(pipeline) == before


def test_changes_move_the_next_time(pipeline: PipelinePath, clock: ManualClock):
    uuid = create(pipeline)["id"]
    assert change(pipeline, uuid, cron="0 6 * * *").json["next_at"] == "2026-01-02T05:00:00.000000Z"
    assert change(pipeline, uuid, timezone="UTC").json["next_at"] == "2026-01-02T06:00:00.000000Z"
    clock.advance(minutes=1)
    changed = change(pipeline, uuid, branch="main").json
    assert (changed["branch"], changed["next_at"]) == ("main", "2026-01-02T06:00:00.000000Z")


def test_a_time_that_is_due_stays_due_for_another_branch(pipeline: PipelinePath, clock: ManualClock):
    made = create(pipeline)
    clock.advance(hours=5)
    assert change(pipeline, made["id"], branch="main", cron=made["cron"]).json["next_at"] == made["next_at"]


def test_times_that_passed_while_disabled_are_over(pipeline: PipelinePath, clock: ManualClock):
    uuid = create(pipeline)["id"]
    disabled = change(pipeline, uuid, enabled=False).json
    assert (disabled["enabled"], disabled["next_at"]) == (False, None)
    assert change(pipeline, uuid, cron="0 6 * * *").json["next_at"] is None
    clock.advance(days=3)
    enabled = change(pipeline, uuid, enabled=True).json
    assert (enabled["enabled"], enabled["next_at"]) == (True, "2026-01-05T05:00:00.000000Z")


def test_a_schedule_may_begin_disabled(pipeline: PipelinePath):
    made = create(pipeline, enabled=False)
    assert (made["enabled"], made["next_at"]) == (False, None)


def test_a_deleted_schedule_is_gone(pipeline: PipelinePath):
    path = f"{pipeline.path}/schedules/{create(pipeline)['id']}"
    assert pipeline.account.client.simulate_delete(path).status_code == 204
    assert listed(pipeline) == []
    assert refusal(pipeline.account.client.simulate_delete(path))[:2] == (404, "schedule_not_found")
    assert refusal(pipeline.account.client.simulate_patch(path, json={}))[:2] == (404, "schedule_not_found")


def test_a_pipeline_has_twenty_schedules_at_most(pipeline: PipelinePath):
    for minute in range(20):
        create(pipeline, cron=f"{minute} * * * *")
    answered = pipeline.account.client.simulate_post(f"{pipeline.path}/schedules", json=NIGHTLY)
    assert refusal(answered)[:2] == (409, "too_many_schedules")
    assert len(listed(pipeline)) == 20


def test_a_schedule_is_found_in_its_own_pipeline_alone(ada: Account, bob: Account, pipeline: PipelinePath):
    """Neither in another pipeline of the same members, nor in another organization."""
    uuid = create(pipeline)["id"]
    for elsewhere in (ada.pipeline("Other"), bob.pipeline("Theirs")):
        client = elsewhere.account.client
        for answered in (
            client.simulate_patch(f"{elsewhere.path}/schedules/{uuid}", json={"enabled": False}),
            client.simulate_delete(f"{elsewhere.path}/schedules/{uuid}"),
        ):
            assert refusal(answered)[:2] == (404, "schedule_not_found")
    assert listed(pipeline)[0]["enabled"]


def test_a_closed_account_leaves_no_schedule_behind(world: World, ada: Account, pipeline: PipelinePath):
    uuid = create(pipeline)["id"]
    world.storage.accounts.close(ada.user.id)
    assert world.storage.schedules.by_uuid(uuid) is None


def test_a_schedule_of_a_file_is_changed_in_the_file_alone(world: World, pipeline: PipelinePath):
    """Unless its repository is connected no more, for then no push changes it."""
    found = world.storage.pipelines.by_slug(pipeline.account.org_id, "demo")
    assert found is not None
    new = NewSchedule("30 4 * * *", "UTC", "main", None, declared_in=".hm/ci.yml")
    world.storage.schedules.declare(found.id, [new])
    repository = world.storage.repositories.connect(found.organization_id, found.repository, "acme/web", 60)
    (made,) = listed(pipeline)
    assert made["declared_in"] == ".hm/ci.yml"
    path = f"{pipeline.path}/schedules/{made['id']}"
    said = 'the file .hm/ci.yml of the branch "main" says it: change it there, and push'
    for answered in (change(pipeline, made["id"], enabled=True), pipeline.account.client.simulate_delete(path)):
        assert refusal(answered) == (409, "schedule_declared", said)
    assert listed(pipeline) == [made]
    world.storage.repositories.remove(repository)
    assert pipeline.account.client.simulate_delete(path).status_code == 204


def test_those_of_a_file_do_not_count_as_made_by_people(world: World, pipeline: PipelinePath):
    found = world.storage.pipelines.by_slug(pipeline.account.org_id, "demo")
    assert found is not None
    declared = [NewSchedule(f"{each} 4 * * *", "UTC", "main", None, declared_in=".hm/ci.yml") for each in range(20)]
    world.storage.schedules.declare(found.id, declared)
    create(pipeline)
    assert len(listed(pipeline)) == 21
