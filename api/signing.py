"""Signed texts that the service recognizes without storing them: cursors and log tokens."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

__all__ = ["Signer"]

_MAC_BYTES = 16


class Signer:
    """Turns bytes into opaque URL-safe text and back, accepting only text that it made itself.

    Every ``purpose`` has a key of its own, so a text for one is invalid for another. The bytes are signed, not
    encrypted.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, purpose: str, payload: bytes) -> str:
        """Return the signed text of the payload."""
        return base64.urlsafe_b64encode(payload + self._mac(purpose, payload)).rstrip(b"=").decode()

    def open(self, purpose: str, text: str) -> bytes | None:
        """Return the payload of a text made by `sign` for the same purpose, else None."""
        try:
            signed = binascii.a2b_base64(
                text.translate(_TO_STANDARD).encode("ascii") + b"=" * (-len(text) % 4), strict_mode=True
            )
        except ValueError:
            return None
        # The text is compared, not its bytes: otherwise the unused bits of its last character could be changed.
        payload = signed[:-_MAC_BYTES]
        return payload if hmac.compare_digest(text, self.sign(purpose, payload)) else None

    def _mac(self, purpose: str, payload: bytes) -> bytes:
        key = hmac.digest(self._key, purpose.encode(), hashlib.sha256)
        return hmac.digest(key, payload, hashlib.sha256)[:_MAC_BYTES]


_TO_STANDARD = str.maketrans("-_", "+/")
