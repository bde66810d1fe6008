"""Credentials of repositories that belong to no account at a host: passwords and deploy keys, sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from storage.database.statements import Query, SqlValue, Write, insert_into, slot
from storage.models import RepositoryCredentialRow
from storage.records import DeployKey, GitCredential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database
    from storage.records import Repository
    from storage.vault import Vault

_Stored: TypeAlias = tuple[str | None, str, str, bytes]


class RepositoryCredentials:
    """One credential for each repository that needs one. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        row = RepositoryCredentialRow
        this = row.repository == slot("id")
        self._get = Query(
            database, row.select(row.username, row.public_key, row.host_key, row.secret).where(this), _stored
        )
        self._put = Write(database, insert_into(row).on_conflict("REPLACE"))
        self._remove = Write(database, row.delete().where(this))

    def of(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return a repository's credential. Raises SealBroken if the key of the service is another."""
        found = self._get.one(id=repository.id)
        if found is None:
            return None
        username, public_key, host_key, sealed = found
        secret = self._vault.open(sealed, _context(repository)).decode()
        return DeployKey(secret, public_key, host_key) if username is None else GitCredential(username, secret)

    def put(self, repository: Repository, credential: GitCredential | DeployKey) -> None:
        """Give a repository a credential, in place of any other."""
        columns: dict[str, SqlValue] = {"username": None, "public_key": None, "host_key": None}
        if isinstance(credential, GitCredential):
            columns["username"], secret = credential.username, credential.password
        else:
            secret = credential.private_key
            columns |= {"public_key": credential.public_key, "host_key": credential.host_key}
        columns["secret"] = self._vault.seal(secret.encode(), _context(repository))
        with self._database.write():
            self._put.run(repository_id=repository.id, **columns)

    def remove(self, repository: Repository) -> None:
        """Forget a repository's credential."""
        with self._database.write():
            self._remove.run(id=repository.id)


def _stored(row: Sequence[str | bytes | None]) -> _Stored:
    username, public_key, host_key, secret = row
    return (
        None if username is None else str(username), str(public_key), str(host_key), bytes(secret)  # type: ignore[arg-type]
    )  # fmt: skip


def _context(repository: Repository) -> bytes:
    return f"repository {repository.uuid}".encode()
