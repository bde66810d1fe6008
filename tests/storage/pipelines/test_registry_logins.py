"""Logins of organizations at registries: stored sealed, and for whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import Build, NewBuild, Organization, RegistryAccount, RegistryLoginInvalid, RegistryLoginMissing, Storage
from storage.database.connection import Database
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World

HOST, PASSWORD = "ghcr.io", "hunter2-and-a-half"


def usable(storage: Storage, build: Build) -> dict[str, str]:
    return storage.registry_logins.usable(build.organization_id, build.id)


def test_a_login_is_sealed_in_its_place(storage: Storage, organization: Organization, clock: ManualClock):
    logins = storage.registry_logins
    made = logins.put(organization.id, HOST, "ci", PASSWORD)
    assert (made.host, made.username) == (HOST, "ci")
    assert PASSWORD not in repr(made)
    assert logins.open_all() == 1
    database = Database(Path(storage.directory) / "ci-daemon.sqlite3", clock)
    ((sealed,),) = database.execute("SELECT password FROM registry_logins").fetchall()
    database.close()
    assert PASSWORD.encode() not in sealed


def test_a_new_password_keeps_what_was_pulled_a_new_user_not(storage: Storage, world: World):
    logins, build = storage.registry_logins, world.build(new_job())
    logins.put(build.organization_id, HOST, "ci", "first")
    first = usable(storage, build)[HOST]
    logins.put(build.organization_id, HOST, "ci", "second")
    assert usable(storage, build)[HOST] == first
    assert logins.opened(first) == RegistryAccount(HOST, "ci", "second")
    logins.put(build.organization_id, HOST, "other", "third")
    assert usable(storage, build)[HOST] != first
    assert logins.opened(first) is None
    assert logins.remove(build.organization_id, HOST)
    assert not logins.remove(build.organization_id, HOST)
    assert usable(storage, build) == {}


def test_a_login_is_for_its_organization_and_no_fork(storage: Storage, world: World):
    own = world.build(new_job())
    fork = world.build(new_job(), untrusted_origin="evil/demo#1", from_fork=True)
    theirs = storage.builds.create_unplanned(world.other_pipeline("Other"), NewBuild("main", "c"))
    storage.registry_logins.put(own.organization_id, "index.docker.io", "ci", PASSWORD)
    assert list(usable(storage, own)) == ["docker.io"]
    assert (usable(storage, fork), usable(storage, theirs)) == ({}, {})
    account = RegistryAccount("docker.io", "ci", PASSWORD)
    assert storage.registry_logins.for_build(own, ["docker.io"]) == [account]
    assert storage.registry_logins.for_build(fork, ["docker.io"]) == []
    with pytest.raises(RegistryLoginMissing, match=r"has no login at the registry docker\.io: have an admin run"):
        storage.registry_logins.for_build(theirs, ["docker.io"])


@pytest.mark.parametrize(
    ("host", "username", "password", "part"),
    [
        ("ghcr", "ci", "x", "host"),
        ("https://ghcr.io", "ci", "x", "host"),
        ("ghcr.io/acme", "ci", "x", "host"),
        (HOST, "", "x", "username"),
        (HOST, "a:b", "x", "username"),
        (HOST, "ci", "", "password"),
        (HOST, "ci", "two\nlines", "password"),
        (HOST, "ci", "x" * 65_537, "password"),
    ],
)
def test_a_malformed_login_is_refused(
    storage: Storage, organization: Organization, host: str, username: str, password: str, part: str
):
    with pytest.raises(RegistryLoginInvalid, match=f"^{part}: "):
        storage.registry_logins.put(organization.id, host, username, password)
    assert storage.registry_logins.of_organization(organization.id) == []


def test_an_organization_has_a_bound_of_logins(storage: Storage, organization: Organization):
    for number in range(50):
        storage.registry_logins.put(organization.id, f"r{number}.example.org", "ci", "x")
    with pytest.raises(RegistryLoginInvalid, match="at most 50 logins"):
        storage.registry_logins.put(organization.id, HOST, "ci", "x")
    storage.registry_logins.put(organization.id, "r0.example.org", "other", "x")
