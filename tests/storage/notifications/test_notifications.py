"""Notifications: sealed endpoints, secrets that rotate, endpoints that fail, and ends of builds."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from actors import retry
from storage import (
    Build,
    BuildState,
    EndpointAnswer,
    JobState,
    NewBuild,
    NewNotification,
    NewPipeline,
    NotificationKind,
    Outcome,
    Pipeline,
    Storage,
    ToldEnd,
    TooManyNotifications,
)
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job, new_owner

URL = "https://hooks.example.org:8443/T0/very-secret"
WEBHOOK = NewNotification(NotificationKind.WEBHOOK, ("build.finished",), URL)
REFUSED = EndpointAnswer(500, "no", 3, "the endpoint answers 500")
ACCEPTED = EndpointAnswer(200, "", 3, None)


@pytest.fixture
def pipeline(storage: Storage) -> Pipeline:
    return storage.pipelines.create(new_owner(storage).organization.id, NewPipeline("web", "Web", "r", "main"))


def test_an_endpoint_is_sealed_and_only_its_origin_shown(storage: Storage, database: Database, pipeline: Pipeline):
    made, secret = storage.notifications.create(pipeline.id, WEBHOOK)
    assert (made.origin, made.enabled) == ("https://hooks.example.org:8443", True)
    endpoint = storage.notifications.endpoint(made.id)
    assert endpoint is not None
    assert (endpoint.url, endpoint.secrets) == (URL, (secret,))
    (row,) = database.execute("SELECT * FROM notifications").fetchall()
    assert b"very-secret" not in repr(row).encode()
    assert str(secret).encode() not in repr(row).encode()


def test_a_rotated_secret_signs_beside_the_new_one_for_a_day(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    made, first = storage.notifications.create(pipeline.id, WEBHOOK)
    second = storage.notifications.rotate(made.id)
    endpoint = storage.notifications.endpoint(made.id)
    assert endpoint is not None
    assert endpoint.secrets == (second, first)
    clock.advance(days=1)
    endpoint = storage.notifications.endpoint(made.id)
    assert endpoint is not None
    assert endpoint.secrets == (second,)


def test_only_webhooks_have_a_secret(storage: Storage, pipeline: Pipeline):
    slack = NewNotification(NotificationKind.SLACK, ("build.finished",), URL)
    email = NewNotification(NotificationKind.EMAIL, ("build.recovered",), to_creator=True)
    for new in (slack, email):
        made, secret = storage.notifications.create(pipeline.id, new)
        assert (secret, storage.notifications.rotate(made.id)) == (None, None)


def test_an_endpoint_is_disabled_after_three_days_of_failure(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    waiting = storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
    for days, enabled in ((0, True), (2, True), (1, False)):
        clock.advance(days=days)
        delivery = storage.notification_deliveries.add(made.id, "build.finished", 2, "{}")
        assert storage.notification_deliveries.note(delivery, REFUSED) is enabled
    (failing,) = storage.notifications.failing(5)
    assert (failing.organization_slug, failing.pipeline_slug) == ("ada-example-org", "web")
    assert (failing.last_error, failing.disabled_at) == ("the endpoint answers 500", clock.now())
    ended = storage.notification_deliveries.by_uuid(waiting.uuid)
    assert ended is not None
    assert ended.next_attempt_at is None
    assert storage.notifications.enabled(pipeline.id) == []
    storage.notifications.update(made.id, enabled=True)
    assert storage.notifications.failing(5) == []
    assert len(storage.notifications.enabled(pipeline.id)) == 1


def test_one_success_ends_the_days_of_failure(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    for answer in (REFUSED, ACCEPTED, REFUSED):
        delivery = storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
        assert storage.notification_deliveries.note(delivery, answer)
        clock.advance(days=2)


def test_an_endpoint_that_is_gone_is_disabled_at_once(storage: Storage, pipeline: Pipeline):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    delivery = storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
    gone = EndpointAnswer(410, "", 1, "the endpoint answers 410")
    assert not storage.notification_deliveries.note(delivery, gone)


def test_changes_leave_the_rest_as_it_is(storage: Storage, pipeline: Pipeline):
    made, secret = storage.notifications.create(pipeline.id, WEBHOOK)
    changed = storage.notifications.update(made.id, url="https://other.example.org/x", events=("build.recovered",))
    endpoint = storage.notifications.endpoint(made.id)
    assert changed is not None
    assert endpoint is not None
    assert (changed.origin, changed.events) == ("https://other.example.org", ("build.recovered",))
    assert (endpoint.url, endpoint.secrets) == ("https://other.example.org/x", (secret,))
    disabled = storage.notifications.update(made.id, enabled=False)
    assert disabled is not None
    assert not disabled.enabled


def test_a_pipeline_has_at_most_twenty(storage: Storage, pipeline: Pipeline):
    for _ in range(20):
        storage.notifications.create(pipeline.id, WEBHOOK)
    with pytest.raises(TooManyNotifications):
        storage.notifications.create(pipeline.id, WEBHOOK)


def test_they_go_with_their_pipeline(storage: Storage, pipeline: Pipeline):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    delivery = storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
    storage.pipelines.delete(pipeline.id)
    assert storage.notifications.get(made.id) is None
    assert storage.notification_deliveries.by_uuid(delivery.uuid) is None


def test_attempts_go_on_for_a_day_and_the_last_is_the_eighth(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    delivery = storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
    began = clock.now()
    for _ in range(8):
        due = storage.notification_deliveries.next(())
        assert due is not None
        storage.notification_deliveries.note(due, REFUSED)
        noted = storage.notification_deliveries.by_uuid(delivery.uuid)
        assert noted is not None
        if noted.next_attempt_at is not None:
            assert storage.notification_deliveries.next(()) is None
            clock.advance((noted.next_attempt_at - clock.now()).total_seconds())
    assert timedelta(days=1) < clock.now() - began < timedelta(days=1.5)
    assert (noted.state, noted.attempts, noted.status, noted.answer) == ("failed", 8, 500, "no")
    assert storage.notification_deliveries.redeliver(noted)
    again = storage.notification_deliveries.next(())
    assert again is not None
    assert (again.uuid, again.attempts) == (delivery.uuid, 0)


def test_deliveries_of_busy_notifications_wait(storage: Storage, pipeline: Pipeline):
    first, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    second, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    for made in (first, first, second):
        storage.notification_deliveries.add(made.id, "build.finished", 1, "{}")
    found = storage.notification_deliveries.next([first.id])
    assert found is not None
    assert found.notification_id == second.id
    assert storage.notification_deliveries.next([first.id, second.id]) is None


def test_the_log_is_kept_for_seven_days(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    made, _ = storage.notifications.create(pipeline.id, WEBHOOK)
    storage.notification_deliveries.mailed(made.id, "build.recovered", 1, "ann@example.org")
    storage.notification_deliveries.skipped(made.id, "build.recovered", 2, None, "nobody to tell")
    states = [each.state for each in storage.notification_deliveries.page(made.id, 10, None).rows]
    assert states == ["skipped", "delivered"]
    clock.advance(days=7)
    storage.notification_deliveries.add(made.id, "build.finished", 3, "{}")
    assert [each.build_number for each in storage.notification_deliveries.page(made.id, 10, None).rows] == [3]


def ended(storage: Storage, pipeline: Pipeline, state: BuildState, branch: str = "main") -> Build:
    build = storage.builds.create(pipeline, NewBuild(branch, "c0ffee"), [new_job()])
    (job,) = storage.jobs.of_build(build.id)
    storage.jobs.move(job.id, JobState.SCHEDULED, JobState(state.value), Outcome(exit_code=1))
    storage.builds.move(build.id, BuildState.SCHEDULED, state)
    found = storage.builds.get(build.id)
    assert found is not None
    return found


def tell_all(storage: Storage) -> list[int]:
    told = []
    while found := storage.ended_builds.untold(2):
        for each in found:
            build = storage.builds.get(each.build_id)
            assert build is not None
            state = None if build.state is BuildState.CANCELED else build.state
            assert storage.ended_builds.tell(each, state)
            told.append(build.number)
    return told


def test_ends_are_told_once_in_the_order_of_recording(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    first, second = (storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee")) for _ in range(2))
    for build in (second, first):
        clock.advance(1)
        storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee"))
    (again, *_) = storage.ended_builds.untold(1)
    assert tell_all(storage) == [2, 1]
    assert not storage.ended_builds.tell(again, BuildState.PASSED)
    assert storage.ended_builds.untold(9) == []


def test_canceled_builds_say_nothing_about_a_branch(storage: Storage, pipeline: Pipeline):
    numbers = count()
    for state in (BuildState.FAILED, BuildState.CANCELED):
        ended(storage, pipeline, state)
        next(numbers)
    ended(storage, pipeline, BuildState.PASSED, "other")
    build = ended(storage, pipeline, BuildState.PASSED)
    assert storage.ended_builds.last_told(build) is None
    tell_all(storage)
    following = storage.builds.create_unplanned(pipeline, NewBuild("main", "c0ffee"))
    assert storage.ended_builds.last_told(following) == ToldEnd(4, BuildState.PASSED)


def test_a_retried_build_ends_again(storage: Storage, pipeline: Pipeline, clock: ManualClock):
    build = ended(storage, pipeline, BuildState.FAILED)
    tell_all(storage)
    retry(storage, build)
    assert storage.ended_builds.untold(9) == []
    clock.advance(1)
    storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    assert storage.ended_builds.last_told(build) == ToldEnd(1, BuildState.FAILED)
    assert tell_all(storage) == [1]
    assert storage.ended_builds.last_told(build) == ToldEnd(1, BuildState.PASSED)


def test_ends_of_a_deleted_pipeline_can_be_told(storage: Storage, pipeline: Pipeline):
    ended(storage, pipeline, BuildState.FAILED)
    storage.pipelines.delete(pipeline.id)
    (left,) = storage.ended_builds.untold(9)
    assert storage.builds.get(left.build_id) is None
    assert storage.ended_builds.tell(left, None)
