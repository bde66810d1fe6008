"""Signing a person in with what an identity provider tells, for the API and for the pages."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.sign_in.providers.configured import TooManyAtOnce
from api.sign_in.providers.person import ProviderError
from api.sign_in.providers.provider import ProofMissing
from storage import EmailUnproven, SignUpClosed

if TYPE_CHECKING:
    from collections.abc import Generator

    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.configured import IdentityProviders
    from api.sign_in.providers.person import CodeExchange
    from api.sign_in.providers.provider import AuthorizeStep, Provider
    from api.sign_in.sessions import SessionStart
    from storage import SignUpPolicy, Storage, User

_log = logging.getLogger(__name__)


class ProviderSignIn:
    """Signs people in with codes of providers. Safe in any thread."""

    def __init__(
        self,
        storage: Storage,
        providers: IdentityProviders,
        policy: SignUpPolicy,
        sessions: SessionStart,
        limits: RateLimits,
    ) -> None:
        self._storage = storage
        self.providers = providers
        self._policy = policy
        self._sessions = sessions
        self._limits = limits

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
        self,
        req: falcon.Request,
        resp: falcon.Response,
        provider: Provider,
        exchange: CodeExchange,
        owner_token: str | None = None,
    ) -> tuple[User, str]:
        """Start a session of the person whose code this is; return the user and the token. Raises ApiError."""
        user = self._user(provider, exchange, owner_token)
        self._limits.limit_user(user, resp)
        return user, self._sessions.token(req, resp, user, provider.about.title)

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
