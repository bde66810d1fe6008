"""Personal API keys of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import Moment, RequestBody, RequiredLongText, StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    import storage
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from storage import Clock, Storage

__all__ = [
    "ApiTokenCreateRequest",
    "ApiTokenCreateResponse",
    "ApiTokenListResponse",
    "ApiTokenRecord",
    "ApiTokensResource",
]


class ApiTokenRecord(StoredRecord):
    """A personal API key, without the key itself."""

    id: Uuid
    description: str
    created_at: Timestamp
    expires_at: Timestamp | None
    last_used_at: Timestamp | None

    @classmethod
    def of(cls, token: storage.Token) -> ApiTokenRecord:
        """Return the record of a stored key."""
        return cls.showing(token, id=token.uuid)


class ApiTokenListResponse(JsonModel):
    """The caller's API keys."""

    api_tokens: list[ApiTokenRecord]


class ApiTokenCreateResponse(JsonModel):
    """An API key and its record; the key is shown only once."""

    api_token: ApiTokenRecord
    token: str


class ApiTokenCreateRequest(RequestBody):
    """The body of ``POST /api/v0/user/api-tokens``.

    Without ``expires_at`` the key is valid until it is revoked.
    """

    description: RequiredLongText
    expires_at: Moment | None = None


class ApiTokensResource:
    """``/api/v0/user/api-tokens`` and the paths below it."""

    def __init__(self, storage: Storage, access: Access, limits: RateLimits, clock: Clock) -> None:
        self._storage = storage
        self._access = access
        self._limits = limits
        self._clock = clock

    @operation("listApiTokens", Answer(200, "The API keys.", ApiTokenListResponse))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the caller's API keys that are not revoked, newest first."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        keys = self._storage.tokens.api_keys(caller.user.id)
        answer(resp, ApiTokenListResponse(api_tokens=[ApiTokenRecord.of(key) for key in keys]))

    @operation(
        "createApiToken",
        Answer(201, "The API key, shown only now, and its record.", ApiTokenCreateResponse),
        body=ApiTokenCreateRequest,
        errors=("session_required",),
    )
    def on_post_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create an API key; needs a session token."""
        self._limits.limit_address(req, resp)
        caller = self._access.session(req)
        self._limits.limit_account(caller, resp)
        body = read_body(req, ApiTokenCreateRequest)
        if body.expires_at is not None and body.expires_at <= self._clock.now():
            raise ApiError("invalid_body", "expires_at: expected a time in the future")
        key, token = self._storage.tokens.create_api_key(caller.user.id, body.description, body.expires_at)
        resp.cache_control = ["no-store"]
        answer(resp, ApiTokenCreateResponse(api_token=ApiTokenRecord.of(key), token=token), status=201)

    @operation("revokeApiToken", Answer(204, "The API key is revoked."), errors=("api_token_not_found",))
    def on_delete(self, req: falcon.Request, resp: falcon.Response, id: str) -> None:
        """Revoke one of the caller's API keys."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        if not self._storage.tokens.revoke_api_key(caller.user.id, id):
            raise ApiError("api_token_not_found", "you have no API key with this ID")
        resp.status = 204
