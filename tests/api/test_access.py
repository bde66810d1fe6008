from __future__ import annotations

import pytest
from falcon import testing

from api.access import Access
from api.errors import ApiError
from api.rate_limits import RateLimits
from api.request import ApiRequest
from api.settings import RateLimitSettings
from storage import Role
from tests.api.world import Account, World


def _access(world: World) -> Access:
    return Access(world.storage, RateLimits(RateLimitSettings(), (), world.clock))


def _asked_by(account: Account) -> ApiRequest:
    return ApiRequest(testing.create_environ(headers={"Authorization": f"Bearer {account.token}"}))


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.MEMBER, {Role.MEMBER}),
        (Role.ADMIN, {Role.MEMBER, Role.ADMIN}),
        (Role.OWNER, {Role.MEMBER, Role.ADMIN, Role.OWNER}),
    ],
)
def test_a_role_allows_what_weaker_roles_may_and_no_more(
    world: World, ada: Account, bob: Account, role: Role, allowed: set[Role]
):
    access = _access(world)
    bob.joins(ada, role)

    for needed in Role:
        if needed in allowed:
            assert access.member(_asked_by(bob), ada.org, at_least=needed).role is role
        else:
            with pytest.raises(ApiError, match=f"needs the role {needed} in {ada.org}; yours is {role}") as refused:
                access.member(_asked_by(bob), ada.org, at_least=needed)
            assert (refused.value.problem.code, refused.value.problem.status) == ("insufficient_org_role", 403)


def test_who_is_no_member_is_told_of_no_role_but_that_there_is_no_organization(
    world: World, ada: Account, bob: Account
):
    with pytest.raises(ApiError) as refused:
        _access(world).member(_asked_by(bob), ada.org, at_least=Role.OWNER)
    assert refused.value.problem.code == "organization_not_found"
