"""An issuer's discovery document and keys, kept for an hour (OpenID Connect Discovery 1.0)."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from authlib.oidc.discovery import get_well_known_url
from pydantic import ValidationError

from api.sign_in.providers.id_token import key_set
from api.sign_in.providers.person import ProviderError
from api.sign_in.providers.urls import is_loopback_url, is_secure_url
from storage import JsonModel

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from joserfc.jwk import KeySet

    from actors import Deadline
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.token_endpoint import ClientAuth
    from storage import Clock

T = TypeVar("T")

_KEPT_SECONDS = 3600
_AGAIN_SECONDS = 10
"""Time between two requests for a document.

It counts after a failure, and when a token names a key that is not in the document.
"""


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
