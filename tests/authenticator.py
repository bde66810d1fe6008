"""An authenticator in software and its browser, whose answers may be wrong in any one field."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

ORIGIN = "https://ci.example.org"
RP_ID = "ci.example.org"
AAGUID = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")
UP, UV, BE, BS, AT = 0x01, 0x04, 0x08, 0x10, 0x40
ES256, RS256 = -7, -257


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unbase64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Authenticator:
    """One passkey. Every part of an answer can be given in place of the right one, by its name."""

    algorithm: int = ES256
    origin: str = ORIGIN
    rp_id: str = RP_ID
    counts: bool = True
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    handle: bytes = b""
    sign_count: int = 0

    def __post_init__(self) -> None:
        self._key = _rsa_key() if self.algorithm == RS256 else ec.generate_private_key(ec.SECP256R1())

    @property
    def public_key(self) -> dict[int, Any]:
        """The public key in COSE."""
        numbers = self._key.public_key().public_numbers()
        if isinstance(numbers, rsa.RSAPublicNumbers):
            return {1: 3, 3: RS256, -1: numbers.n.to_bytes(256, "big"), -2: numbers.e.to_bytes(3, "big")}
        return {1: 2, 3: ES256, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}

    def create(self, options: dict[str, Any], **given: Any) -> dict[str, Any]:
        """Make the passkey, as `navigator.credentials.create` does; return its JSON."""
        self.handle = unbase64url(options["user"]["id"])
        client_data = self._client_data("webauthn.create", options["challenge"], given)
        auth_data = given.get("auth_data") or self.auth_data(given, with_key=True)
        attestation = given.get("attestation_object") or cbor2.dumps(
            {"fmt": given.get("fmt", "none"), "attStmt": given.get("statement", {}), "authData": auth_data}
        )
        response = {"clientDataJSON": base64url(client_data), "attestationObject": base64url(attestation)}
        return self._credential({**response, "transports": ["internal", "hybrid", "of-the-future"]}, given)

    def get(self, options: dict[str, Any], **given: Any) -> dict[str, Any]:
        """Use the passkey, as `navigator.credentials.get` does; return its JSON."""
        if self.counts:
            self.sign_count += 1
        client_data = self._client_data("webauthn.get", options["challenge"], given)
        auth_data = given.get("auth_data") or self.auth_data(given)
        signed = given.get("signed") or auth_data + hashlib.sha256(client_data).digest()
        response = {
            "clientDataJSON": base64url(given.get("sent_client_data", client_data)),
            "authenticatorData": base64url(auth_data),
            "signature": base64url(given.get("signature") or self._sign(signed)),
            "userHandle": base64url(given.get("handle", self.handle)),
        }
        return self._credential(response, given)

    def auth_data(self, given: dict[str, Any], *, with_key: bool = False) -> bytes:
        """Return authenticator data."""
        flags = given.get("flags", UP | UV) | (AT if with_key else 0)
        rp_id_hash = hashlib.sha256(given.get("rp_id", self.rp_id).encode()).digest()
        data = rp_id_hash + bytes([flags]) + given.get("sign_count", self.sign_count).to_bytes(4, "big")
        if with_key:
            credential_id = given.get("attested_id", self.credential_id)
            data += AAGUID + len(credential_id).to_bytes(2, "big") + credential_id
            data += given.get("raw_key") or cbor2.dumps({**self.public_key, **given.get("key", {})})
        return bytes(data + given.get("extra", b""))

    def _client_data(self, kind: str, challenge: str, given: dict[str, Any]) -> bytes:
        document = {
            "type": given.get("type", kind),
            "challenge": given.get("challenge", challenge),
            "origin": given.get("origin", self.origin),
            "crossOrigin": False,
            **given.get("client_data", {}),
        }
        return given.get("raw_client_data") or json.dumps(document).encode()

    def _sign(self, data: bytes) -> bytes:
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(data, padding.PKCS1v15(), SHA256())
        return self._key.sign(data, ec.ECDSA(SHA256()))

    def _credential(self, response: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        credential_id = base64url(given.get("credential_id", self.credential_id))
        credential = {"id": credential_id, "rawId": credential_id, "type": "public-key"}
        return {**credential, **given.get("credential", {}), "response": {**response, **given.get("response", {})}}


@cache
def _rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)
