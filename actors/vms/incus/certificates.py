"""Certificates by which the service and an engine know each other, and an engine's invitations."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from actors.vms.incus.refusals import EngineAway, EngineError
from storage import error_reason, immutable

if TYPE_CHECKING:
    from datetime import datetime

_VALID_DAYS = 3650


@immutable
class JoinToken:
    """An engine's invitation, as `incus config trust add` or `lxc config trust add` prints it."""

    text: str
    addresses: tuple[str, ...]
    fingerprint: str

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Read a token. Raises EngineError."""
        try:
            fields = json.loads(base64.b64decode(text, validate=True))
            addresses = tuple(f"https://{each}" for each in fields["addresses"])
            return cls(text, addresses, str(fields["fingerprint"]))
        except (ValueError, TypeError, KeyError) as error:
            message = "this is no token of an engine: `incus config trust add ci-daemon` prints one"
            raise EngineError(message) from error


def new_certificate(now: datetime) -> tuple[str, str]:
    """Return a new certificate of the service and its private key, both in PEM form.

    It is valid for as long before ``now`` as after, because a member's clock may be behind.
    """
    private = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ci-daemon")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=_VALID_DAYS))
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(private, hashes.SHA384())
    )
    encoding = serialization.Encoding.PEM
    key = private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(encoding).decode(), key.decode()


def server_certificate(token: JoinToken) -> str:
    """Return the certificate that the token's members show, in PEM form.

    Raises EngineError if it is not the token's, EngineAway if no member answers.
    """
    failed = []
    for address in token.addresses:
        host, _, port = address.removeprefix("https://").rpartition(":")
        try:
            found = ssl.get_server_certificate((host.strip("[]"), int(port)), timeout=5)
        except OSError as error:
            failed.append(f"{address}: {error_reason(error)}")
            continue
        if fingerprint_of(ssl.PEM_cert_to_DER_cert(found)) != token.fingerprint:
            message = f"{address} is not the engine that made the token: its certificate is another one"
            raise EngineError(message)
        return found
    message = f"the engine does not answer ({'; '.join(failed)}): is it reachable from here?"
    raise EngineAway(message)


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint by which an engine names a certificate in DER form."""
    return hashlib.sha256(certificate).hexdigest()
