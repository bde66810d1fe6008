"""Signing in with a provider: the providers that are configured, and whose account it is."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.sign_in.providers.provider import ProofMissing, ProviderError
from storage import EmailUnproven, SignUpClosed

if TYPE_CHECKING:
    from collections.abc import Generator

    from api.sign_in.providers.bounded_http import ProviderConnection, ProviderHttp
    from api.sign_in.providers.provider import AuthorizeStep, CodeExchange, Provider
    from api.sign_in.settings import IdentitySettings
    from api.sign_in.visitor import Visitor
    from storage import Clock, SignUpPolicy, Storage, User


_MOST_AT_ONCE = 32

_log = logging.getLogger(__name__)


class TooManyAtOnce(Exception):
    """The most sign-ins that may wait for providers at once do so already."""


class IdentityProviders:
    """The providers, and the connections to them. Safe in any thread.

    The number of requests that wait for providers is bounded, so that a slow one leaves threads to others.
    """

    def __init__(self, settings: IdentitySettings, clock: Clock) -> None:
        self._settings = settings
        self._slots = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._names = {each.issuer: name for name, each in settings.oidc.items()}
        self.google, self.github, self.oidc = _opened(settings, clock)

    @property
    def all(self) -> list[Provider]:
        """All providers, in the order in which a page shows them."""
        return [each for each in (self.google, self.github, *self.oidc.values()) if each is not None]

    def name_of(self, provider: str) -> str:
        """Return a provider's name in the configuration; the URL of an issuer that is there no more."""
        return self._names.get(provider, provider)

    @contextmanager
    def connection(self) -> Generator[ProviderConnection]:
        """Open a connection to any of them. Raises TooManyAtOnce."""
        if not self._slots.acquire(blocking=False):
            raise TooManyAtOnce
        try:
            yield self._http.connection()
        finally:
            self._slots.release()

    @cached_property
    def _http(self) -> ProviderHttp:
        from api.sign_in.providers.bounded_http import ProviderHttp  # noqa: PLC0415 - as below

        settings = self._settings
        return ProviderHttp(settings.provider_timeout, settings.named_hosts, settings.allowed_networks)


def _opened(settings: IdentitySettings, clock: Clock) -> tuple[Provider | None, Provider | None, dict[str, Provider]]:
    """Return Google, GitHub and the issuers by name, as far as they are configured."""
    if not (settings.google.client_id or settings.github.client_id or settings.oidc):
        return None, None, {}
    from api.sign_in.providers.oidc import Github, Google, Oidc  # noqa: PLC0415 - 18 MB and 0.2 s for who has providers

    return (
        Google(settings.google) if settings.google.client_id else None,
        Github(settings.github) if settings.github.client_id else None,
        {name: Oidc(name, each, clock) for name, each in settings.oidc.items()},
    )


class ProviderSignIn:
    """Signs people in with codes of providers. Safe in any thread."""

    def __init__(
        self,
        storage: Storage,
        providers: IdentityProviders,
        policy: SignUpPolicy,
    ) -> None:
        self._storage = storage
        self.providers = providers
        self._policy = policy

    @contextmanager
    def connection(self) -> Generator[ProviderConnection]:
        """Open a connection to any provider. Raises ApiError ``busy``."""
        try:
            with self.providers.connection() as connection:
                yield connection
        except TooManyAtOnce:
            message = "too many sign-ins wait for identity providers; try again in 1 s"
            raise ApiError("busy", message, headers={"Retry-After": "1"}) from None

    def authorize_step(self, provider: Provider) -> AuthorizeStep:
        """Return how a person gets to a provider. Raises ApiError ``oauth_provider_error`` or ``busy``."""
        try:
            with self.connection() as connection:
                return provider.authorize_step(connection)
        except ProviderError as error:
            raise _failed(provider, error) from None

    def finish(
        self, visitor: Visitor, provider: Provider, exchange: CodeExchange, owner_token: str | None = None
    ) -> tuple[User, str]:
        """Start a session of the person whose code this is; return the user and the token. Raises ApiError."""
        user = self._user(provider, exchange, owner_token)
        visitor.limit_user(user)
        return user, visitor.begin_session(user, provider.about.title)

    def _user(self, provider: Provider, exchange: CodeExchange, owner_token: str | None) -> User:
        try:
            with self.connection() as connection:
                proven = provider.identify(connection, exchange)
            return self._storage.identities.sign_in(proven, self._policy, owner_token)
        except ProofMissing as error:
            raise ApiError("invalid_body", f"{error.field}: expected a value, because the provider checks it") from None
        except (ProviderError, EmailUnproven) as error:
            raise _failed(provider, error) from None
        except SignUpClosed as error:
            raise ApiError("signup_closed", str(error)) from None


def _failed(provider: Provider, error: Exception) -> ApiError:
    _log.warning("nobody was signed in with %s: %s", provider.about.title, error)
    return ApiError("oauth_provider_error", f"{provider.about.title}: {error}")
