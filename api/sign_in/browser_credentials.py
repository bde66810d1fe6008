"""Passkey credentials as browsers send them: JSON with binary fields in base64.

Fields are written in base64url without padding; standard base64 and padding are understood.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

_BASE64 = re.compile(r"[A-Za-z0-9_-]*={0,2}", re.ASCII)
_URL_SAFE = str.maketrans("+/", "-_")
_TRANSPORTS = frozenset({"ble", "cable", "hybrid", "internal", "nfc", "smart-card", "usb"})
_CREDENTIAL_BYTES = 1023


class CredentialUnreadable(Exception):
    """The credential is not what a browser sends; the message says why."""


@immutable
class Attestation:
    """A new credential: what `navigator.credentials.create` returned."""

    credential_id: bytes
    client_data: bytes
    attestation_object: bytes
    transports: tuple[str, ...]


@immutable
class Assertion:
    """A use of a credential: what `navigator.credentials.get` returned."""

    credential_id: bytes
    client_data: bytes
    authenticator_data: bytes
    signature: bytes
    user_handle: bytes | None


def read_attestation(document: Mapping[str, object]) -> Attestation:
    """Return the new credential in a document. Raises CredentialUnreadable."""
    credential_id, response = _parts(document)
    transports = response.get("transports")
    listed = transports if isinstance(transports, list) else []
    known = [each for each in listed if isinstance(each, str) and each in _TRANSPORTS]
    return Attestation(
        credential_id,
        _binary(response, "clientDataJSON"),
        _binary(response, "attestationObject"),
        tuple(dict.fromkeys(known)),
    )


def read_assertion(document: Mapping[str, object]) -> Assertion:
    """Return the use of a credential in a document. Raises CredentialUnreadable."""
    credential_id, response = _parts(document)
    return Assertion(
        credential_id,
        _binary(response, "clientDataJSON"),
        _binary(response, "authenticatorData"),
        _binary(response, "signature"),
        None if response.get("userHandle") is None else _binary(response, "userHandle"),
    )


def _parts(document: Mapping[str, object]) -> tuple[bytes, Mapping[str, object]]:
    """Return a credential's id and its response."""
    if document.get("type") != "public-key":
        raise CredentialUnreadable('type: expected "public-key"')
    credential_id = _binary(document, "id")
    if not 1 <= len(credential_id) <= _CREDENTIAL_BYTES:
        raise CredentialUnreadable(f"id: expected 1 to {_CREDENTIAL_BYTES} bytes")
    if document.get("rawId") is not None and _binary(document, "rawId") != credential_id:
        raise CredentialUnreadable("rawId: expected the same bytes as in id")
    response = document.get("response")
    if not isinstance(response, dict):
        raise CredentialUnreadable("response: expected an object")
    return credential_id, response


def _binary(document: Mapping[str, object], name: str) -> bytes:
    value = document.get(name)
    text = value.translate(_URL_SAFE) if isinstance(value, str) else None
    if text is not None and _BASE64.fullmatch(text):
        digits = text.rstrip("=")
        if len(digits) % 4 != 1:
            return base64.urlsafe_b64decode(digits + "=" * (-len(digits) % 4))
    raise CredentialUnreadable(f"{name}: expected bytes in base64url")
