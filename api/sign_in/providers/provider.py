"""The interface of every identity provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from api.sign_in.providers.bounded_http import ProviderConnection
    from api.sign_in.providers.person import CodeExchange
    from storage import ProvenIdentity


class ProofMissing(Exception):
    """The page must send ``field`` too, because the provider supports it."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


@immutable
class About:
    """A provider as the configuration has it.

    ``name`` is unique among those of a ``kind``; ``title`` is for people. With ``nonce``, the page sends one at the
    authorize step and with the code.
    """

    kind: str
    name: str
    title: str
    client_id: str
    scopes: tuple[str, ...]
    nonce: bool = False


@immutable
class AuthorizeStep:
    """The page of a provider to which people are sent, with a code challenge (RFC 7636) if ``pkce``.

    If there is an ``issuer``, people who come back with a name of the issuer must have this one (RFC 9207).
    """

    url: str
    pkce: bool
    issuer: str | None = None


class Provider(Protocol):
    """An identity provider. Safe in any thread."""

    @property
    def about(self) -> About:
        """The provider as the configuration has it."""

    def authorize_step(self, connection: ProviderConnection) -> AuthorizeStep:
        """Return how a person gets to the provider. Raises ProviderError."""

    def identify(self, connection: ProviderConnection, exchange: CodeExchange) -> ProvenIdentity:
        """Return the person whose code this is. Raises ProviderError or ProofMissing."""
