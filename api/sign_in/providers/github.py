"""GitHub: a code is exchanged, then two endpoints tell the user and the user's e-mail addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.sign_in.providers.person import from_github
from api.sign_in.providers.provider import About, AuthorizeStep
from api.sign_in.providers.token_endpoint import TokenEndpoint

if TYPE_CHECKING:
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.person import CodeExchange
    from api.sign_in.providers.settings import GithubSettings
    from storage import ProvenIdentity


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
