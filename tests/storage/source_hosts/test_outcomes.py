"""Outcomes of pushes: kept for a week, and found by the commit."""

from __future__ import annotations

import pytest

from storage import Repository, Storage
from tests.clock import ManualClock
from tests.records import new_owner

MAIN, A, B = "refs/heads/main", "a" * 40, "b" * 40


@pytest.fixture
def repository(storage: Storage) -> Repository:
    return storage.repositories.connect(new_owner(storage).organization.id, "/srv/git/acme/web.git", "acme/web", 60)


def test_an_outcome_is_kept_for_seven_days(storage: Storage, repository: Repository, clock: ManualClock):
    storage.push_outcomes.record(repository.id, MAIN, A, "1 build: web #1", ("acme/pipelines/web/builds/1",))
    clock.advance(days=6)
    storage.push_outcomes.record(repository.id, MAIN, B, "0 builds: x")
    assert [each.commit for each in storage.push_outcomes.latest(repository.id, 9)] == [B, A]
    clock.advance(days=1)
    storage.push_outcomes.record(repository.id, "refs/tags/v1", B, "0 builds: x")
    assert [each.ref for each in storage.push_outcomes.latest(repository.id, 9)] == ["refs/tags/v1", MAIN]


def test_the_outcome_of_a_commit_is_found_among_later_ones(storage: Storage, repository: Repository):
    """A host may name a commit by its beginning. Of one that is not known, that of the last push is found."""
    for commit in (A, B):
        storage.push_outcomes.record(repository.id, MAIN, commit, f"0 builds: {commit[0]}")
    for asked, told in ((A, "a"), (A[:12], "a"), (B, "b"), ("c" * 40, "b")):
        found = storage.push_outcomes.find(repository.id, MAIN, asked)
        assert found is not None
        assert found.outcome == f"0 builds: {told}"
    assert storage.push_outcomes.find(repository.id, "refs/heads/other", A) is None
