"""Roles as bodies name them. One that there is not has an error code of its own, so the model takes any string."""

from __future__ import annotations

from typing import Annotated

from pydantic import WithJsonSchema

from api.errors import ApiError
from storage import Role

__all__ = ["InvitedRole", "MemberRole", "role_in"]

INVITABLE = (Role.ADMIN, Role.MEMBER)

MemberRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})]
"""A role that a member may have."""

InvitedRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [role.value for role in INVITABLE]})]
"""A role that an invite may give."""


def role_in(text: str, *roles: Role) -> Role:
    """Return which of these roles a body names. Raises ApiError ``invalid_role``."""
    role = next((role for role in roles if role.value == text), None)
    if role is None:
        raise ApiError("invalid_role", f"role: expected one of {', '.join(roles)}")
    return role
