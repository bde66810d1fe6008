"""Members of an organization and their roles (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import storage
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, StoredRecord, Uuid
from api.openapi.operations import Answer, operation
from api.roles import MemberRole, parse_role
from storage import JsonModel, LastOwner, MemberNotFound, Role, RoleInsufficient, Storage

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access, Membership

__all__ = ["MembersResource", "OrgMemberListRecord", "OrgMemberRecord", "UpdateMemberRoleRequest"]

_ERRORS = ("organization_not_found", "member_not_found", "insufficient_org_role", "last_owner")


class OrgMemberRecord(StoredRecord):
    """A member of an organization."""

    user_uuid: Uuid
    email: str
    name: str | None
    role: Role

    @classmethod
    def of(cls, member: storage.Member) -> OrgMemberRecord:
        """Return the record of a stored member."""
        return cls.showing(member, user_uuid=member.uuid, name=member.name or None)


class OrgMemberListRecord(JsonModel):
    """All members: owners, then admins, then members, each group by e-mail address."""

    data: list[OrgMemberRecord]


class UpdateMemberRoleRequest(RequestBody):
    """The body of ``PATCH …/members/{user_id}``."""

    role: MemberRole


class MembersResource:
    """``/api/v0/organizations/{org}/members`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._storage = storage
        self._access = access

    @operation("listOrgMembers", Answer(200, "The members.", OrgMemberListRecord), errors=("organization_not_found",))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List the organization's members: owners, then admins, then members, each by e-mail address."""
        organization = self._access.member(req, org).organization
        found = self._storage.members.all(organization.id)
        answer(resp, OrgMemberListRecord(data=[OrgMemberRecord.of(member) for member in found]))

    @operation(
        "updateOrgMember",
        Answer(200, "The member.", OrgMemberRecord),
        errors=(*_ERRORS, "invalid_role"),
        body=UpdateMemberRoleRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response, org: str, user_id: str) -> None:
        """Change a member's role; only an owner may appoint an owner or change an owner's role."""
        actor = self._access.member(req, org)
        self._require_known(actor, user_id)
        actor.require(Role.ADMIN)
        role = parse_role(read_body(req, UpdateMemberRoleRequest).role, *Role)
        try:
            member = self._storage.members.change(actor.organization.id, user_id, role, actor.caller.user.id)
        except (MemberNotFound, RoleInsufficient, LastOwner) as error:
            raise _refusal(error) from None
        answer(resp, OrgMemberRecord.of(member))

    @operation("removeOrgMember", Answer(204, "The member is removed."), errors=_ERRORS)
    def on_delete(self, req: falcon.Request, resp: falcon.Response, org: str, user_id: str) -> None:
        """Remove a member; members may remove themselves."""
        actor = self._access.member(req, org)
        try:
            self._storage.members.remove(actor.organization.id, user_id, actor.caller.user.id)
        except (MemberNotFound, RoleInsufficient, LastOwner) as error:
            raise _refusal(error) from None
        resp.status = 204

    def _require_known(self, actor: Membership, user_id: str) -> None:
        if self._storage.members.by_uuid(actor.organization.id, user_id) is None:
            raise ApiError.not_found("member", user_id)


def _refusal(error: MemberNotFound | RoleInsufficient | LastOwner) -> ApiError:
    match error:
        case MemberNotFound():
            return ApiError("member_not_found", str(error))
        case RoleInsufficient():
            return ApiError("insufficient_org_role", str(error))
        case LastOwner():
            return ApiError("last_owner", str(error))
        case _:
            assert_never(error)
