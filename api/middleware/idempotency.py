"""`Idempotency-Key`: a repeated request is done once (wire-decisions.md, "Idempotency").

Answers are about what is on the disk alone (engine.md, "After a crash").
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from api.bodies import body_bytes, parse_json
from api.body import Submission
from api.errors.catalog import ApiError
from api.openapi.operations import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from storage import Storage

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


class DurableAnswers:
    """Holds an answer back until all that it may tell is on the disk.

    That includes what other threads have just written. What the request itself writes waits here, too, so that it
    waits once. Bodies that are made while they are sent wait by themselves.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def process_request(self, *_: object) -> None:
        """Let the request write without waiting. It removes no files, and tells nobody else."""
        self._storage.write_ahead()

    def process_response(self, req: falcon.Request, resp: falcon.Response, resource: object, *_: object) -> None:
        """Wait; that takes no time unless something is being written. Raises DatabaseUnavailable.

        If others want to be served, the server holds the answer back itself (see Channel), and serves them meanwhile.
        An answer that tells nothing of what is stored waits for nothing, but is refused, too, if the disk has failed.
        """
        hold = req.env.get("ci_daemon.hold_answer")
        if getattr(resource, "tells_nothing_stored", False):
            self._storage.await_disk(lambda _: True)
        else:
            self._storage.await_disk(None if hold is None else partial(_hold, hold, resp))


def _hold(hold: Callable[[Callable[[], None] | None], bool], resp: falcon.Response, wait: Callable[[], None]) -> bool:
    """Let the server hold the answer until the wait is over, if its body is there and not yet to be read."""
    return hold(wait if resp.stream is None else None)
