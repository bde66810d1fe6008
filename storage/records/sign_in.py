"""Passkeys and their challenges, and identities at identity providers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


@immutable
class NewPasskey:
    """A passkey as an authenticator made it; ``aaguid`` names the model of the authenticator."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    transports: tuple[str, ...]


@immutable
class Passkey:
    """A passkey of an account; ``handle`` is what the account is called in its passkeys."""

    id: int
    uuid: str
    user_id: int
    handle: bytes
    credential_id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    transports: tuple[str, ...]
    nickname: str
    created_at: datetime
    last_used_at: datetime | None


class PasskeyPurpose(StrEnum):
    """The purposes of a challenge; an answer to one for another purpose is refused."""

    SIGN_UP = "sign_up"
    SIGN_IN = "sign_in"
    REGISTRATION = "registration"
    RECOVERY = "recovery"


@immutable
class PasskeyChallenge:
    """A challenge to an authenticator; ``handle`` is that of the account which gets a passkey."""

    id: int
    uuid: str
    purpose: PasskeyPurpose
    challenge: bytes
    handle: bytes | None
    expires_at: datetime


@immutable
class ProvenIdentity:
    """A person who signed in at an identity provider, as the provider says.

    ``provider`` is the provider's own name, an issuer's URL; ``subject`` is its name for the person, which never goes
    to another one. ``email`` is empty if the provider tells none, and proves nothing unless it is ``verified``.
    """

    provider: str
    subject: str
    email: str
    verified: bool
    name: str


@immutable
class Identity:
    """A user's identity at a provider; ``email`` is the address that the provider told last."""

    id: int
    uuid: str
    user_id: int
    provider: str
    subject: str
    email: str
    created_at: datetime
    last_used_at: datetime
