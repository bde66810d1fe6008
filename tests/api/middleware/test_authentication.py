from __future__ import annotations

import pytest
from falcon import testing

from api.errors.catalog import ApiError
from api.middleware.authentication import Access, BearerTokens
from api.middleware.rate_limits import RateLimits
from api.request import ApiRequest
from api.settings import RateLimitSettings
from storage import Role
from tests.api.world import Account, PipelinePath, World


def _access(world: World) -> Access:
    return Access(world.storage, BearerTokens(world.storage, RateLimits(RateLimitSettings(), (), world.clock)))


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
    bob.join(ada, role)

    for needed in Role:
        if needed in allowed:
            assert access.member(_asked_by(bob), ada.org, at_least=needed).role is role
        else:
            with pytest.raises(ApiError, match=f"needs the role {needed} in {ada.org}; your role is {role}") as refused:
                access.member(_asked_by(bob), ada.org, at_least=needed)
            assert (refused.value.problem.code, refused.value.problem.status) == ("insufficient_org_role", 403)


def test_without_membership_404_comes_before_the_role(world: World, ada: Account, bob: Account):
    with pytest.raises(ApiError) as refused:
        _access(world).member(_asked_by(bob), ada.org, at_least=Role.OWNER)
    assert refused.value.problem.code == "organization_not_found"


def test_an_identity_token_of_a_job_opens_nothing_here(world: World, pipeline: PipelinePath):
    """The service signs it, also for an audience that is its own address; what is signed is for others."""
    build, org = pipeline.build(), pipeline.account.org
    now = int(world.clock.now().timestamp())
    address = "https://ci.example.org"
    claims = {"iss": address, "aud": address, "iat": now, "exp": now + 600, "organization": org, "sub": org}
    token = world.storage.issuer_keys.signed({**claims, "email": pipeline.account.email, "build_id": "1"})
    log = f"{build.job().path}/log"
    for path in ("/api/v0/user", f"{pipeline.path}/builds", log):
        headers = {"Authorization": f"Bearer {token}"}
        assert world.anonymous.simulate_get(path, headers=headers).status_code == 401
    assert world.anonymous.simulate_get(log, params={"token": token}).status_code == 401
