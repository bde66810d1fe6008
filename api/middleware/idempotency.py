"""`Idempotency-Key`: a repeated request is done once (wire-decisions.md, "Idempotency")."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from api.bodies import body_bytes, parse_json
from api.errors.responses import ApiError
from api.openapi.operations import Parameter
from storage import RequestKey, immutable

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Membership

__all__ = ["KEY_ERRORS", "KEY_PARAMETERS", "Submission"]

_HEADER = "Idempotency-Key"
_MAX_LENGTH = 255
_NAME = TypeAdapter(
    Annotated[str, StringConstraints(min_length=1, max_length=_MAX_LENGTH), Field(examples=["push-4f6d2a1c9b8e"])]
)

KEY_PARAMETERS = (
    Parameter(
        _HEADER,
        "A name for this request. The same request with the same name is done once, and answered alike for 24 hours.",
        _NAME.json_schema(),
        "header",
    ),
)
KEY_ERRORS = ("invalid_idempotency_key", "idempotency_conflict")


@immutable
class Submission:
    """A body that is parsed but not checked, who sent it, and the request's idempotency key if it has one."""

    document: object
    key: RequestKey | None
    user_id: int

    @classmethod
    def read(cls, req: falcon.Request, member: Membership) -> Submission:
        """Read a request. Its bytes, which may be many, are released when this returns.

        Raises ApiError ``invalid_idempotency_key``, and as `body_bytes` and `parse_json` do.
        """
        name = _key_name(req)
        body = body_bytes(req)
        return cls(parse_json(body), _key(req, member, name, body), member.caller.user.id)

    @classmethod
    def read_optional(cls, req: falcon.Request, member: Membership) -> Submission:
        """Read a request as `read` does; an absent body counts as an empty object."""
        if req.content_length:
            return cls.read(req, member)
        return cls({}, _key(req, member, _key_name(req), b""), member.caller.user.id)


def _key_name(req: falcon.Request) -> str | None:
    name = req.get_header(_HEADER)
    try:
        return None if name is None else _NAME.validate_python(name)
    except ValidationError:
        raise ApiError("invalid_idempotency_key", f"{_HEADER}: expected 1 to {_MAX_LENGTH} characters") from None


def _key(req: falcon.Request, member: Membership, name: str | None, body: bytes) -> RequestKey | None:
    if name is None:
        return None
    request = hashlib.sha256(req.path.encode() + b"\0")
    request.update(body)
    return RequestKey(member.caller.user.id, member.organization.id, name, request.digest())
