"""The two key pairs of a VM: its host key, and the key by which the service logs in to it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from storage import immutable

__all__ = ["KeyPair"]


@immutable
class KeyPair:
    """An ed25519 pair: ``private`` in OpenSSH PEM form, ``public`` as ``"ssh-ed25519 AAAA..."``."""

    private: str
    public: str

    @classmethod
    def make(cls) -> KeyPair:
        """Make a new pair."""
        key = Ed25519PrivateKey.generate()
        return cls(
            private=key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
            public=key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        )
