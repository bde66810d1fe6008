from __future__ import annotations

import pytest

from storage import EmailTaken, NameUnusable, Organization, Role, Storage, User


def test_an_organization_is_its_creators_and_found_by_slug(storage: Storage, user: User):
    made = storage.organizations.create("Acme Inc", "https://acme.example", user.id)
    assert (made.slug, made.name, made.url) == ("acme-inc", "Acme Inc", "https://acme.example")
    assert storage.organizations.by_slug("acme-inc") == storage.organizations.by_id(made.id) == made
    assert storage.organizations.for_member(user.id, "acme-inc") == (made, Role.OWNER)
    assert storage.organizations.role(made.id, user.id) is Role.OWNER


def test_slugs_that_collide_are_numbered(storage: Storage, user: User):
    assert [storage.organizations.create("Acme!", "", user.id).slug for _ in range(3)] == ["acme", "acme-2", "acme-3"]


def test_a_name_without_a_usable_character_is_refused(storage: Storage, user: User):
    with pytest.raises(NameUnusable, match='no slug can be made of "!!!"'):
        storage.organizations.create("!!!", "", user.id)


def test_it_does_not_exist_for_non_members(storage: Storage, organization: Organization):
    stranger = storage.users.create("bob@example.org", "Bob")
    assert storage.organizations.for_member(stranger.id, organization.slug) is None
    assert storage.organizations.role(organization.id, stranger.id) is None
    assert storage.organizations.for_member(stranger.id, "missing") is None
    assert storage.organizations.by_slug("missing") is None


def test_pages_show_only_a_users_organizations_oldest_first(storage: Storage, user: User):
    storage.users.create("bob@example.org", "Bob")
    made = [storage.organizations.create(f"Org {number}", "", user.id).slug for number in range(5)]
    seen: list[str] = []
    after = None
    while True:
        page = storage.organizations.page(user.id, 2, after)
        seen += [organization.slug for organization in page.rows]
        after = page.next_key
        if after is None:
            break
        assert len(page.rows) == 2
    assert seen == [user.personal_org_slug, *made]


def test_rows_that_come_meanwhile_neither_repeat_nor_hide_others(storage: Storage, user: User):
    storage.organizations.create("One", "", user.id)
    first = storage.organizations.page(user.id, 2, None)
    storage.organizations.create("Two", "", user.id)
    assert first.next_key is None
    again = storage.organizations.page(user.id, 2, first.rows[-1].id)
    assert [organization.slug for organization in again.rows] == ["two"]


def test_the_hosts_settings_of_an_organization_change_one_by_one(storage: Storage, organization: Organization):
    assert (organization.fail_fast, organization.weight) == (False, 1)
    storage.organizations.configure(organization.id, weight=3)
    storage.organizations.configure(organization.id, fail_fast=True)
    changed = storage.organizations.by_id(organization.id)
    assert changed is not None
    assert (changed.fail_fast, changed.weight) == (True, 3)
    assert changed in storage.organizations.all()


def test_an_organization_gets_no_slug_of_a_page(storage: Storage, user: User):
    assert storage.organizations.create("Login", "", user.id).slug == "login-2"


def test_a_user_gets_a_personal_organization_and_owns_it(storage: Storage):
    user = storage.users.create("a.b@c.org", "Ann")
    assert user.personal_org_slug == "a-b-c-org"
    found = storage.organizations.for_member(user.id, "a-b-c-org")
    assert found is not None
    organization, role = found
    assert (organization.name, role) == ("Ann", Role.OWNER)


def test_a_personal_slug_that_is_taken_gets_a_number(storage: Storage):
    slugs = [
        storage.users.create(email, "").personal_org_slug
        for email in ("a.b@c.org", "a-b@c.org", "a+b@c.org", "a_b@c.org")
    ]
    assert slugs == ["a-b-c-org", "a-b-c-org-2", "a-b-c-org-3", "a-b-c-org-4"]


def test_an_email_belongs_to_one_user_whatever_its_case(storage: Storage):
    user = storage.users.create(" Ann@Example.org ", "Ann")
    assert user.email == "ann@example.org"
    with pytest.raises(EmailTaken, match=r"ann@example\.org already"):
        storage.users.create("ANN@example.org", "Other")
    assert storage.users.by_email("aNN@example.org ") == user
    assert storage.organizations.by_slug("ann-example-org-2") is None


def test_a_user_is_found_by_id_and_uuid(storage: Storage):
    user = storage.users.create("ann@example.org", "Ann")
    assert storage.users.by_id(user.id) == storage.users.by_uuid(user.uuid) == user
    assert storage.users.by_id(99) is storage.users.by_uuid("no") is storage.users.by_email("no@no") is None


def test_an_address_without_a_valid_slug_adds_no_user(storage: Storage):
    with pytest.raises(NameUnusable):
        storage.users.create("日@本", "N")
    assert storage.users.by_email("日@本") is None
