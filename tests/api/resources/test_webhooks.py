"""Reports of pushes: stored once before they are answered, for the token of one repository."""

from __future__ import annotations

from functools import partial

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


URL = "https://ci.example.org"
OLD, NEW = "b" * 40, "a" * 40


def pushed(world: World, repository: Repository, *refs: str, wait: object = 8, name: str = "1") -> testing.Result:
    """Report a push and wait for its outcome."""
    token = world.storage.repositories.mint_token(repository)
    body = "".join(f"{OLD} {NEW} {ref}\n" for ref in refs)
    headers = {"X-Delivery-Id": name, "Authorization": f"Bearer {token}"}
    return world.anonymous.simulate_post("/webhooks/git", params={"wait": str(wait)}, body=body, headers=headers)


def came(world: World, repository: Repository, ref: str, outcome: str, *pages: str) -> None:
    """Record what came of the pushed commit, and wake who waits."""
    world.storage.push_outcomes.record(repository.id, ref, NEW, outcome, pages)
    world.engine.log_changed(repository.uuid)


def test_who_pushes_is_told_what_it_started(world: World, ada: Account, repository: Repository):
    """The answer comes once all is known, and names each build with its address."""
    page, two = ("ada-example-org/pipelines/web/builds/1", "ada-example-org/pipelines/web/builds/2")
    begun = world.clock.monotonic()
    world.engine.during_waits += [
        lambda: came(world, repository, "refs/heads/main", "1 build: web #1", page),
        lambda: came(world, repository, "refs/tags/v1", "2 builds: web #1, web #2", page, two),
        lambda: came(world, repository, "refs/heads/wip", "0 builds: no pipeline has a trigger for it"),
    ]
    told = pushed(world, repository, "refs/heads/main", "refs/tags/v1", "refs/heads/wip")
    assert told.status_code == 202
    assert told.text.splitlines() == [
        f"ci-daemon: main: web #1 {URL}/{page}",
        "ci-daemon: v1: 2 builds: web #1, web #2",
        f"ci-daemon: v1: {URL}/{page}",
        f"ci-daemon: v1: {URL}/{two}",
        "ci-daemon: wip: nothing was built: no pipeline has a trigger for it",
    ]
    assert world.clock.monotonic() == begun
    assert pushed(world, repository, "refs/heads/main").status_code == 200


def test_a_push_that_takes_longer_says_where_to_look(world: World, ada: Account, repository: Repository):
    begun = world.clock.monotonic()
    told = pushed(world, repository, "refs/heads/main", wait=3)
    assert told.text.splitlines() == [
        "ci-daemon: main: it is not built yet",
        f"ci-daemon: what comes of it: {URL}/{ada.org}/repositories/{repository.uuid}",
    ]
    assert 3 <= world.clock.monotonic() - begun < 4
    world.engine.renders_blocked = "the host is drained"
    told = pushed(world, repository, "refs/heads/main", name="2")
    assert told.text.startswith("ci-daemon: main: it is not built yet: the host is drained\n")
    assert world.clock.monotonic() - begun < 4
    assert world.storage.deliveries.latest(1)[0].processed_at is None


def test_what_came_of_an_earlier_push_is_not_told(world: World, repository: Repository):
    """A branch that is set back to a commit that was built before is another push."""
    came(world, repository, "refs/heads/main", "0 builds: an old reason")
    world.clock.advance(60)
    assert "not built yet" in pushed(world, repository, "refs/heads/main", wait=0).text
    world.storage.deliveries.processed(repository.id, world.storage.deliveries.pending(repository.id))
    assert "nothing was built: an old reason" in pushed(world, repository, "refs/heads/main", wait=0).text


def test_what_came_of_another_commit_is_not_told(world: World, repository: Repository):
    """But an annotated tag may be named by its object, and its build by the commit."""
    for ref in ("refs/heads/main", "refs/tags/v1"):
        world.engine.during_waits.append(
            partial(world.storage.push_outcomes.record, repository.id, ref, OLD, "0 builds: x")
        )
    told = pushed(world, repository, "refs/heads/main", "refs/tags/v1", wait=3).text
    assert "ci-daemon: main: it is not built yet\n" in told
    assert "ci-daemon: v1: nothing was built: x\n" in told


def test_what_a_repository_says_does_nothing_to_a_terminal(world: World, repository: Repository):
    odd = "refs/heads/a\u202e\x1b]0;x\x07"
    world.engine.during_waits.append(
        lambda: came(world, repository, odd, "0 builds: \x1b[2J\r\nci-daemon: all is well")
    )
    told = pushed(world, repository, odd)
    why = "\\x1b[2J\\r\\nci-daemon: all is well"
    assert told.text == f"ci-daemon: a\\u202e\\x1b]0;x\\x07: nothing was built: {why}\n"


def test_a_push_of_many_refs_is_told_in_a_few_lines(world: World, repository: Repository):
    lines = pushed(world, repository, *(f"refs/tags/v{each}" for each in range(1000)), wait=0).text.splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("ci-daemon: 980 more, and what is built later: http")
    assert "no branch or tag was pushed" in pushed(world, repository, "refs/notes/x", wait=0, name="2").text


@pytest.mark.parametrize("wait", ["", "x", "-1", "11", "nan"])
def test_a_wait_for_a_push_has_bounds(world: World, repository: Repository, wait: str):
    assert code(pushed(world, repository, "refs/heads/main", wait=wait)) == (422, "invalid_wait")
    assert world.storage.deliveries.latest(1) == []
