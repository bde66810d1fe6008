from __future__ import annotations

from dataclasses import replace

import pytest

from storage import (
    BuildState,
    JobState,
    LedgerSource,
    NewPipeline,
    Organization,
    Role,
    SoleOwner,
    Storage,
    User,
    Visibility,
)
from tests.records import new_job
from tests.storage.world import World


@pytest.fixture
def bob(storage: Storage) -> User:
    return storage.users.create("bob@example.org", "Bob")


def _slugs(storage: Storage, user: User) -> list[str]:
    return [organization.slug for organization in storage.organizations.page(user.id, 100, None).rows]


def test_a_closed_account_frees_its_address(storage: Storage, user: User):
    _, key = storage.tokens.create_api_key(user.id, "laptop")
    _, session = storage.tokens.create_session(user.id, "browser")
    storage.cli_logins.offer(user.id, "a-nonce-in-the-browser")
    code = storage.cli_logins.issue_code(user.id)

    assert storage.accounts.close(user.id) == []

    assert storage.tokens.caller(key) is storage.tokens.caller(session) is None
    assert storage.cli_logins.claim("a-nonce-in-the-browser") is storage.cli_logins.redeem(code) is None
    assert storage.users.by_email("ann@example.org") is None
    assert storage.users.by_id(user.id) == replace(user, email=user.uuid, name="")
    again = storage.users.create("ann@example.org", "Ann")
    assert again.id != user.id
    assert again.personal_org_slug == "ann-example-org-2"


def test_a_token_that_came_after_the_end_is_none(storage: Storage, user: User):
    storage.accounts.close(user.id)
    _, late = storage.tokens.create_api_key(user.id, "asked for at the same moment")
    assert storage.tokens.caller(late) is None


def test_sole_organizations_close_and_their_ledger_stays(
    storage: Storage, user: User, organization: Organization, bob: User
):
    storage.ledger.append(organization.id, 500, LedgerSource.ADMIN_GRANT, None)
    public = replace(NewPipeline("site", "Site", "r", "main"), visibility=Visibility.PUBLIC)
    pipeline = storage.pipelines.create(organization.id, public)

    storage.accounts.close(user.id)

    assert storage.organizations.by_slug("acme") is storage.organizations.by_slug("ann-example-org") is None
    hidden = storage.pipelines.by_id(pipeline.id)
    assert hidden is not None
    assert hidden.visibility is Visibility.PRIVATE
    assert storage.ledger.balance(organization.id) == 500
    assert storage.organizations.create("Acme", "", bob.id).slug == "acme-2"


def test_only_their_unfinished_builds_are_to_be_canceled(storage: Storage, user: User, world: World):
    running, finished = world.build(), world.build()
    storage.jobs.move(world.job(finished).id, JobState.SCHEDULED, JobState.CANCELED)
    storage.builds.move(finished.id, finished.state, BuildState.CANCELED)
    elsewhere = world.build(pipeline=world.other_pipeline("Elsewhere"))

    assert storage.accounts.close(user.id) == [running.id]

    asked = {build.id for build in storage.builds.unfinished() if build.cancel_requested}
    assert asked == {running.id}
    assert elsewhere.id not in asked


def test_a_sole_owner_of_a_shared_organization_stays(
    storage: Storage, user: User, organization: Organization, bob: User
):
    _, key = storage.tokens.create_api_key(user.id, "laptop")
    other = storage.organizations.create("Zoo", "", user.id)
    storage.organizations.add_member(organization.id, bob.id, Role.ADMIN)
    storage.organizations.add_member(other.id, bob.id, Role.MEMBER)

    with pytest.raises(SoleOwner, match="you are the only owner of acme, zoo, which other members use: make one"):
        storage.accounts.close(user.id)

    assert storage.tokens.caller(key) is not None
    assert _slugs(storage, user) == ["ann-example-org", "acme", "zoo"]


@pytest.mark.parametrize("role", [Role.MEMBER, Role.ADMIN, Role.OWNER])
def test_an_organization_with_another_owner_remains(
    storage: Storage, user: User, organization: Organization, bob: User, role: Role
):
    carol = storage.users.create("carol@example.org", "Carol")
    storage.organizations.add_member(organization.id, carol.id, role)

    assert storage.accounts.close(carol.id) == []

    assert storage.organizations.by_slug("acme") == organization
    assert storage.organizations.role(organization.id, carol.id) is None
    assert storage.organizations.role(organization.id, user.id) is Role.OWNER
    assert _slugs(storage, bob) == ["bob-example-org"]


def test_one_of_several_owners_may_leave(
    storage: Storage, user: User, organization: Organization, bob: User, world: World
):
    build = world.build(new_job())
    storage.organizations.add_member(organization.id, bob.id, Role.OWNER)

    assert storage.accounts.close(user.id) == []

    assert _slugs(storage, bob) == ["acme", "bob-example-org"]
    assert [found.cancel_requested for found in storage.builds.unfinished() if found.id == build.id] == [False]
