"""Reports of pushes: stored once before they are answered, for the token of one repository."""

from __future__ import annotations

import pytest
from falcon import testing

from storage import Repository
from tests.api.world import Account, World

BODY = f"{'0' * 40} {'a' * 40} refs/heads/main\n"


@pytest.fixture
def repository(ada: Account) -> Repository:
    return ada.world.storage.repositories.connect(ada.org_id, "/srv/git/acme/web.git", "acme/web", 60)


def report(world: World, token: str | None, delivery_id: str = "1", body: str = BODY) -> testing.Result:
    headers = {"X-Delivery-Id": delivery_id} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    return world.anonymous.simulate_post("/webhooks/git", body=body, headers=headers)


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_report_is_stored_raw_and_once(world: World, repository: Repository):
    token = world.storage.repositories.mint_token(repository)
    world.storage.repository_checks.checked(repository, "main")
    assert world.storage.repository_checks.due(1) == []
    accepted = report(world, token)
    assert (accepted.status_code, accepted.json) == (202, {"status": "accepted"})
    again = report(world, token, body="another")
    assert (again.status_code, again.json) == (200, {"status": "duplicate"})
    (stored,) = world.storage.deliveries.pending(repository.id)
    assert stored.body.decode() == BODY
    assert world.engine.deliveries == 1
    assert [each.id for each in world.storage.repository_checks.due(1)] == [repository.id]


def test_only_the_token_of_a_repository_is_accepted(world: World, ada: Account, repository: Repository):
    dead = world.storage.repositories.mint_token(repository)
    token = world.storage.repositories.mint_token(repository)
    for wrong in (None, "", "a b", ada.token, dead):
        assert code(report(world, wrong)) == (401, "unauthorized")
    assert world.storage.deliveries.latest(10) == []
    world.storage.repositories.remove(repository)
    assert code(report(world, token)) == (401, "unauthorized")


@pytest.mark.parametrize("delivery_id", ["", "a b", "../x", "x" * 101])
def test_a_report_needs_a_name_of_its_own(world: World, repository: Repository, delivery_id: str):
    token = world.storage.repositories.mint_token(repository)
    assert code(report(world, token, delivery_id)) == (400, "delivery_id_invalid")


def test_a_report_has_a_largest_size(world: World, repository: Repository):
    token = world.storage.repositories.mint_token(repository)
    assert code(report(world, token, body="a" * (2**20 + 1))) == (413, "body_too_large")
    assert world.storage.deliveries.latest(10) == []


def test_repositories_do_not_share_names_of_deliveries(world: World, ada: Account, repository: Repository):
    other = world.storage.repositories.connect(ada.org_id, "/srv/git/acme/other.git", "acme/other", 60)
    for each in (repository, other):
        assert report(world, world.storage.repositories.mint_token(each)).status_code == 202
