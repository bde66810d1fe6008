from __future__ import annotations

import threading

import pytest
from falcon import testing

from storage import Role
from tests.api.world import Account, World


@pytest.fixture
def people(world: World) -> dict[str, Account]:
    """An owner of the organization, a second owner, an admin, a member, and an outsider."""
    accounts = {
        name: world.sign_up(f"{name}@example.org", name.title()) for name in ("owner", "second", "admin", "member")
    }
    for name, role in (("second", Role.OWNER), ("admin", Role.ADMIN), ("member", Role.MEMBER)):
        accounts[name].join(accounts["owner"], role)
    return accounts | {"outsider": world.sign_up("outsider@example.org")}


def change(people: dict[str, Account], actor: str, target: str, role: object) -> testing.Result:
    path = f"{people['owner'].path}/members/{people[target].user.uuid}"
    return people[actor].client.simulate_patch(path, json={"role": role})


def remove(people: dict[str, Account], actor: str, target: str) -> testing.Result:
    return people[actor].client.simulate_delete(f"{people['owner'].path}/members/{people[target].user.uuid}")


def code(answered: testing.Result) -> str:
    return str(answered.json["error"]["code"])


def roles(people: dict[str, Account]) -> dict[str, str]:
    rows = people["owner"].world.storage.members.all(people["owner"].org_id)
    return {row.email.partition("@")[0]: row.role.value for row in rows}


def test_members_are_listed_by_role_and_then_by_address(people: dict[str, Account]):
    answered = people["member"].client.simulate_get(f"{people['owner'].path}/members")

    assert answered.status_code == 200
    assert [(row["email"], row["role"]) for row in answered.json["data"]] == [
        ("owner@example.org", "owner"),
        ("second@example.org", "owner"),
        ("admin@example.org", "admin"),
        ("member@example.org", "member"),
    ]
    assert answered.json["data"][0] == {
        "user_uuid": people["owner"].user.uuid,
        "email": "owner@example.org",
        "name": "Owner",
        "role": "owner",
    }


@pytest.mark.parametrize(
    ("actor", "target", "role", "outcome"),
    [
        ("owner", "member", "owner", 200),
        ("owner", "second", "member", 200),
        ("owner", "member", "admin", 200),
        ("admin", "member", "admin", 200),
        ("admin", "admin", "member", 200),
        ("admin", "member", "owner", "insufficient_org_role"),
        ("admin", "owner", "member", "insufficient_org_role"),
        ("member", "member", "admin", "insufficient_org_role"),
        ("member", "admin", "member", "insufficient_org_role"),
        ("outsider", "member", "admin", "organization_not_found"),
        ("owner", "outsider", "admin", "member_not_found"),
        ("member", "outsider", "admin", "member_not_found"),
        ("owner", "member", "king", "invalid_role"),
        ("owner", "member", "", "invalid_role"),
        ("owner", "member", 1, "invalid_body"),
    ],
)
def test_who_may_change_a_role(people: dict[str, Account], actor: str, target: str, role: object, outcome: int | str):
    before = roles(people)
    answered = change(people, actor, target, role)

    if outcome == 200:
        assert (answered.status_code, answered.json["role"]) == (200, role)
        assert roles(people) == before | {target: role}
    else:
        assert code(answered) == outcome
        assert roles(people) == before


@pytest.mark.parametrize(
    ("actor", "target", "outcome"),
    [
        ("owner", "member", 204),
        ("owner", "second", 204),
        ("owner", "owner", 204),
        ("admin", "member", 204),
        ("admin", "admin", 204),
        ("member", "member", 204),
        ("admin", "owner", "insufficient_org_role"),
        ("member", "admin", "insufficient_org_role"),
        ("outsider", "member", "organization_not_found"),
        ("owner", "outsider", "member_not_found"),
    ],
)
def test_who_may_remove_a_member(people: dict[str, Account], actor: str, target: str, outcome: int | str):
    before = roles(people)
    answered = remove(people, actor, target)

    if outcome == 204:
        assert (answered.status_code, answered.text) == (204, "")
        assert roles(people) == {name: role for name, role in before.items() if name != target}
    else:
        assert code(answered) == outcome
        assert roles(people) == before


def test_an_organization_keeps_an_owner(people: dict[str, Account]):
    assert change(people, "owner", "second", "member").status_code == 200
    assert code(change(people, "owner", "owner", "admin")) == "last_owner"
    assert code(remove(people, "owner", "owner")) == "last_owner"
    assert change(people, "owner", "owner", "owner").status_code == 200


def test_of_two_owners_who_demote_each_other_one_stays(people: dict[str, Account]):
    barrier = threading.Barrier(2)

    def demote(actor: str, target: str) -> None:
        barrier.wait()
        change(people, actor, target, "member")

    pairs = (("owner", "second"), ("second", "owner"))
    threads = [threading.Thread(target=demote, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted([roles(people)["owner"], roles(people)["second"]]) == ["member", "owner"]
