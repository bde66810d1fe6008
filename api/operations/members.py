"""Members of an organization and their roles (wire-decisions.md, "Members and invites")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self, assert_never

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PATCH, POST, Call, Found, Whole, done, operation, owners_operation
from api.operations.things import ORGANIZATION, NamedUser, ThisMembership, ThisUser
from storage import LastOwner, Member, MemberNotFound, Role, RoleInsufficient, described, immutable

if TYPE_CHECKING:
    from api.fields import MemberRole

_MEMBERS = f"{ORGANIZATION}/members"
_MEMBER = f"{_MEMBERS}/{{user_id}}"


@immutable
class OrgMember:
    """A member of an organization."""

    user_uuid: str
    email: str
    name: str | None
    role: Role

    @classmethod
    def of(cls, member: Member) -> Self:
        """Return the record of a stored member."""
        return cls(member.uuid, member.email, member.name or None, member.role)


@immutable
class UpdateMemberRoleRequest:
    """The body of ``PATCH …/members/{user_id}``."""

    role: MemberRole = described("The new role.", choices=tuple(Role))


@immutable
class AddMemberRequest:
    """The body of `add_member`."""

    role: Role = described("Members build, admins also manage members and settings, owners also owners.")


def _member(call: Call, membership: ThisMembership, user_id: str) -> Member:
    found = call.storage.members.by_uuid(membership.organization.id, user_id)
    if found is None:
        raise ApiError.not_found("member", user_id)
    return found


ThisMember = Annotated[Member, Found(_member, ("member_not_found",))]

OrgMemberList = Annotated[
    list[OrgMember], Whole("All members: owners, then admins, then members, each group by e-mail address.")
]


@operation("listOrgMembers", GET, _MEMBERS, "The members.")
def list_members(call: Call, membership: ThisMembership) -> OrgMemberList:
    """List the organization's members: owners, then admins, then members, each by e-mail address."""
    return [OrgMember.of(each) for each in call.storage.members.all(membership.organization.id)]


@operation("updateOrgMember", PATCH, _MEMBER, "The member.", role=Role.ADMIN, errors=("last_owner", "invalid_role"))
def update_member(
    call: Call, membership: ThisMembership, member: ThisMember, user: ThisUser, body: UpdateMemberRoleRequest
) -> OrgMember:
    """Change a member's role; only an owner may appoint an owner or change an owner's role."""
    role = parse_role(body.role, *Role)
    try:
        return OrgMember.of(call.storage.members.change(membership.organization.id, member.uuid, role, user.id))
    except (MemberNotFound, RoleInsufficient, LastOwner) as error:
        raise _refusal(error) from None


@operation(
    "removeOrgMember",
    DELETE,
    _MEMBER,
    done("The member is removed."),
    errors=("member_not_found", "insufficient_org_role", "last_owner"),
)
def remove_member(call: Call, membership: ThisMembership, user: ThisUser, user_id: str) -> None:
    """Remove a member; members may remove themselves."""
    try:
        call.storage.members.remove(membership.organization.id, user_id, user.id)
    except (MemberNotFound, RoleInsufficient, LastOwner) as error:
        raise _refusal(error) from None


@owners_operation("addOrgMember", POST, f"{_MEMBERS}/{{email}}")
def add_member(call: Call, membership: ThisMembership, user: NamedUser, body: AddMemberRequest) -> OrgMember:
    """Make a user a member, who is not asked."""
    organizations, organization = call.storage.organizations, membership.organization
    if organizations.role(organization.id, user.id) is not None:
        raise ApiError("invite_invalid", f"{user.email} is a member already")
    organizations.add_member(organization.id, user.id, body.role)
    return OrgMember(user.uuid, user.email, user.name or None, body.role)


def parse_role(text: str, *roles: Role) -> Role:
    """Return the one of ``roles`` that a body names. Raises ApiError ``invalid_role``."""
    role = next((role for role in roles if role.value == text), None)
    if role is None:
        raise ApiError("invalid_role", f"role: expected one of {', '.join(roles)}")
    return role


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
