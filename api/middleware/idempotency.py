"""`Idempotency-Key`: a repeated request is done once (wire-decisions.md, "Idempotency")."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from api.bodies import body_bytes, parse_json
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter
from api.operations.operation import Submission

if TYPE_CHECKING:
    import falcon


B = TypeVar("B")

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


def read_submission(req: falcon.Request, kind: type[B], *, required: bool = True) -> Submission[B]:
    """Read a request. Its bytes, which may be many, are released when this returns.

    An absent body counts as an empty object if none is required. Raises ApiError
    ``invalid_idempotency_key``, and as `body_bytes` and `parse_json` do.
    """
    name = _key_name(req)
    body = body_bytes(req) if required or req.content_length else None
    digest = b"" if name is None else _digest(req, body or b"")
    return Submission({} if body is None else parse_json(body), kind, name, digest)


def _key_name(req: falcon.Request) -> str | None:
    name = req.get_header(_HEADER)
    try:
        return None if name is None else _NAME.validate_python(name)
    except ValidationError:
        raise ApiError("invalid_idempotency_key", f"{_HEADER}: expected 1 to {_MAX_LENGTH} characters") from None


def _digest(req: falcon.Request, body: bytes) -> bytes:
    request = hashlib.sha256(req.path.encode() + b"\0")
    request.update(body)
    return request.digest()
