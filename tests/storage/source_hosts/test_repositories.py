"""Connected repositories: when each is checked, and the heads that were built."""

from __future__ import annotations

import pytest

from storage import Repository, RepositoryConnected, Storage
from tests.clock import ManualClock
from tests.records import Owner, new_owner

URL = "https://example.org/acme/web.git"
MAIN = "refs/heads/main"


@pytest.fixture
def owner(storage: Storage) -> Owner:
    return new_owner(storage)


@pytest.fixture
def repository(storage: Storage, owner: Owner) -> Repository:
    return storage.repositories.connect(owner.organization.id, URL, "acme/web", 60)


def test_a_repository_is_connected_once(storage: Storage, owner: Owner, repository: Repository):
    with pytest.raises(RepositoryConnected, match="repo list"):
        storage.repositories.connect(owner.organization.id, URL, "acme/web", 60)
    other = new_owner(storage, "bob@example.org")
    assert storage.repositories.connect(other.organization.id, URL, "acme/web", 60).url == URL
    storage.repositories.remove(repository)
    assert [each.organization_id for each in storage.repositories.all()] == [other.organization.id]


def test_a_head_moves_only_from_where_it_was(storage: Storage, repository: Repository):
    storage.repository_checks.record_heads(repository, {MAIN: "a"})
    assert not storage.repository_checks.move_head(repository, MAIN, None, "b")
    assert storage.repository_checks.move_head(repository, MAIN, "a", "b")
    assert not storage.repository_checks.move_head(repository, MAIN, "a", "b")
    assert storage.repository_checks.move_head(repository, "refs/tags/v1", None, "b")
    assert storage.repository_checks.move_head(repository, MAIN, "b", None)
    assert storage.repository_checks.heads(repository.id) == {"refs/tags/v1": "b"}
    storage.repositories.remove(repository)
    assert not storage.repository_checks.move_head(repository, MAIN, None, "c")
    assert storage.repository_checks.heads(repository.id) == {}


@pytest.mark.parametrize("poll_seconds", [60, 86_400])
def test_a_failing_repository_is_checked_ever_more_rarely(
    storage: Storage, repository: Repository, clock: ManualClock, poll_seconds: int
):
    """Also one that is polled once a day, because its host reports its pushes, waits an hour at most."""
    storage.repositories.edit(repository, poll_seconds=poll_seconds, submodules=False, lfs=False)
    pauses = []
    for _ in range(8):
        (due,) = storage.repository_checks.due(10)
        storage.repository_checks.failed(due, "no route to host")
        failed = storage.repositories.get(repository.id)
        assert failed is not None
        assert failed.last_error == "no route to host"
        pauses.append((failed.next_check_at - clock.now()).total_seconds())
        assert storage.repository_checks.due(10) == []
        clock.advance(pauses[-1])
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    storage.repository_checks.checked(repository, "main")
    well = storage.repositories.get(repository.id)
    assert well is not None
    assert (well.failures, well.last_error, well.default_branch) == (0, None, "main")
    storage.repository_checks.hasten_all()
    assert [each.id for each in storage.repository_checks.due(10)] == [repository.id]


def test_a_closed_organization_has_no_repositories(storage: Storage, owner: Owner, repository: Repository):
    storage.accounts.close(owner.user.id)
    assert storage.repository_checks.due(10) == storage.repositories.all() == []
    assert not storage.repository_checks.move_head(repository, MAIN, None, "a")
