"""API keys of the caller; and tokens of all users, for the owner of the host."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime  # noqa: TC003 - the annotations of bodies are read
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, POST, Call, Whole, operation, owners_operation
from api.operations.things import NAMED_USER, USER, NamedUser, ThisUser
from storage import Token, TokenKind, described, immutable

if TYPE_CHECKING:
    from api.fields import Moment, RequiredLongText

_API_TOKENS = f"{USER}/api-tokens"
_OF_USER = f"{NAMED_USER}/tokens"


@immutable
class ApiToken:
    """A personal API key, without the key itself."""

    uuid: str
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, token: Token) -> Self:
        """Return the record of a stored key."""
        return cls(token.uuid, token.description, token.created_at, token.expires_at, token.last_used_at)


@immutable
class ApiTokenCreateResponse:
    """An API key and its record; the key is shown only once."""

    api_token: ApiToken
    token: str


@immutable
class ApiTokenCreateRequest:
    """The body of ``POST /api/v0/user/api-tokens``.

    Without ``expires_at`` the key is valid until it is revoked.
    """

    description: RequiredLongText = described("What it is for, as its owner reads it in the list.")
    expires_at: Moment | None = None


@immutable
class UserToken:
    """A token of any kind, without its value."""

    uuid: str
    kind: TokenKind
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, token: Token) -> Self:
        """Return the record of a stored token."""
        return cls(token.uuid, token.kind, token.description, token.created_at, token.expires_at, token.last_used_at)


@immutable
class NewUserToken(UserToken):
    """A new token with its value, which is shown only once."""

    token: str


@immutable
class UserTokenCreateRequest:
    """The body of `create_user_token`; only an API key has an ``expires_at``."""

    kind: TokenKind
    description: str
    expires_at: datetime | None = None


ApiTokenList = Annotated[list[ApiToken], Whole("The caller's API keys.", "ApiTokenListResponse", "api_tokens")]


@operation("listApiTokens", GET, _API_TOKENS, "The API keys.", limited=True)
def list_api_tokens(call: Call, user: ThisUser) -> ApiTokenList:
    """List the caller's API keys that are not revoked, newest first."""
    return [ApiToken.of(each) for each in call.storage.tokens.api_keys(user.id)]


@operation(
    "createApiToken",
    POST,
    _API_TOKENS,
    "The API key, shown only now, and its record.",
    status=201,
    session=True,
    limited=True,
    once=True,
)
def create_api_token(call: Call, user: ThisUser, body: ApiTokenCreateRequest) -> ApiTokenCreateResponse:
    """Create an API key; needs a session token."""
    if body.expires_at is not None and body.expires_at <= call.clock.now():
        raise ApiError("invalid_body", "expires_at: expected a time in the future")
    key, token = call.storage.tokens.create_api_key(user.id, body.description, body.expires_at)
    return ApiTokenCreateResponse(ApiToken.of(key), token)


@operation(
    "revokeApiToken",
    DELETE,
    f"{_API_TOKENS}/{{id}}",
    "The API key is revoked.",
    status=204,
    errors=("api_token_not_found",),
    limited=True,
)
def revoke_api_token(call: Call, user: ThisUser, id: str) -> None:
    """Revoke one of the caller's API keys."""
    if not call.storage.tokens.revoke_api_key(user.id, id):
        raise ApiError("api_token_not_found", "you have no API key with this ID")


@owners_operation("listUserTokens", GET, _OF_USER)
def list_user_tokens(call: Call, user: NamedUser) -> Annotated[list[UserToken], "The tokens of a user."]:
    """List the tokens of a user that are not revoked, oldest first."""
    return [UserToken.of(each) for each in call.storage.tokens.of_user(user.id)]


@owners_operation("createUserToken", POST, _OF_USER)
def create_user_token(call: Call, user: NamedUser, body: UserTokenCreateRequest) -> NewUserToken:
    """Create an API key or a session for a user."""
    tokens = call.storage.tokens
    made, token = (
        tokens.create_session(user.id, body.description)
        if body.kind is TokenKind.SESSION
        else tokens.create_api_key(user.id, body.description, body.expires_at)
    )
    return NewUserToken(**asdict(UserToken.of(made)), token=token)


@owners_operation("revokeUserToken", DELETE, "/tokens/{id}")
def revoke_user_token(call: Call, id: str) -> None:
    """Revoke a token of any user and kind."""
    if not call.storage.tokens.revoke_named(id):
        raise ApiError("api_token_not_found", f"there is no token {id}, or it is revoked")
