"""Google, GitHub and issuers of OpenID Connect: discovery, token endpoints and ID tokens."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote_plus

import httpx
from authlib.oauth2 import OAuth2Error
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from authlib.oidc.discovery import get_well_known_url
from joserfc import jwt
from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet, import_key
from pydantic import ValidationError

from api.sign_in.providers.provider import (
    About,
    AuthorizeStep,
    ProofMissing,
    ProviderError,
    from_claims,
    from_github,
    is_loopback_url,
    is_secure_url,
)
from storage import JsonModel, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from actors import Deadline
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.provider import CodeExchange
    from api.sign_in.providers.settings import GithubSettings, GoogleSettings, OidcSettings
    from storage import Clock, ProvenIdentity


ClientAuth = Literal["basic", "post"]

_WORD = re.compile(r"[a-z0-9_]{1,60}", re.ASCII)
_BEARER = re.compile(r"[!-~]{1,16384}", re.ASCII)

_ASYMMETRIC = {"RSA", "EC", "OKP"}
_LEEWAY_SECONDS = 60
_KEPT_SECONDS = 3600
_AGAIN_SECONDS = 10
"""Time between two requests for a document.

It counts after a failure, and when a token names a key that is not in the document.
"""

_EMAIL = ("email", "email_verified")


class _WrongClientAuth(ProviderError):
    """The provider does not know the client, or not by this method."""


@immutable
class Tokens:
    """An access token and, of OpenID Connect, an ID token that is not verified yet."""

    access_token: str
    id_token: str | None


@immutable
class TokenEndpoint:
    """A provider's token endpoint, and this service's credentials there.

    They are sent by the first of the ``methods``, and if that is not the one that the client is registered for, by the
    next: as fields of the form, or in the header.
    """

    url: str
    client_id: str
    client_secret: str
    methods: tuple[ClientAuth, ...] = ("post",)

    def exchange(self, connection: ProviderConnection, exchange: CodeExchange) -> Tokens:
        """Exchange a code. Raises ProviderError."""
        *others, last = self.methods
        for method in others:
            try:
                return self._exchange(connection, exchange, method)
            except _WrongClientAuth:
                continue
        return self._exchange(connection, exchange, last)

    def _exchange(self, connection: ProviderConnection, exchange: CodeExchange, method: ClientAuth) -> Tokens:
        form = {"code": exchange.code, "redirect_uri": exchange.redirect_uri}
        if exchange.code_verifier is not None:
            form["code_verifier"] = exchange.code_verifier
        if method == "basic":
            auth: object = httpx.BasicAuth(quote_plus(self.client_id), quote_plus(self.client_secret))
        else:
            form |= {"client_id": self.client_id, "client_secret": self.client_secret}
            auth = httpx.USE_CLIENT_DEFAULT
        client = OAuth2Client(connection.session)
        try:
            answered = client.fetch_token(self.url, grant_type="authorization_code", auth=auth, **form)
        except OAuth2Error as error:
            kind = _WrongClientAuth if error.error == "invalid_client" else ProviderError
            raise kind(f"the provider refuses the code: {_word(error.error)}") from None
        except (httpx.HTTPStatusError, ValueError, TypeError, OverflowError, RecursionError):
            raise ProviderError("the provider's answer to the code is no token") from None
        access_token, token_type = answered.get("access_token"), answered.get("token_type")
        if not isinstance(access_token, str) or not _BEARER.fullmatch(access_token):
            raise ProviderError("the provider's answer to the code has no access token")
        if not isinstance(token_type, str) or token_type.lower() != "bearer":
            raise ProviderError("the provider's answer to the code is no bearer token")
        id_token = answered.get("id_token")
        return Tokens(access_token, id_token if isinstance(id_token, str) else None)


def _word(told: object) -> str:
    """Return a provider's error code; what it may say beside that is not repeated."""
    return told if isinstance(told, str) and _WORD.fullmatch(told) else "for a reason that it does not name"


ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
"""Signatures that only the issuer can make; with HS256, everybody who knows the client secret could."""


class KeyUnknown(ProviderError):
    """None of the keys made the signature; the issuer may have newer ones."""


@immutable
class Expected:
    """The values that an ID token must have."""

    issuer: str
    client_id: str
    nonce: str
    access_token: str
    algorithms: Collection[str]


def key_set(document: dict[str, Any]) -> KeySet:
    """Return the public keys of a JWKS document, without those that cannot be read.

    Raises ProviderError if none is left.
    """
    told = document.get("keys")
    keys = []
    for each in told if isinstance(told, list) else ():
        if isinstance(each, dict) and each.get("kty") in _ASYMMETRIC and each.get("use", "sig") == "sig":
            try:
                keys.append(import_key(each))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    if not keys:
        raise ProviderError("the issuer publishes no key for signatures")
    return KeySet(keys)


def verified_claims(id_token: str, keys: KeySet, expected: Expected, now: int) -> dict[str, Any]:
    """Return the claims of an ID token. Raises KeyUnknown or ProviderError."""
    algorithms = sorted(ALGORITHMS & set(expected.algorithms))
    if not algorithms:  # joserfc would take its own defaults
        raise ProviderError("the issuer announces no signature that only it can make")
    try:
        token = jwt.decode(id_token, keys, algorithms=algorithms)
        options = {
            "iss": {"essential": True, "value": expected.issuer},
            "aud": {"essential": True, "value": expected.client_id},
        }
        params = {"client_id": expected.client_id, "nonce": expected.nonce, "access_token": expected.access_token}
        claims = CodeIDToken(token.claims, token.header, options, params)
        claims.validate(now=now, leeway=_LEEWAY_SECONDS)
    except (InvalidKeyIdError, BadSignatureError) as error:
        raise KeyUnknown(f"the ID token is signed with an unknown key: {error.error}") from None
    except JoseError as error:
        raise ProviderError(f"the ID token is not valid: {_short(error)}") from None
    except (ValueError, TypeError, RecursionError):
        raise ProviderError("the ID token is malformed") from None
    return dict(claims)


def _short(error: JoseError) -> str:
    return str(error).splitlines()[0][:100]


T = TypeVar("T")


class Metadata(JsonModel):
    """The discovery document of an issuer, as far as it is needed."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    id_token_signing_alg_values_supported: list[str]
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None

    @property
    def pkce(self) -> bool:
        """True if the issuer binds codes to a verifier."""
        return "S256" in (self.code_challenge_methods_supported or ())

    @property
    def client_auth(self) -> tuple[ClientAuth, ...]:
        """The ways in which the issuer takes client credentials; in the header, unless it says otherwise."""
        told = self.token_endpoint_auth_methods_supported
        methods: dict[str, ClientAuth] = {"client_secret_basic": "basic", "client_secret_post": "post"}
        return tuple(method for name, method in methods.items() if told is None or name in told) or ("basic",)


class Discovery:
    """One issuer's documents. Safe in any thread."""

    def __init__(self, issuer: str, clock: Clock) -> None:
        self._issuer = issuer
        self._metadata = _Kept[Metadata](clock)
        self._keys = _Kept["KeySet"](clock)

    def metadata(self, connection: ProviderConnection) -> Metadata:
        """Return the discovery document. Raises ProviderError."""
        return self._metadata.get(lambda: self._fetch_metadata(connection), connection.deadline)

    def keys(self, connection: ProviderConnection, *, newer: bool = False) -> KeySet:
        """Return the issuer's keys, fetched anew if ``newer`` and not just fetched. Raises ProviderError."""
        uri = self.metadata(connection).jwks_uri
        return self._keys.get(lambda: key_set(connection.get_object(uri)), connection.deadline, newer=newer)

    def _fetch_metadata(self, connection: ProviderConnection) -> Metadata:
        url = get_well_known_url(self._issuer, external=True)
        try:
            metadata = Metadata.model_validate(connection.get_object(url), strict=True)
        except ValidationError as error:
            where = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
            raise ProviderError(f"{url} is no discovery document: {where} is missing or wrong") from None
        if metadata.issuer != self._issuer:
            raise ProviderError(f"{url} is the discovery document of another issuer")
        self._check_endpoints(metadata)
        return metadata

    def _check_endpoints(self, metadata: Metadata) -> None:
        """Raise ProviderError if a secret would go over the network in the clear."""
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
            url = getattr(metadata, name)
            local = is_loopback_url(self._issuer)
            if url is not None and not (is_secure_url(url) and (local or not is_loopback_url(url))):
                raise ProviderError(f"the issuer's {name} is no https:// URL")


class _Kept(Generic[T]):
    """A document that is fetched when it is needed, by one thread, and then kept for an hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._failure = ""
        self._fetched_at = float("-inf")

    def get(self, fetch: Callable[[], T], deadline: Deadline, *, newer: bool = False) -> T:
        """Return the document. Raises ProviderError, also for a while after it could not be fetched."""
        with self._locked(deadline):
            age = self._clock.monotonic() - self._fetched_at
            if age < (_AGAIN_SECONDS if newer or self._value is None else _KEPT_SECONDS):
                if self._value is None:
                    raise ProviderError(self._failure)
                return self._value
            self._value = None
            try:
                self._value = fetch()
            except ProviderError as error:
                self._failure = str(error)
                raise
            finally:
                self._fetched_at = self._clock.monotonic()
            return self._value

    @contextmanager
    def _locked(self, deadline: Deadline) -> Generator[None]:
        if not self._lock.acquire(timeout=deadline.left()):
            raise ProviderError("another sign-in still waits for the provider")
        try:
            yield
        finally:
            self._lock.release()


class Oidc:
    """Signing in with one issuer. Safe in any thread.

    Identities are kept under the issuer's URL: another issuer in a section of the same name is another provider.
    """

    def __init__(self, name: str, settings: OidcSettings, clock: Clock) -> None:
        self.about = About("oidc", name, settings.title or name, settings.client_id, settings.scopes, nonce=True)
        self._settings = settings
        self._clock = clock
        self._discovery = Discovery(settings.issuer, clock)

    def authorize_step(self, connection: ProviderConnection) -> AuthorizeStep:
        """Return how a person gets to the issuer. Raises ProviderError."""
        metadata = self._discovery.metadata(connection)
        return AuthorizeStep(metadata.authorization_endpoint, metadata.pkce, metadata.issuer)

    def identify(self, connection: ProviderConnection, exchange: CodeExchange) -> ProvenIdentity:
        """Return the person. Raises ProviderError, and ProofMissing without a nonce or a verifier that is due."""
        if not exchange.nonce:
            raise ProofMissing("nonce")
        metadata = self._discovery.metadata(connection)
        if metadata.pkce and exchange.code_verifier is None:
            raise ProofMissing("code_verifier")
        settings = self._settings
        credentials = settings.client_id, settings.client_secret
        endpoint = TokenEndpoint(metadata.token_endpoint, *credentials, metadata.client_auth)
        tokens = endpoint.exchange(connection, exchange)
        claims = self._claims(connection, metadata, tokens, exchange.nonce)
        if metadata.userinfo_endpoint is not None:
            told = connection.get_object(metadata.userinfo_endpoint, tokens.access_token)
            if told.get("sub") != claims["sub"]:
                raise ProviderError("the user-info endpoint tells of somebody else than the ID token")
            claims = _merged(claims, told)
        return from_claims(settings.issuer, claims)

    def _claims(self, connection: ProviderConnection, metadata: Metadata, tokens: Tokens, nonce: str) -> dict[str, Any]:
        if tokens.id_token is None:
            raise ProviderError("the provider's answer to the code has no ID token")
        algorithms = metadata.id_token_signing_alg_values_supported
        settings = self._settings
        expected = Expected(settings.issuer, settings.client_id, nonce, tokens.access_token, algorithms)
        now = int(self._clock.now().timestamp())
        try:
            return verified_claims(tokens.id_token, self._discovery.keys(connection), expected, now)
        except KeyUnknown:
            return verified_claims(tokens.id_token, self._discovery.keys(connection, newer=True), expected, now)


def _merged(claims: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Return the claims with those of user-info.

    The address and its verification come together, from one source: user-info, or else the token. The token counts if
    user-info has no address, or the token's without saying whether it is verified, as with Forgejo and Gitea.
    """
    silent = "email_verified" not in told and told.get("email") == claims.get("email")
    if "email" not in told or silent:
        told = {key: value for key, value in told.items() if key not in _EMAIL}
    else:
        claims = {key: value for key, value in claims.items() if key not in _EMAIL}
    return claims | told


class Github:
    """Signing in with GitHub. Safe in any thread."""

    def __init__(self, settings: GithubSettings) -> None:
        self.about = About("github", "github", "GitHub", settings.client_id, ("read:user", "user:email"))
        self._settings = settings
        self._tokens = TokenEndpoint(settings.token_url, settings.client_id, settings.client_secret)

    def authorize_step(self, connection: ProviderConnection) -> AuthorizeStep:
        """Return how a person gets to the provider."""
        return AuthorizeStep(self._settings.authorize_url, pkce=True)

    def identify(self, connection: ProviderConnection, exchange: CodeExchange) -> ProvenIdentity:
        """Return the person. Raises ProviderError."""
        tokens = self._tokens.exchange(connection, exchange)
        user = connection.get_object(self._settings.userinfo_url, tokens.access_token)
        return from_github(user, connection.get_json(self._settings.emails_url, tokens.access_token))


class Google:
    """Signing in with Google. Safe in any thread."""

    def __init__(self, settings: GoogleSettings) -> None:
        self.about = About("google", "google", "Google", settings.client_id, ("openid", "email", "profile"))
        self._settings = settings
        self._tokens = TokenEndpoint(settings.token_url, settings.client_id, settings.client_secret)

    def authorize_step(self, connection: ProviderConnection) -> AuthorizeStep:
        """Return how a person gets to the provider."""
        return AuthorizeStep(self._settings.authorize_url, pkce=True)

    def identify(self, connection: ProviderConnection, exchange: CodeExchange) -> ProvenIdentity:
        """Return the person. Raises ProviderError."""
        tokens = self._tokens.exchange(connection, exchange)
        return from_claims(self.about.name, connection.get_object(self._settings.userinfo_url, tokens.access_token))
