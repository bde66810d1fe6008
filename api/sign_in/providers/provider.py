"""Identity providers: what each is asked, and the person that it proves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from storage import EmailInvalid, ProvenIdentity, email_address, immutable, pattern

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from api.sign_in.providers.bounded_http import ProviderConnection

_SUBJECT = pattern(r"[ -~]{1,255}", re.ASCII)
_UNPRINTABLE = pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_NAME = 255
_PLAIN = pattern(r"https?://[!-~]+", re.ASCII | re.IGNORECASE)
_NEVER = pattern(r"[\\\"<>^`{|}@]")
"""Characters that parsers disagree about; "@" would put a name before the host."""

_HOST = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)


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


class ProviderError(Exception):
    """The provider refused, is away, or answers what it must not. The message names no secret."""


@immutable
class CodeExchange:
    """The findings of a page to which the provider sent a person back.

    ``redirect_uri`` is that of the authorize step, for which the page made ``code_verifier`` and ``nonce``.
    """

    code: str
    redirect_uri: str
    code_verifier: str | None = None
    nonce: str | None = None


def from_claims(provider: str, claims: Mapping[str, object]) -> ProvenIdentity:
    """Return a person from OpenID Connect's claims. Raises ProviderError without a subject.

    Some providers write ``email_verified`` as a string.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str):
        raise ProviderError("the provider names no subject")
    verified = claims.get("email_verified")
    return _person(provider, subject, claims.get("email"), claims.get("name"), verified is True or verified == "true")


def from_github(user: Mapping[str, object], emails: object) -> ProvenIdentity:
    """Return a person from GitHub's user and the user's e-mail addresses.

    The primary address is taken if it is verified, else another. The address in the profile proves nothing. Raises
    ProviderError without an ID.
    """
    subject = user.get("id")
    if type(subject) is not int or subject <= 0:  # exactly: a bool is an int too
        raise ProviderError("GitHub names no user")
    told = [each for each in emails if isinstance(each, Mapping)] if isinstance(emails, list) else []
    verified = [each for each in told if each.get("verified") is True]
    chosen = min(verified, key=lambda each: each.get("primary") is not True, default={})
    return _person("github", str(subject), chosen.get("email"), user.get("name"), verified=True)


def _person(provider: str, subject: str, email: object, name: object, verified: bool) -> ProvenIdentity:  # noqa: FBT001 - as the provider says
    if not _SUBJECT.fullmatch(subject):
        raise ProviderError("the provider names a subject that is empty, too long or not ASCII")
    address = _address(email)
    return ProvenIdentity(provider, subject, address, verified=verified and address != "", name=_name(name))


def _address(told: object) -> str:
    try:
        return email_address(told) if isinstance(told, str) else ""
    except EmailInvalid:
        return ""


def _name(told: object) -> str:
    return _UNPRINTABLE.sub(" ", told).strip()[:_LONGEST_NAME].strip() if isinstance(told, str) else ""


def is_secure_url(text: str) -> bool:
    """Tell whether a URL may be sent a secret: https, or http on this host's own loopback."""
    parts = _parts(text)
    return parts is not None and (parts.scheme == "https" or _is_loopback(parts))


def is_loopback_url(text: str) -> bool:
    """Tell whether a URL names this host's own loopback."""
    parts = _parts(text)
    return parts is not None and _is_loopback(parts)


def _parts(text: str) -> SplitResult | None:
    """Return the parts of an http or https URL; None for others, and where parsers may disagree."""
    if not _PLAIN.fullmatch(text) or _NEVER.search(text):
        return None
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    host = parts.hostname or ""
    if port == 0 or not (_HOST.fullmatch(host) or _is_address(host)):
        return None
    return parts


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
