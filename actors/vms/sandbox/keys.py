"""The two key pairs of a VM: its host key, and the key by which the service logs in to it."""

from __future__ import annotations

from storage import immutable


@immutable
class KeyPair:
    """An ed25519 pair: ``private`` in OpenSSH PEM form, ``public`` as ``"ssh-ed25519 AAAA..."``."""

    private: str
    public: str

    @classmethod
    def make(cls) -> KeyPair:
        """Make a new pair."""
        # A service that starts makes none before it answers, and these imports take a thirtieth of its start.
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - see above

        key = Ed25519PrivateKey.generate()
        encoding = serialization.Encoding
        private = key.private_bytes(encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        public = key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return cls(private.decode(), public.decode())
