"""Log tokens: signed, not stored, valid for the logs of one build for one hour."""

from __future__ import annotations

from dataclasses import astuple
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from api.signing import Signer
    from storage import Clock

_PURPOSE = "log-token"
_LIFETIME = timedelta(hours=1)


@immutable
class LogGrant:
    """The build whose logs a token opens, and the user it was issued to; both are UUIDs."""

    build: str
    user: str


class LogTokens:
    """Makes and reads log tokens. Safe in any thread."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock

    def issue(self, grant: LogGrant) -> tuple[str, datetime]:
        """Return a token and the time at which it expires."""
        expires_at = (self._clock.now() + _LIFETIME).replace(microsecond=0)
        return self._signer.sign(_PURPOSE, [*astuple(grant), int(expires_at.timestamp())]), expires_at

    def open(self, token: str) -> LogGrant | None:
        """Return a token's grant; None if the token is invalid or expired."""
        opened = self._signer.open(_PURPOSE, token)
        if opened is None:
            return None
        build, user, expires_at = opened
        return LogGrant(build, user) if self._clock.now().timestamp() < expires_at else None
