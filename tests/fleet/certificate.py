"""Certificates of an engine's clients, and of members."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """Files of a certificate and its key, both PEM."""

    file: Path
    key: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Make one that is valid today."""
        now = datetime.now(UTC)
        return cls.of_time(folder, now - timedelta(days=1), now + timedelta(days=1))

    @classmethod
    def of_time(cls, folder: Path, begin: datetime, end: datetime) -> Self:
        """Make one that is valid between two instants."""
        key = ec.generate_private_key(ec.SECP384R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        signed = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .sign(key, SHA256())
        )
        made = cls(folder / "made.crt", folder / "made.key")
        made.file.write_bytes(signed.public_bytes(Encoding.PEM))
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made
