"""Sign-in with identity providers (wire-decisions.md, "Sign-in").

The page sends the person to the provider and keeps ``state``; the provider sends the person back to the page with a
code; the page sends that here, with the ``redirect_uri`` of the authorize step: the provider knows which are this
service's. The page must compare ``state`` before, so that nobody signs in as somebody else unawares.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

from api.errors.catalog import ApiError
from api.operations.operation import ANYBODY, GET, POST, VISITORS, Call, Whole, operation, shown_once
from api.operations.things import AUTH
from api.sign_in.answers import AuthTokenResponse
from api.sign_in.providers.provider import CodeExchange, ProviderError
from storage import example, immutable

if TYPE_CHECKING:
    from api.fields import CodeVerifier, OAuthCode, OwnerToken, ProviderKind, ProviderNonce, RedirectUri
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.provider import Provider

_log = logging.getLogger(__name__)

_V2 = "/api/v2/auth"
_ERRORS = ("rate_limited", "signup_closed", "oauth_provider_error", "oauth_not_configured")
_SIGNED_IN = "The session and its user."


@immutable
class AuthGoogleRequest:
    """The body of ``POST /api/v0/auth/google``.

    ``code_verifier`` belongs to the code challenge of the authorize step, if there was one.
    """

    code: OAuthCode
    redirect_uri: RedirectUri
    code_verifier: CodeVerifier | None = None
    owner_token: OwnerToken | None = None


@immutable
class AuthGithubRequest(AuthGoogleRequest):
    """The body of ``POST /api/v0/auth/github``.

    ``code_verifier`` belongs to the code challenge of the authorize step, if there was one.
    """


@immutable
class AuthOidcRequest:
    """The body of ``POST /api/v0/auth/oidc/{provider}``.

    ``code_verifier`` must be there if the list of providers says ``pkce``.
    """

    code: OAuthCode
    redirect_uri: RedirectUri
    nonce: ProviderNonce
    code_verifier: CodeVerifier | None = None
    owner_token: OwnerToken | None = None


@immutable
class AuthProviderRecord:
    """A way to sign in: what a page needs to send a person to a provider, and where to send the code.

    ``kind`` is ``google``, ``github`` or ``oidc``. With ``pkce``, the page sends a code challenge (S256) on the
    authorize step and its verifier with the code; with ``nonce``, a nonce at both. ``authorize_url`` is null while the
    issuer cannot be reached.
    """

    name: str
    kind: ProviderKind
    title: str = example("Google")
    authorize_url: str | None = example("https://accounts.google.com/o/oauth2/v2/auth")
    client_id: str = example("1234567890-abc.apps.googleusercontent.com")
    scopes: tuple[str, ...] = example(["openid", "email", "profile"])
    pkce: bool
    nonce: bool
    path: str = example("/api/v0/auth/google")

    @classmethod
    def of(cls, provider: Provider, connection: ProviderConnection) -> AuthProviderRecord:
        """Return the record of a provider, which is asked where its authorize step is."""
        about, step = provider.about, None
        try:
            step = provider.authorize_step(connection)
        except ProviderError as error:
            _log.warning("nobody can sign in with %s: %s", about.title, error)
        return cls(
            name=about.name,
            kind=about.kind,
            title=about.title,
            authorize_url=None if step is None else step.url,
            client_id=about.client_id,
            scopes=tuple(about.scopes),
            pkce=step is not None and step.pkce,
            nonce=about.nonce,
            path=f"{AUTH}/oidc/{about.name}" if about.kind == "oidc" else f"{AUTH}/{about.name}",
        )


ProviderList = Annotated[
    list[AuthProviderRecord],
    Whole("The providers that the service is configured for.", "AuthProviderListResponse", "providers"),
]


@operation("listAuthProviders", GET, f"{AUTH}/providers", "The providers.", callers=ANYBODY)
def list_providers(call: Call) -> ProviderList:
    """List the identity providers that people may sign in with."""
    sign_in = call.later.provider_sign_in
    if not sign_in.providers.all:
        return []
    with sign_in.connection() as connection:
        return [AuthProviderRecord.of(each, connection) for each in sign_in.providers.all]


@operation("authGoogle", POST, f"{AUTH}/google", shown_once(_SIGNED_IN), errors=_ERRORS, callers=VISITORS)
def sign_in_with_google(call: Call, body: AuthGoogleRequest) -> AuthTokenResponse:
    """Sign in with a code from Google; who has no account gets one, if the service permits it."""
    return _signed_in(call, call.later.identities.google, "google", body)


@operation("authGoogleV2", POST, f"{_V2}/google", shown_once(_SIGNED_IN), errors=_ERRORS, callers=VISITORS)
def sign_in_with_google_v2(call: Call, body: AuthGoogleRequest) -> AuthTokenResponse:
    """Sign in with a code from Google, as in version 0."""
    return _signed_in(call, call.later.identities.google, "google", body)


@operation("authGithub", POST, f"{AUTH}/github", shown_once(_SIGNED_IN), errors=_ERRORS, callers=VISITORS)
def sign_in_with_github(call: Call, body: AuthGithubRequest) -> AuthTokenResponse:
    """Sign in with a code from GitHub; who has no account gets one, if the service permits it."""
    return _signed_in(call, call.later.identities.github, "github", body)


@operation("authOidc", POST, f"{AUTH}/oidc/{{provider}}", shown_once(_SIGNED_IN), errors=_ERRORS, callers=VISITORS)
def sign_in_with_oidc(call: Call, provider: str, body: AuthOidcRequest) -> AuthTokenResponse:
    """Sign in with a code from an OpenID Connect issuer.

    Who has no account gets one, if the service permits it.
    """
    return _signed_in(call, call.later.identities.oidc.get(provider), f"oidc.{provider}", body, body.nonce)


def _signed_in(
    call: Call,
    provider: Provider | None,
    section: str,
    body: AuthGoogleRequest | AuthOidcRequest,
    nonce: str | None = None,
) -> AuthTokenResponse:
    if provider is None:
        raise ApiError("oauth_not_configured", f"the configuration has no [identity.{section[:50]}]")
    exchange = CodeExchange(body.code, body.redirect_uri, body.code_verifier, nonce)
    user, token = call.later.provider_sign_in.finish(call.visitor, provider, exchange, body.owner_token)
    return AuthTokenResponse.of(token, user)
