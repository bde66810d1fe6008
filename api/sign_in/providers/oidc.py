"""OpenID Connect issuers: the ID token says who the person is, the user-info endpoint the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.sign_in.providers.discovery import Discovery
from api.sign_in.providers.id_token import Expected, KeyUnknown, verified_claims
from api.sign_in.providers.person import ProviderError, from_claims
from api.sign_in.providers.provider import About, AuthorizeStep, ProofMissing
from api.sign_in.providers.token_endpoint import TokenEndpoint

if TYPE_CHECKING:
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.discovery import Metadata
    from api.sign_in.providers.person import CodeExchange
    from api.sign_in.providers.settings import OidcSettings
    from api.sign_in.providers.token_endpoint import Tokens
    from storage import Clock, ProvenIdentity

_EMAIL = ("email", "email_verified")


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
