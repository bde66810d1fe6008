"""The things that paths of operations name, and how each is found for a caller.

Checks have the same order everywhere: first the things of the path, from left to right, then the role
(wire-decisions.md, "Everywhere" and "Who may do what").
"""

from __future__ import annotations

from typing import Annotated

from api.errors.catalog import ApiError
from api.operations.operation import Call, Found, HostOwner, Membership
from storage import Pipeline, Role, User, UserUnknown

__all__ = [
    "BILLING",
    "NAMED_USER",
    "ORGANIZATION",
    "PIPELINE",
    "USER",
    "NamedUser",
    "ThisMembership",
    "ThisPipeline",
    "ThisUser",
]

BILLING = "/api/v0/billing"
NAMED_USER = "/users/{email}"
USER = "/api/v0/user"
ORGANIZATION = "/api/v0/organizations/{org}"
PIPELINE = f"{ORGANIZATION}/pipelines/{{pipeline}}"


def _user(call: Call) -> User:
    if call.caller is None or isinstance(call.caller, HostOwner):
        raise ApiError.unauthorized("this is about the caller's own account: say whose with a token")
    return call.caller.user


ThisUser = Annotated[User, Found(_user, ())]
"""The caller."""


def _named_user(call: Call, email: str) -> User:
    found = call.storage.users.by_email(email)
    if found is None:
        raise UserUnknown(email)
    return found


NamedUser = Annotated[User, Found(_named_user, ())]
"""The user with the address ``{email}``, for operations of the owner of the host. Raises UserUnknown."""


def _membership(call: Call, org: str) -> Membership:
    caller = call.caller
    if isinstance(caller, HostOwner):
        organization = call.storage.organizations.by_slug(org)
        found = None if organization is None else (organization, Role.OWNER)
    else:
        found = None if caller is None else call.storage.organizations.for_member(caller.user.id, org)
    if found is None:
        raise ApiError.not_found("organization", org)
    return Membership(*found)


ThisMembership = Annotated[Membership, Found(_membership, ("organization_not_found",))]
"""The caller as a member of ``{org}``."""


def _pipeline(call: Call, member: ThisMembership, pipeline: str) -> Pipeline:
    found = call.storage.pipelines.by_slug(member.organization.id, pipeline)
    if found is None:
        raise ApiError.not_found("pipeline", pipeline)
    return found


ThisPipeline = Annotated[Pipeline, Found(_pipeline, ("pipeline_not_found",))]
"""The pipeline ``{pipeline}`` of the organization ``{org}``, of which the caller is a member."""
