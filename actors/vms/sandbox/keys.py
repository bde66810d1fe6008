"""The two key pairs of a VM: its host key, and the key by which the service logs in to it."""

from __future__ import annotations

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
        # A service that starts needs none before it answers, and these imports take a thirtieth of its start.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
            PublicFormat,
        )

        key = Ed25519PrivateKey.generate()
        return cls(
            private=key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode(),
            public=key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode(),
        )
