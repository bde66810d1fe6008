"""Signed texts that the service recognizes without storing them: cursors and log tokens."""

from __future__ import annotations

import hashlib
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

_SIGNING = {"key_derivation": "hmac", "digest_method": hashlib.sha256}


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
