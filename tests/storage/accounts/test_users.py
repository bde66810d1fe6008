from __future__ import annotations

import pytest

from storage import EmailTaken, NameUnusable, Role, Storage


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
