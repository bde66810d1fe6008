"""Sign-in with identity providers (wire-decisions.md, "Sign-in").

The page sends the person to the provider and keeps ``state``; the provider sends the person back to the page with a
code; the page sends that here. It must compare ``state`` before, so that nobody signs in as somebody else unawares.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StringConstraints

from api.bodies import answer, read_body
from api.errors.catalog import ApiError
from api.fields import RequestBody, Text
from api.openapi.operations import Answer, operation
from api.sign_in.answers import AuthTokenResponse, UserRecord
from api.sign_in.providers.provider import CodeExchange, ProviderError
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.provider import Provider
    from api.sign_in.providers.sign_in import ProviderSignIn

_log = logging.getLogger(__name__)

_ERRORS = ("rate_limited", "signup_closed", "oauth_provider_error", "oauth_not_configured")

_VISIBLE = "^[ -~]*[!-~][ -~]*$"
"""The characters of codes and nonces (RFC 6749, appendix A.11), which are not spaces alone."""

_Code = Annotated[str, StringConstraints(max_length=4096, pattern=_VISIBLE), Field(examples=["4/0AVMBsJhPq1Vt3kzQ"])]
_RedirectUri = Annotated[
    str,
    StringConstraints(max_length=2048, pattern="^[!-~]+$"),
    Field(examples=["https://ci.example.org/login/with/google/callback"]),
]
_Verifier = Annotated[
    str,
    StringConstraints(pattern="^[A-Za-z0-9._~-]{43,128}$"),
    Field(examples=["dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"]),
]
_Nonce = Annotated[str, StringConstraints(max_length=256, pattern=_VISIBLE), Field(examples=["n-0S6_WzA2Mj"])]
_OwnerToken = Annotated[Text, Field(examples=["kX2m8Qd0wYvN5s1rJ7tLb3cHf9gEaZ4iUoP6xTqRnMk"])]


class _CodeRequest(RequestBody):
    """``redirect_uri`` is that of the authorize step; the provider knows which are this service's.

    ``owner_token`` is that of the owner's first link.
    """

    code: _Code
    redirect_uri: _RedirectUri
    code_verifier: _Verifier | None = None
    owner_token: _OwnerToken | None = None


class AuthGoogleRequest(_CodeRequest):
    """The body of ``POST /api/v0/auth/google``.

    ``code_verifier`` belongs to the code challenge of the authorize step, if there was one.
    """


class AuthGithubRequest(_CodeRequest):
    """The body of ``POST /api/v0/auth/github``.

    ``code_verifier`` belongs to the code challenge of the authorize step, if there was one.
    """


class AuthOidcRequest(_CodeRequest):
    """The body of ``POST /api/v0/auth/oidc/{provider}``.

    ``code_verifier`` must be there if the list of providers says ``pkce``.
    """

    nonce: _Nonce


class AuthProviderRecord(JsonModel):
    """A way to sign in: what a page needs to send a person to a provider, and where to send the code.

    ``kind`` is ``google``, ``github`` or ``oidc``. With ``pkce``, the page sends a code challenge (S256) on the
    authorize step and its verifier with the code; with ``nonce``, a nonce at both. ``authorize_url`` is null while the
    issuer cannot be reached.
    """

    name: str
    kind: Annotated[str, Field(json_schema_extra={"enum": ["google", "github", "oidc"]})]
    title: Annotated[str, Field(examples=["Google"])]
    authorize_url: Annotated[str | None, Field(examples=["https://accounts.google.com/o/oauth2/v2/auth"])]
    client_id: Annotated[str, Field(examples=["1234567890-abc.apps.googleusercontent.com"])]
    scopes: Annotated[list[str], Field(examples=[["openid", "email", "profile"]])]
    pkce: bool
    nonce: bool
    path: Annotated[str, Field(examples=["/api/v0/auth/google"])]


class AuthProviderListResponse(JsonModel):
    """The providers that the service is configured for."""

    providers: list[AuthProviderRecord]


_SIGNED_IN = Answer(200, "The session and its user.", AuthTokenResponse)


class IdentityProvidersResource:
    """``/api/v0/auth/providers``, ``/api/v0/auth/google`` and the others."""

    def __init__(self, sign_in: ProviderSignIn, limits: RateLimits) -> None:
        self._signing_in = sign_in
        self._providers = sign_in.providers
        self._limits = limits

    @operation(
        "listAuthProviders",
        Answer(200, "The providers.", AuthProviderListResponse),
        security="public",
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the identity providers that people may sign in with."""
        records = []
        if self._providers.all:
            with self._signing_in.connection() as connection:
                records = [_record(each, connection) for each in self._providers.all]
        answer(resp, AuthProviderListResponse(providers=records))

    @operation("authGoogle", _SIGNED_IN, body=AuthGoogleRequest, errors=_ERRORS, security="public", counted=False)
    def on_post_google(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in with a code from Google; who has no account gets one, if the service permits it."""
        self._limits.limit_address(req, resp)
        self._sign_in(req, resp, self._providers.google, "google", read_body(req, AuthGoogleRequest))

    @operation("authGoogleV2", _SIGNED_IN, body=AuthGoogleRequest, errors=_ERRORS, security="public", counted=False)
    def on_post_google_v2(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in with a code from Google, as in version 0."""
        self._limits.limit_address(req, resp)
        self._sign_in(req, resp, self._providers.google, "google", read_body(req, AuthGoogleRequest))

    @operation("authGithub", _SIGNED_IN, body=AuthGithubRequest, errors=_ERRORS, security="public", counted=False)
    def on_post_github(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in with a code from GitHub; who has no account gets one, if the service permits it."""
        self._limits.limit_address(req, resp)
        self._sign_in(req, resp, self._providers.github, "github", read_body(req, AuthGithubRequest))

    @operation("authOidc", _SIGNED_IN, body=AuthOidcRequest, errors=_ERRORS, security="public", counted=False)
    def on_post_oidc(self, req: falcon.Request, resp: falcon.Response, provider: str) -> None:
        """Sign in with a code from an OpenID Connect issuer.

        Who has no account gets one, if the service permits it.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, AuthOidcRequest)
        self._sign_in(req, resp, self._providers.oidc.get(provider), f"oidc.{provider}", body, body.nonce)

    def _sign_in(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        provider: Provider | None,
        section: str,
        body: _CodeRequest,
        nonce: str | None = None,
    ) -> None:
        if provider is None:
            raise ApiError("oauth_not_configured", f"the configuration has no [identity.{section[:50]}]")
        exchange = CodeExchange(body.code, body.redirect_uri, body.code_verifier, nonce)
        user, token = self._signing_in.finish(req, resp, provider, exchange, body.owner_token)
        answer(resp, AuthTokenResponse(token=token, user=UserRecord.of(user)))


def _record(provider: Provider, connection: ProviderConnection) -> AuthProviderRecord:
    about, step = provider.about, None
    try:
        step = provider.authorize_step(connection)
    except ProviderError as error:
        _log.warning("nobody can sign in with %s: %s", about.title, error)
    return AuthProviderRecord(
        name=about.name,
        kind=about.kind,
        title=about.title,
        authorize_url=None if step is None else step.url,
        client_id=about.client_id,
        scopes=list(about.scopes),
        pkce=step is not None and step.pkce,
        nonce=about.nonce,
        path=f"/api/v0/auth/oidc/{about.name}" if about.kind == "oidc" else f"/api/v0/auth/{about.name}",
    )
