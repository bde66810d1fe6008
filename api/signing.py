"""Signed texts that the service recognizes without storing them: cursors and log tokens."""

from __future__ import annotations

import hashlib
from dataclasses import astuple
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from itsdangerous import BadData, URLSafeSerializer

from storage import immutable

if TYPE_CHECKING:
    from storage import Clock

_SIGNING = {"key_derivation": "hmac", "digest_method": hashlib.sha256}

_PURPOSE = "log-token"
_LIFETIME = timedelta(hours=1)


class Signer:
    """Turns JSON values into opaque URL-safe text and back, accepting only text that it made itself.

    Every ``purpose`` has a key of its own, so a text for one is invalid for another. The values are signed, not
    encrypted.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, value: Any) -> str:  # noqa: ANN401 - any JSON
        """Return the signed text of a value that JSON can express."""
        return self._serializer(purpose).dumps(value)

    def open(self, purpose: str, text: str) -> Any | None:  # noqa: ANN401 - any JSON
        """Return the value of a text made by `sign` for the same purpose, else None."""
        serializer = self._serializer(purpose)
        try:
            value = serializer.loads(text)
        except BadData:
            return None
        # Base64 has several spellings of the same bytes, and itsdangerous accepts them all.
        return value if serializer.dumps(value) == text else None

    def _serializer(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(self._key, salt=purpose.encode(), signer_kwargs=_SIGNING)


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
