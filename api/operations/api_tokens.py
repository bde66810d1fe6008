"""API keys of the caller; and tokens of all users, for the owner of the host."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime  # noqa: TC003 - the annotations of bodies are read
from typing import TYPE_CHECKING, Annotated, Self

from api.errors.catalog import ApiError
from api.operations.operation import (
    ACCOUNT,
    DELETE,
    GET,
    POST,
    SIGNED_IN,
    Call,
    Whole,
    done,
    operation,
    owners_operation,
    shown_once,
)
from api.operations.things import (
    NAMED_USER,
    USER,
    NamedUser,
    ThisUser,
    member_organization,
    member_pipeline,
)
from storage import Scope, Token, TokenKind, TokenLimits, User, described, example, immutable

if TYPE_CHECKING:
    from api.fields import Budget, Moment, RequiredLongText, Scopes, TokenPlace
    from storage import Storage

_API_TOKENS = f"{USER}/api-tokens"
_OF_USER = f"{NAMED_USER}/tokens"


@immutable
class ApiToken:
    """A personal API key, without the key itself.

    Without ``scopes`` it has all. ``only`` is the organization, or the pipeline as ``acme/web``, that it is for.
    With ``budget_cents`` its builds and forks cost at most so much; ``spent_cents`` is what they have cost, 0 without.
    """

    uuid: str
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    scopes: tuple[Scope, ...] | None = example((Scope.START,))
    only: str | None = example("acme/web")
    budget_cents: int | None = example(1000)
    spent_cents: int = example(0)

    @classmethod
    def of(cls, storage: Storage, token: Token) -> Self:
        """Return the record of a stored key."""
        return cls(
            token.uuid,
            token.description,
            token.created_at,
            token.expires_at,
            token.last_used_at,
            None if token.limits.scopes is None else tuple(map(Scope, token.limits.scopes)),
            _only(storage, token.limits),
            token.limits.budget_cents,
            token.spent_cents,
        )


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
    scopes: Scopes | None = described("What it may do; by default all that its owner may.", default=None)
    only: TokenPlace | None = described("The organization or pipeline (acme/web) that it is for.", default=None)
    budget_cents: Budget | None = described("The most cents that what it starts may cost in all.", default=None)


@immutable
class UserToken:
    """A token of any kind, without its value."""

    uuid: str
    kind: TokenKind
    description: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    scopes: tuple[Scope, ...] | None
    only: str | None
    budget_cents: int | None
    spent_cents: int

    @classmethod
    def of(cls, storage: Storage, token: Token) -> Self:
        """Return the record of a stored token."""
        key = ApiToken.of(storage, token)
        return cls(kind=token.kind, **asdict(key))


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
    scopes: tuple[Scope, ...] | None = None
    only: str | None = None
    budget_cents: int | None = None


ApiTokenList = Annotated[list[ApiToken], Whole("The caller's API keys.", "ApiTokenListResponse", "api_tokens")]


@operation("listApiTokens", GET, _API_TOKENS, "The API keys.", callers=ACCOUNT)
def list_api_tokens(call: Call, user: ThisUser) -> ApiTokenList:
    """List the caller's API keys that are not revoked, newest first."""
    return [ApiToken.of(call.storage, each) for each in call.storage.tokens.api_keys(user.id)]


@operation(
    "createApiToken",
    POST,
    _API_TOKENS,
    shown_once("The API key, shown only now, and its record.", status=201),
    errors=("organization_not_found", "pipeline_not_found"),
    callers=SIGNED_IN,
)
def create_api_token(call: Call, user: ThisUser, body: ApiTokenCreateRequest) -> ApiTokenCreateResponse:
    """Create an API key; needs a session token."""
    return new_key(call, user, body, limits_of(call, body))


def new_key(call: Call, user: User, body: ApiTokenCreateRequest, limits: TokenLimits) -> ApiTokenCreateResponse:
    """Make an API key of a user. Raises ApiError if it would have ended already."""
    if body.expires_at is not None and body.expires_at <= call.clock.now():
        raise ApiError("invalid_body", "expires_at: expected a time in the future")
    key, token = call.storage.tokens.create_api_key(user.id, body.description, body.expires_at, limits)
    return ApiTokenCreateResponse(ApiToken.of(call.storage, key), token)


def limits_of(call: Call, body: ApiTokenCreateRequest | UserTokenCreateRequest) -> TokenLimits:
    """Return the limits that a caller asks for. Raises ApiError if the one place is not there.

    A key with a budget may not have the scope ``admin``: with schedules, pushes and keys it would spend beside it.
    """
    scopes, budget = body.scopes, body.budget_cents
    if budget is not None and (scopes is None or Scope.ADMIN in scopes):
        raise ApiError("invalid_body", "budget_cents: expected scopes without admin, such as start and fork")
    allowed = None if scopes is None else tuple(each for each in Scope if each in set(scopes))
    if body.only is None:
        return TokenLimits(allowed, budget_cents=budget)
    org, _, pipeline = body.only.partition("/")
    organization, _ = member_organization(call.storage, call.caller, org)
    place = None if not pipeline else member_pipeline(call.storage, organization.id, pipeline).id
    return TokenLimits(allowed, organization.id, place, budget)


def _only(storage: Storage, limits: TokenLimits) -> str | None:
    """Return the name of what a token is for, as it is now; None if it is for all."""
    organization = None if limits.organization_id is None else storage.organizations.by_id(limits.organization_id)
    pipeline = None if limits.pipeline_id is None else storage.pipelines.by_id(limits.pipeline_id)
    return "/".join(each.slug for each in (organization, pipeline) if each is not None) or None


@operation(
    "revokeApiToken",
    DELETE,
    f"{_API_TOKENS}/{{id}}",
    done("The API key is revoked."),
    errors=("api_token_not_found",),
    callers=ACCOUNT,
)
def revoke_api_token(call: Call, user: ThisUser, id: str) -> None:
    """Revoke one of the caller's API keys."""
    if not call.storage.tokens.revoke_api_key(user.id, id):
        raise ApiError("api_token_not_found", "you have no API key with this ID")


@owners_operation("listUserTokens", GET, _OF_USER)
def list_user_tokens(call: Call, user: NamedUser) -> Annotated[list[UserToken], "The tokens of a user."]:
    """List the tokens of a user that are not revoked, oldest first."""
    return [UserToken.of(call.storage, each) for each in call.storage.tokens.of_user(user.id)]


@owners_operation("createUserToken", POST, _OF_USER)
def create_user_token(call: Call, user: NamedUser, body: UserTokenCreateRequest) -> NewUserToken:
    """Create an API key or a session for a user."""
    tokens = call.storage.tokens
    made, token = (
        tokens.create_session(user.id, body.description)
        if body.kind is TokenKind.SESSION
        else tokens.create_api_key(user.id, body.description, body.expires_at, limits_of(call, body))
    )
    return NewUserToken(**asdict(UserToken.of(call.storage, made)), token=token)


@owners_operation("revokeUserToken", DELETE, "/tokens/{id}")
def revoke_user_token(call: Call, id: str) -> None:
    """Revoke a token of any user and kind."""
    if not call.storage.tokens.revoke_named(id):
        raise ApiError("api_token_not_found", f"there is no token {id}, or it is revoked")
