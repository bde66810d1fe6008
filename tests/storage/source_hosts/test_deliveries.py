"""Deliveries: each once, in order, for seven days."""

from __future__ import annotations

from datetime import timedelta

import pytest

from storage import Repository, Storage
from tests.clock import ManualClock
from tests.records import new_owner


@pytest.fixture
def repository(storage: Storage) -> Repository:
    owner = new_owner(storage)
    return storage.repositories.connect(owner.organization.id, "/srv/git/acme/web.git", "acme/web", 60)


def waiting(storage: Storage, repository: Repository) -> list[str]:
    return [each.delivery_id for each in storage.deliveries.pending(repository.id)]


def test_deliveries_wait_in_order_until_they_are_processed(storage: Storage, repository: Repository):
    for name in ("b", "a", "b"):
        storage.deliveries.receive("git", "push", name, repository, b"")
    assert waiting(storage, repository) == ["b", "a"]
    first, second = storage.deliveries.pending(repository.id)
    storage.deliveries.failed(repository.id, "no route to host")
    storage.deliveries.processed(repository.id, [first])
    assert waiting(storage, repository) == ["a"]
    (left,) = storage.deliveries.pending(repository.id)
    assert (left.id, left.attempts, left.last_error) == (second.id, 1, "no route to host")
    storage.deliveries.redeliver(first)
    assert waiting(storage, repository) == ["b", "a"]


def test_a_delivery_during_a_check_makes_another_check_due(storage: Storage, repository: Repository):
    storage.deliveries.receive("git", "push", "a", repository, b"")
    taken = storage.deliveries.pending(repository.id)
    storage.deliveries.receive("git", "push", "b", repository, b"")
    storage.repository_checks.checked(repository, "main")
    storage.deliveries.processed(repository.id, taken)
    assert [each.id for each in storage.repository_checks.due(1)] == [repository.id]
    storage.repository_checks.checked(repository, "main")
    storage.deliveries.processed(repository.id, storage.deliveries.pending(repository.id))
    assert storage.repository_checks.due(1) == []


def test_deliveries_are_kept_for_seven_days(storage: Storage, repository: Repository, clock: ManualClock):
    storage.deliveries.receive("git", "push", "old", repository, b"")
    clock.advance(timedelta(days=6).total_seconds())
    storage.deliveries.receive("git", "push", "new", repository, b"")
    assert len(storage.deliveries.latest(10)) == 2
    clock.advance(timedelta(days=2).total_seconds())
    storage.deliveries.receive("git", "push", "newest", repository, b"")
    assert [each.delivery_id for each in storage.deliveries.latest(10)] == ["newest", "new"]


def test_a_delivery_without_repository_waits_for_its_host(storage: Storage, repository: Repository, clock: ManualClock):
    deliveries = storage.deliveries
    deliveries.receive("github", "installation", "1", None, b"{}")
    deliveries.receive("github", "push", "2", None, b"{}")
    first = deliveries.next_unassigned("github")
    assert first is not None
    deliveries.postpone(first, "the host is away")
    second = deliveries.next_unassigned("github")
    assert second is not None
    deliveries.assign(second, repository)
    assert waiting(storage, repository) == ["2"]
    assert deliveries.next_unassigned("github") is None
    clock.advance(10)
    again = deliveries.next_unassigned("github")
    assert again is not None
    assert (again.attempts, again.last_error) == (1, "the host is away")
    deliveries.handled(again)
    assert deliveries.next_unassigned("github") is None
    deliveries.redeliver(again)
    assert deliveries.next_unassigned("github") is not None


def test_a_delivery_that_always_fails_is_given_up(storage: Storage, clock: ManualClock):
    storage.deliveries.receive("github", "installation", "1", None, b"{}")
    began = clock.now()
    while (delivery := storage.deliveries.next_unassigned("github")) is not None:
        storage.deliveries.postpone(delivery, "no")
        clock.advance(10 * 2 ** min(delivery.attempts, 8))
    assert timedelta(days=2) < clock.now() - began < timedelta(days=3)
