"""The keys that sign identity tokens and provenance: made, published before they sign, and retired.

Consumers fetch the public keys now and then and keep them. So a key is public for a day before it signs, but for the
first, and as long as a token that it signed may live. Then its private half is erased. Its public half is kept, because
provenance that it signed is verified for years. The library is imported at its first use: few services have such jobs.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

from storage.data_classes import immutable
from storage.database.clock import from_micros, to_micros
from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.service import IssuerKeyRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from storage.database.connection import Database
    from storage.vault import Vault

ALGORITHM = "RS256"
"""The one that every consumer takes: AWS, Google Cloud, Azure, Vault and cosign."""

LONGEST_TOKEN = timedelta(hours=1)
_AHEAD = timedelta(days=1)
_SIGNS = timedelta(days=30)
_LEEWAY = timedelta(hours=1)
_BITS = 2048


@immutable
class IssuerKey:
    """A key, whose ``public_key`` is a JWK as JSON. ``uuid`` is its name there.

    ``private_key`` is sealed, and empty once the key is retired.
    """

    uuid: str
    public_key: str
    private_key: bytes
    created_at: datetime


_KEY = Columns.of(IssuerKey, IssuerKeyRow)


class IssuerKeys:
    """The keys of this service as an issuer of identity tokens. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        self._all = Query(database, lambda: IssuerKeyRow.select(*_KEY.selected).order_by(IssuerKeyRow.id.desc()), _KEY)
        self._insert = Write(database, lambda: insert_into(IssuerKeyRow))
        self._retire = Write(
            database,
            lambda: IssuerKeyRow.update({IssuerKeyRow.private_key: slot("erased")}).where(
                IssuerKeyRow.uuid == slot("uuid")
            ),
        )

    def public(self) -> list[Mapping[str, object]]:
        """Return the public keys of tokens that may live now as JWKs, newest first."""
        keys = self._current()
        over = spent(keys, self._now())
        return [json.loads(each.public_key) for each in keys if each not in over]

    def ever_public(self) -> list[Mapping[str, object]]:
        """Return the public keys of all that was ever signed as JWKs, newest first."""
        return [json.loads(each.public_key) for each in self._current()]

    def signed(self, claims: Mapping[str, object]) -> str:
        """Return a token with claims, of which ``exp`` is at most an hour from now. Raises SealBroken."""
        from joserfc import jwt
        from joserfc.jwk import RSAKey

        key = signing_key(self._current(), self._now())
        private = RSAKey.import_key(self._private(key))
        header = {"alg": ALGORITHM, "typ": "JWT", "kid": key.uuid}
        return jwt.encode(header, dict(claims), private, algorithms=[ALGORITHM])

    def sign(self, message: bytes) -> tuple[str, bytes]:
        """Return the name of the key that signs now and its RS256 signature of a message. Raises SealBroken."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = signing_key(self._current(), self._now())
        private = load_pem_private_key(self._private(key), None)
        assert isinstance(private, RSAPrivateKey)  # noqa: S101 - all keys are made here
        return key.uuid, private.sign(message, PKCS1v15(), SHA256())

    def _private(self, key: IssuerKey) -> bytes:
        return self._vault.open(key.private_key, _seal_context(key.uuid))

    def _now(self) -> datetime:
        return from_micros(self._database.now())

    def _current(self) -> list[IssuerKey]:
        """Return the keys, newest first, after a new one is made and old ones are retired if that is due."""
        keys = self._all.all()
        if not is_due(keys, self._now()):
            return keys
        made = self._make()  # takes long, so nothing waits for it
        with self._database.write():
            keys = self._all.all()
            if is_due(keys, self._now()):
                self._insert.run(
                    uuid=made.uuid,
                    public_key=made.public_key,
                    private_key=made.private_key,
                    created_at=to_micros(made.created_at),
                )
                for each in spent(keys, self._now()):
                    self._retire.run(uuid=each.uuid, erased=b"")
            return self._all.all()

    def _make(self) -> IssuerKey:
        from joserfc.jwk import RSAKey

        uuid = str(uuid4())
        key = RSAKey.generate_key(_BITS)
        public = {**key.as_dict(private=False), "kid": uuid, "use": "sig", "alg": ALGORITHM}
        sealed = self._vault.seal(key.as_pem(private=True), _seal_context(uuid))
        return IssuerKey(uuid, json.dumps(public), sealed, self._now())


def is_due(keys: Sequence[IssuerKey], now: datetime) -> bool:
    """Tell whether a new key is to be made: there is none, or the newest, of ``keys[0]``, is 30 days old."""
    return not keys or now - keys[0].created_at >= _SIGNS


def signing_key(keys: Sequence[IssuerKey], now: datetime) -> IssuerKey:
    """Return the key that signs now: the newest that was public for a day, else the oldest."""
    return next((each for each in keys if now - each.created_at >= _AHEAD), keys[-1])


def spent(keys: Sequence[IssuerKey], now: datetime) -> list[IssuerKey]:
    """Return the keys, of those newest first, that signed no token which may live now."""
    over = _AHEAD + LONGEST_TOKEN + _LEEWAY
    return [old for newer, old in pairwise(keys) if now - newer.created_at >= over]


def _seal_context(uuid: str) -> bytes:
    """Return the seal context of a key; it is part of the stored format and never changes."""
    return f"issuer key {uuid}".encode()
