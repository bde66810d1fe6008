"""Passkeys, and the challenges that authenticators sign."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["NewPasskey", "Passkey", "PasskeyChallenge", "PasskeyPurpose"]


@dataclass(frozen=True, slots=True)
class NewPasskey:
    """A passkey as an authenticator made it; ``aaguid`` names the model of the authenticator."""

    credential_id: bytes
    public_key: bytes
    sign_count: int
    aaguid: str
    transports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class PasskeyChallenge:
    """A challenge to an authenticator; ``handle`` is that of the account which gets a passkey."""

    id: int
    uuid: str
    purpose: PasskeyPurpose
    challenge: bytes
    handle: bytes | None
    expires_at: datetime
