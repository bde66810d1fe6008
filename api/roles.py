"""Roles in bodies.

The models accept any string as a role, because an unknown one has an error code of its own.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import WithJsonSchema

from api.errors.responses import ApiError
from storage import Role

__all__ = ["InvitedRole", "MemberRole", "parse_role"]

INVITABLE = (Role.ADMIN, Role.MEMBER)

MemberRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [role.value for role in Role]})]
"""A role that a member may have."""

InvitedRole = Annotated[str, WithJsonSchema({"type": "string", "enum": [role.value for role in INVITABLE]})]
"""A role that an invite may give."""


def parse_role(text: str, *roles: Role) -> Role:
    """Return the one of ``roles`` that a body names. Raises ApiError ``invalid_role``."""
    role = next((role for role in roles if role.value == text), None)
    if role is None:
        raise ApiError("invalid_role", f"role: expected one of {', '.join(roles)}")
    return role
