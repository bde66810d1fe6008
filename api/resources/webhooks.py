"""Deliveries of source hosts: reports of pushes (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from api.bodies import answer
from api.errors.responses import ApiError
from api.openapi.operations import Answer, Parameter, operation

if TYPE_CHECKING:
    import falcon

    from api.engine import EngineInterface
    from api.middleware.rate_limits import RateLimits
    from storage import Storage

__all__ = ["DeliveryResponse", "GitWebhookResource"]

_BEARER = re.compile(r"Bearer +(\S+)", re.IGNORECASE)
_DELIVERY_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HEADER = "X-Delivery-Id"
_MAX_BYTES = 2**20
_PROVIDER = "git"


class DeliveryResponse(BaseModel):
    """The answer to a delivery: it is processed soon, or was received before."""

    status: Literal["accepted", "duplicate"]


class GitWebhookResource:
    """``/webhooks/git``, which the hooks of repositories call; accepts only their tokens."""

    def __init__(self, storage: Storage, engine: EngineInterface, rates: RateLimits) -> None:
        self._storage = storage
        self._engine = engine
        self._rates = rates

    @operation(
        "receiveGitPush",
        Answer(202, "The push is kept, and looked at soon.", DeliveryResponse),
        Answer(200, "This delivery was received before.", DeliveryResponse),
        errors=("body_too_large", "delivery_id_invalid"),
        parameters=(
            Parameter(
                _HEADER,
                "The caller's name for this delivery; one that comes again has no effect.",
                {"type": "string", "pattern": f"^{_DELIVERY_ID.pattern}$", "examples": ["7d1c1d86-8f4b-4f0b"]},
                "header",
                required=True,
            ),
        ),
        changes=False,
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Report a push to a connected repository; needs the repository's token.

        The body is what git gives to a `post-receive` hook: a line `OLD NEW REF` for each branch or tag.
        """
        token = _BEARER.fullmatch(req.auth or "")
        repository = self._storage.repositories.by_token(token[1]) if token else None
        if repository is None:
            if req.auth is not None:
                self._rates.limit_failures(req)
            raise ApiError.unauthorized("send the token of a connected repository, see `ci-daemon repo connect`")
        given = req.get_header(_HEADER) or ""
        if not _DELIVERY_ID.fullmatch(given):
            raise ApiError("delivery_id_invalid", f"{_HEADER}: expected 1 to 100 letters, digits, '.', '_' or '-'")
        body = req.bounded_stream.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise ApiError("body_too_large", f"the body has more than {_MAX_BYTES} bytes")
        accepted = self._storage.deliveries.receive(_PROVIDER, f"{repository.uuid}/{given}", repository, body)
        if accepted:
            self._engine.deliveries_added()
        answer(resp, DeliveryResponse(status="accepted" if accepted else "duplicate"), status=202 if accepted else 200)
