"""Google: a code is exchanged, then the user-info endpoint says who the person is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.sign_in.providers.person import from_claims
from api.sign_in.providers.provider import About, AuthorizeStep
from api.sign_in.providers.token_endpoint import TokenEndpoint

if TYPE_CHECKING:
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.person import CodeExchange
    from api.sign_in.providers.settings import GoogleSettings
    from storage import ProvenIdentity


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
