"""Secrets at rest: encrypted by AES-256-GCM with one key, in a file of its own, or only their hashes.

The cipher is imported at its first use, because most commands only check that the key exists.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from storage.errors import KeyUnreadable, SealBroken
from storage.files.kinds import sync_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"


def hashed(secret: str) -> bytes:
    """Return the SHA-256 of a secret, which is stored in its place."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class Vault:
    """Seals bytes, opens what it sealed, and derives keys for other purposes. Safe in any thread."""

    def __init__(self, key: bytes) -> None:
        """Store the key, 32 bytes."""
        self._key = key

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)

    @classmethod
    def create(cls, path: Path) -> Vault:
        """Write a new key to a new file that only its owner may read. Raises FileExistsError."""
        key = os.urandom(_KEY_BYTES)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(base64.b64encode(key) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
        return cls(key)

    @classmethod
    def load(cls, path: Path) -> Vault:
        """Read the key. Raises KeyUnreadable if it is missing, readable by others, or damaged."""
        text, mode = _read(path)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyUnreadable(f"others may read the key {path}: run `chmod 600 {path}`")
        return cls(_decoded(text, path))

    @classmethod
    def of_service(cls, path: Path, environ: Mapping[str, str]) -> Vault:
        """Read the key from the systemd credential of that name if this process has it, else as `load` does.

        The mode of a credential is not checked: systemd controls access to it by more than the mode. Raises
        KeyUnreadable.
        """
        credential = Path(environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"), path.name)
        if not os.access(credential, os.R_OK):
            return cls.load(path)
        return cls(_decoded(_read(credential)[0], credential))

    def seal(self, plain: bytes, context: bytes = b"") -> bytes:
        """Encrypt and authenticate ``plain``, to be opened in the same context; the result differs each time."""
        nonce = os.urandom(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plain, _VERSION + context)

    def open(self, sealed: bytes, context: bytes = b"") -> bytes:
        """Return the plain bytes. Raises SealBroken if they were changed, or for another key or context."""
        from cryptography.exceptions import InvalidTag

        version, nonce, rest = sealed[:1], sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            if version != _VERSION or len(nonce) != _NONCE_BYTES:
                raise InvalidTag
            return self._cipher.decrypt(nonce, rest, _VERSION + context)
        except InvalidTag as error:
            raise SealBroken(
                "sealed data cannot be decrypted: it was changed or moved, or sealed with another secret.key"
            ) from error

    def derive(self, purpose: bytes) -> bytes:
        """Return a key of 32 bytes for one purpose: the same at each start, and independent of other keys."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=b"ci-daemon " + purpose).derive(self._key)


def _read(path: Path) -> tuple[bytes, int]:
    """Return the content and mode of a key's file. Raises KeyUnreadable."""
    try:
        with path.open("rb") as file:
            return file.read(1024), os.fstat(file.fileno()).st_mode
    except OSError as error:
        remedy = "restore it from your backup" if isinstance(error, FileNotFoundError) else "run this as its owner"
        raise KeyUnreadable(f"cannot read the key {path}: {error.strerror}; {remedy}") from error


def _decoded(text: bytes, path: Path) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise KeyUnreadable(f"{path} holds no key of {_KEY_BYTES} bytes in base64: restore it from your backup")
    return key
