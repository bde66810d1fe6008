"""`Idempotency-Key`: a repeated request is done once (wire-decisions.md, "Pipelines, builds, jobs")."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.bodies import body_bytes, parse_json
from api.errors import ApiError
from api.operations import Parameter
from storage import RequestKey

if TYPE_CHECKING:
    import falcon

    from api.access import Member

__all__ = ["KEY_ERRORS", "KEY_PARAMETERS", "Submission"]

_HEADER = "Idempotency-Key"
_MAX_LENGTH = 255

KEY_PARAMETERS = (
    Parameter(
        _HEADER,
        "What the caller calls this request. Sent again within 24 hours, it is answered with the build it made before.",
        {"type": "string", "minLength": 1, "maxLength": _MAX_LENGTH, "examples": ["push-4f6d2a1c9b8e"]},
        "header",
    ),
)
KEY_ERRORS = ("invalid_idempotency_key", "idempotency_conflict")


@dataclass(frozen=True, slots=True)
class Submission:
    """A body that is parsed but not checked, and the request's idempotency key if it has one."""

    document: object
    key: RequestKey | None

    @classmethod
    def read(cls, req: falcon.Request, member: Member) -> Submission:
        """Read a request. Its bytes, which may be many, are released when this returns.

        Raises ApiError ``invalid_idempotency_key``, and as `body_bytes` and `parse_json` do.
        """
        name = req.get_header(_HEADER)
        if name is not None and not 0 < len(name) <= _MAX_LENGTH:
            raise ApiError("invalid_idempotency_key", f"{_HEADER}: expected 1 to {_MAX_LENGTH} characters")
        body = body_bytes(req)
        key = None
        if name is not None:
            request = hashlib.sha256(req.path.encode() + b"\0")
            request.update(body)
            key = RequestKey(member.caller.user.id, member.organization.id, name, request.digest())
        return cls(parse_json(body), key)
