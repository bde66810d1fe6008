"""Certificates of an engine's clients."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["ClientCertificate"]


@dataclass(frozen=True)
class ClientCertificate:
    """Files of a certificate and its key, both PEM."""

    file: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, *, days: int = 1) -> ClientCertificate:
        """Make one that is valid for ``days``, which have passed if they are negative."""
        key = ec.generate_private_key(ec.SECP384R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2 + abs(days)))
            .not_valid_after(now + timedelta(days=days))
            .sign(key, SHA256())
        )
        made = cls(folder / "client.crt", folder / "client.key")
        made.file.write_bytes(signed.public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made
