"""Accounts at source hosts that organizations connect, and credentials of repositories.

See wire-decisions.md, "Source hosts".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from storage.database.clock import from_micros
from storage.database.statements import Columns, Query, SqlValue, Write, insert_into, slot, written
from storage.errors import HostConnectedElsewhere
from storage.models.accounts import OrganizationRow
from storage.models.source_hosts import HostConnectionRow, OrganizationKeyRow, RepositoryCredentialRow
from storage.records.source_hosts import DeployKey, GitCredential, HostConnection, OrganizationKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.database.connection import Database
    from storage.records.source_hosts import NewHostConnection, Repository
    from storage.vault import Vault


_CONNECTION = Columns.of(HostConnection, HostConnectionRow)


class HostConnections:
    """The connected accounts. Those of closed organizations are not found. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        this = HostConnectionRow.id == slot("id")
        connections = (
            HostConnectionRow.select(*_CONNECTION.selected)
            .join(OrganizationRow)
            .where(OrganizationRow.closed_at.is_null())
        )
        of_provider = HostConnectionRow.provider == slot("provider")
        self._get = Query(database, lambda: connections.where(this), _CONNECTION)
        self._find = Query(
            database,
            lambda: connections.where(of_provider, HostConnectionRow.remote_id == slot("remote_id")),
            _CONNECTION,
        )
        self._of_organization = Query(
            database,
            lambda: connections.where(of_provider, HostConnectionRow.organization == slot("organization_id")).order_by(
                HostConnectionRow.id
            ),
            _CONNECTION,
        )
        self._of_provider = Query(database, lambda: connections.where(of_provider), _CONNECTION)
        self._credential = Query(
            database, lambda: HostConnectionRow.select(HostConnectionRow.credential).where(this), _sealed
        )
        self._insert = Write(
            database, lambda: insert_into(HostConnectionRow, "credential", "synced_at", "suspended_at")
        )
        self._update = Write(
            database,
            lambda: HostConnectionRow.update(
                {
                    HostConnectionRow.account: slot("account"),
                    HostConnectionRow.account_type: slot("account_type"),
                    HostConnectionRow.name: slot("name"),
                    HostConnectionRow.updated_at: slot("now"),
                }
            ).where(this),
        )
        self._set_credential = Write(
            database,
            lambda: HostConnectionRow.update(
                {HostConnectionRow.credential: slot("sealed"), HostConnectionRow.updated_at: slot("now")}
            ).where(this),
        )
        self._set_synced = Write(database, lambda: HostConnectionRow.update(synced_at=slot("now")).where(this))
        self._set_suspended = Write(
            database, lambda: HostConnectionRow.update(suspended_at=slot("at"), updated_at=slot("now")).where(this)
        )
        self._remove = Write(database, lambda: HostConnectionRow.delete().where(this))

    def connect(self, new: NewHostConnection) -> HostConnection:
        """Connect an account, or bring what is known of it up to date.

        Raises HostConnectedElsewhere if it belongs to another organization.
        """
        with self._database.write():
            now = self._database.now()
            account = {"account": new.account, "account_type": new.account_type, "name": new.name}
            found = self.find(new.provider, new.remote_id)
            if found is None:
                connection_id = self._insert.insert(
                    uuid=str(uuid4()),
                    organization_id=new.organization_id,
                    provider=new.provider,
                    remote_id=new.remote_id,
                    created_at=now,
                    updated_at=now,
                    **account,
                )
            elif found.organization_id != new.organization_id:
                raise HostConnectedElsewhere(f"{new.account} at {new.provider} belongs to another organization")
            else:
                connection_id = found.id
                self._update.run(id=connection_id, now=now, **account)
            connected = written(self.get(connection_id))
            if new.credential is not None:
                self.set_credential(connected, new.credential)
            return connected

    def get(self, connection_id: int) -> HostConnection | None:
        """Return a connection by row id."""
        return self._get.one(id=connection_id)

    def find(self, provider: str, remote_id: str) -> HostConnection | None:
        """Return a connection by the host's name for it."""
        return self._find.one(provider=provider, remote_id=remote_id)

    def of_organization(self, organization_id: int, provider: str) -> list[HostConnection]:
        """Return an organization's connections to a kind of host, oldest first."""
        return self._of_organization.all(organization_id=organization_id, provider=provider)

    def of_provider(self, provider: str) -> list[HostConnection]:
        """Return every connection to a kind of host, oldest first."""
        return sorted(self._of_provider.all(provider=provider), key=lambda each: each.id)

    def credential(self, connection: HostConnection) -> bytes | None:
        """Return what was sealed for a connection. Raises SealBroken if the key is another."""
        sealed = self._credential.one(id=connection.id)
        return None if sealed is None else self._vault.open(sealed, _context(connection))

    def set_credential(self, connection: HostConnection, credential: bytes) -> None:
        """Replace the credential of a connection, such as by a renewed token."""
        sealed = self._vault.seal(credential, _context(connection))
        with self._database.write():
            self._set_credential.run(id=connection.id, sealed=sealed, now=self._database.now())

    def synced(self, connection: HostConnection) -> None:
        """Note that the repositories of a connection are those that the host has."""
        with self._database.write():
            self._set_synced.run(id=connection.id, now=self._database.now())

    def suspend(self, connection: HostConnection) -> None:
        """Note that the host has suspended a connection."""
        with self._database.write():
            now = self._database.now()
            self._set_suspended.run(id=connection.id, at=now, now=now)

    def resume(self, connection: HostConnection) -> None:
        """Note that a connection is no longer suspended."""
        with self._database.write():
            self._set_suspended.run(id=connection.id, at=None, now=self._database.now())

    def remove(self, connection: HostConnection) -> None:
        """Remove a connection with its repositories. Their pipelines and builds stay."""
        with self._database.write():
            self._remove.run(id=connection.id)


def _context(connection: HostConnection) -> bytes:
    return f"host connection {connection.uuid}".encode()


def _sealed(row: Sequence[bytes | None]) -> bytes | None:
    return row[0]


class OrganizationKeys:
    """The deploy key of each organization that has one. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self._database = database
        self._vault = vault
        row = OrganizationKeyRow
        self._get = Query(
            database,
            lambda: row.select(row.secret, row.public_key, row.created_at).where(
                row.organization == slot("organization_id")
            ),
            lambda found: (bytes(found[0]), str(found[1]), from_micros(found[2])),
        )
        self._put = Write(database, lambda: insert_into(row).on_conflict("REPLACE"))

    def of(self, organization_id: int) -> OrganizationKey | None:
        """Return an organization's key, None without. Raises SealBroken if the key of the service is another."""
        found = self._get.one(organization_id=organization_id)
        if found is None:
            return None
        sealed, public_key, created_at = found
        private_key = self._vault.open(sealed, _context_of_organization(organization_id)).decode()
        return OrganizationKey(private_key, public_key, created_at)

    def put(self, organization_id: int, private_key: str, public_key: str) -> OrganizationKey:
        """Give an organization a key, in place of any other, for all repositories that are fetched with it."""
        sealed = self._vault.seal(private_key.encode(), _context_of_organization(organization_id))
        with self._database.write():
            now = self._database.now()
            self._put.run(organization_id=organization_id, public_key=public_key, secret=sealed, created_at=now)
            return written(self.of(organization_id))


def _context_of_organization(organization_id: int) -> bytes:
    return f"deploy key of organization {organization_id}".encode()


_Stored: TypeAlias = tuple[str | None, str, str, bytes, bool]


class RepositoryCredentials:
    """One credential for each repository that needs one. Safe in any thread."""

    def __init__(self, database: Database, vault: Vault, keys: OrganizationKeys) -> None:
        self._database = database
        self._vault = vault
        self._keys = keys
        row = RepositoryCredentialRow
        this = row.repository == slot("id")
        self._get = Query(
            database,
            lambda: row.select(row.username, row.public_key, row.host_key, row.secret, row.of_organization).where(this),
            _stored_credential,
        )
        self._put = Write(database, lambda: insert_into(row).on_conflict("REPLACE"))
        self._remove = Write(database, lambda: row.delete().where(this))

    def of(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return a repository's credential. Raises SealBroken if the key of the service is another."""
        found = self._get.one(id=repository.id)
        if found is None:
            return None
        username, public_key, host_key, sealed, of_organization = found
        if of_organization:
            key = self._keys.of(repository.organization_id)
            return None if key is None else DeployKey(key.private_key, key.public_key, host_key, of_organization=True)
        secret = self._vault.open(sealed, _context_of_repository(repository)).decode()
        return DeployKey(secret, public_key, host_key) if username is None else GitCredential(username, secret)

    def put(self, repository: Repository, credential: GitCredential | DeployKey) -> None:
        """Give a repository a credential, in place of any other.

        Of a key of its organization only the server's is stored, so that another key takes its place at once.
        """
        columns: dict[str, SqlValue] = {"username": None, "public_key": None, "host_key": None, "of_organization": 0}
        if isinstance(credential, GitCredential):
            columns["username"], secret = credential.username, credential.password
        elif credential.of_organization:
            secret = ""
            columns |= {"public_key": "", "host_key": credential.host_key, "of_organization": 1}
        else:
            secret = credential.private_key
            columns |= {"public_key": credential.public_key, "host_key": credential.host_key}
        columns["secret"] = self._vault.seal(secret.encode(), _context_of_repository(repository))
        with self._database.write():
            self._put.run(repository_id=repository.id, **columns)

    def remove(self, repository: Repository) -> None:
        """Forget a repository's credential."""
        with self._database.write():
            self._remove.run(id=repository.id)


def _stored_credential(row: Sequence[str | bytes | None]) -> _Stored:
    username, public_key, host_key, secret, of_organization = row
    return (
        None if username is None else str(username), str(public_key), str(host_key), bytes(secret),  # type: ignore[arg-type]
        bool(of_organization),
    )  # fmt: skip


def _context_of_repository(repository: Repository) -> bytes:
    return f"repository {repository.uuid}".encode()
